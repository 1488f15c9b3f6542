"""A query's status and the jobs that run flow in; what the query does now flows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scaler.model.spark_progress import read_time
from scaler.sensing.driver import Status
from scaler.sensing.executor_usage import stamp


@dataclass(frozen=True, slots=True)
class Doing:
    running_since: float | None = None  # since when its oldest running job runs; None where none does
    run: str | None = None  # of it that is there


def find_doing(status: Status | None, jobs: Callable[[], Iterable[object]]) -> Doing:
    """Jobs are asked for only where the query says that it works; they know their query by its run."""
    if status is None:
        return Doing()
    if not status.active:
        return Doing(run=status.run)
    own = [job for job in jobs() if isinstance(job, Mapping) and job.get("jobGroup") == status.run]
    times = [time for job in own if (time := read_time(stamp(job.get("submissionTime")))) is not None]
    return Doing(min(times, default=None), status.run)
