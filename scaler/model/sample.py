"""Sample: what an operator did between two moments, in the one shape that every source emits.

A source emits samples as fine as it knows: one a task, a micro-batch, a flush of a timer, a line of a table. `fold`
puts them on a grid of equal windows; everything that can be added up is a sum, so that windows add up too. None means
that the source does not know, and is never read as zero.

Notation, of the tasks or batches that ran in the window: n_i records took t_i seconds, t_i = overhead + n_i s + noise
of variance n_i v. The weights of the least squares are 1 / n_i, so these sums are all that a fit needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

EVIDENCE = ("records", "progress", "tasks", "table")  # the more exact before the less, column by column


@dataclass(frozen=True, slots=True)
class Sample:
    """What one operator did in [start, end), seconds since 1970 in UTC, on one node type where the source shows it."""

    application: str
    operator: str
    start: float
    end: float
    evidence: str
    key: str | None = None  # what makes a fine sample the same one when it is read twice; None once folded
    node_type: str | None = None

    arrived: float | None = None  # tuples that came to the operator's door in the window
    tuples_in: float | None = None  # tuples taken in and worked on
    tuples_out: float | None = None
    backlog: float | None = None  # tuples waiting at the end of the window

    service_n: float | None = None  # tuples timed one by one, their times and squared times
    service_sum: float | None = None
    service_squares: float | None = None

    task_n: float | None = None  # tasks or batches timed as a whole, of at least one record
    task_records: float | None = None  # sum of n_i
    task_time: float | None = None  # sum of t_i
    task_inverse: float | None = None  # sum of 1 / n_i
    task_rates: float | None = None  # sum of t_i / n_i
    task_squares: float | None = None  # sum of t_i^2 / n_i

    busy: float | None = None  # replica-seconds of work
    replicas: float | None = None  # mean over the window, of this node type

    batches: float | None = None  # micro-batches that ended in the window
    batch_time: float | None = None  # sum of their durations, trigger to commit
    batch_interval: float | None = None  # sum of the times from each one's trigger to the next one's

    state_rows: float | None = None  # at the end of the window
    state_bytes: float | None = None
    state_partitions: float | None = None

    commit_time: float | None = None  # task-seconds in which batches committed their state
    store_loads: float | None = None  # state stores that were loaded from the checkpoint
    store_load_time: float | None = None  # task-seconds of these loads

    response_n: float | None = None  # tuples or batches whose response time is known
    response_sum: float | None = None
    responses: Mapping[str, float] | None = None  # sketch of the tuples' response times (`scaler.model.sketch`)

    completeness: float = 1.0  # share of [start, end) that the evidence covers
