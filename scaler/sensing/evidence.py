"""All that is known of one operator's slot before it is evaluated, in one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scaler.acting.gateway import SparkStage
from scaler.sensing.batch_history import QueryPast
from scaler.sensing.driver import QueryActivity
from scaler.sensing.executor_usage import ObservedExecutor, TaskTimes
from scaler.sensing.source_files import SourceFolder
from scaler.sensing.timed_records import TimedSeconds


@dataclass(frozen=True, slots=True)
class Evidence:
    """One operator in [start, end); None is not known."""

    operator: str
    start: float
    end: float
    past: QueryPast = QueryPast()  # noqa: RUF009  frozen; with the batch that was planned last
    entry: bool = True  # what arrives at the query arrives here
    leaving: bool = True  # what the query writes is written here
    activity: QueryActivity = QueryActivity()  # noqa: RUF009  frozen; at the slot's end
    folder: SourceFolder | None = None  # that the query reads files from
    executors: Sequence[ObservedExecutor] | None = None  # of the operator's profiles
    task_times: TaskTimes = TaskTimes()  # noqa: RUF009  frozen; of all executors
    waiting: tuple[SparkStage, ...] = ()  # stages of the query that no executor can run, at the slot's end
    timed: TimedSeconds | None = None  # by the operator's timers
