"""What may be done with each column of a sample: which add up, and which are one measurement and stay together."""

from __future__ import annotations

from typing import NamedTuple

PLACE = ("application", "operator", "node_type")


class ColumnBlock(NamedTuple):
    """Columns that one source measured together; where one of them is known, all are taken from there."""

    columns: tuple[str, ...]
    total: bool  # of everything that happened, so that who saw more of a window knows it better
    guess: str | None = None  # the kind of evidence that only works it out: whoever measured it knows it better


BLOCKS = (
    ColumnBlock(("arrived",), True),
    ColumnBlock(("tuples_in",), True),
    ColumnBlock(("tuples_out",), True),
    ColumnBlock(("backlog",), True),
    ColumnBlock(("service_n", "service_sum", "service_squares"), False),
    ColumnBlock(("task_n", "task_records", "task_time", "task_inverse", "task_rates", "task_squares"), False),
    ColumnBlock(("busy",), True),
    ColumnBlock(("replicas",), True),
    ColumnBlock(("batches", "batch_time", "batch_interval"), True),
    ColumnBlock(("response_n", "response_sum"), False, "progress"),
)
LEVELS = ("backlog", "replicas")  # of a moment or a mean; all others add up
AT_THE_END = ("batches", "batch_time", "batch_interval")  # count where the sample ends, however long it took
MEASURED = tuple(column for block in BLOCKS for column in block.columns)
SUMS = tuple(column for column in MEASURED if column not in LEVELS)
SPREAD = tuple(column for column in SUMS if column not in AT_THE_END)
