"""State of one application's retuning between two phases, and how each transition changes it.

It is stored as JSON in the record's `detail`, under keys that older versions wrote too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tuner.rollout.tuning_requests import TuningRequest
from tuner.store.json_fields import keyed, read_fields, write_fields
from tuner.store.objective_evidence import StageFigures
from tuner.store.records import RetuningRecord


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an application is tuned."""

    kind: str = ""  # period, drift, error, qos, asked
    why: str = ""


@dataclass(frozen=True, slots=True)
class RetuningState:
    message: str | None = keyed("says")  # the newest sentence for people
    cause: Cause | None = None  # of the newest search
    request: TuningRequest | None = field(default=None, metadata={"key": "wish"})  # of a person
    run_id: int | None = keyed("run")  # of the search under way
    version: int | None = None  # of the objective that it proposed
    searches: int = 0  # begun so far; the seed of the next
    failures: int = keyed("fails", 0)  # in a row
    tuned: float | None = None  # when the newest search ended
    since: float | None = None  # when the objective in full use was confirmed or rolled back
    not_before: float | None = None  # no search of the daemon's own starts earlier
    reverts: int = 0  # in a row
    paused_by: str | None = keyed("paused")
    silent: bool = False  # the stage waits for agents that report nothing
    figures: StageFigures | None = None  # of the stage under way

    def to_json(self) -> dict[str, Any]:
        return write_fields(
            self,
            cause=None if self.cause is None else write_fields(self.cause),
            request=None if self.request is None else self.request.to_json(),
            figures=None if self.figures is None else write_fields(self.figures),
        )

    @classmethod
    def from_json(cls, document: Any) -> Self:
        cause, request, figures = (document.get(key) for key in ("cause", "wish", "figures"))
        return read_fields(
            cls,
            document,
            cause=None if cause is None else read_fields(Cause, cause),
            request=None if request is None else TuningRequest.from_json(request),
            figures=None if figures is None else read_fields(StageFigures, figures),
        )

    def start_search(self, cause: Cause, request: TuningRequest | None = None) -> Self:
        return replace(self, cause=cause, request=request, message=cause.why, run_id=None, version=None)

    def end_search(self, now: float, message: str | None) -> Self:
        """A search that ended without failure, with or without an objective to push."""
        return replace(self.stop_search(now, message), failures=0)

    def stop_search(self, now: float, message: str | None) -> Self:
        return replace(self.abandon_search(message), tuned=now)

    def abandon_search(self, message: str | None) -> Self:
        return replace(self, message=message, run_id=None, version=None, request=None)

    def fail_search(self, why: str, not_before: float) -> Self:
        return replace(self.abandon_search(why), failures=self.failures + 1, not_before=not_before)

    def enter_stage(self, message: str) -> Self:
        return replace(self, message=message, silent=False)

    def watch_stage(self, message: str, figures: StageFigures, silent: bool) -> Self:
        return replace(self, message=message, figures=figures, silent=silent)

    def roll_back(self, message: str, now: float, not_before: float) -> Self:
        tuned = now if self.tuned is None else self.tuned
        changed = replace(self, message=message, silent=False, reverts=self.reverts + 1, since=now)
        return replace(changed, not_before=not_before, tuned=tuned)

    def confirm(self, message: str, now: float) -> Self:
        """The objective in full use has passed its last stage."""
        return replace(self, message=message, since=now, reverts=0, failures=0, silent=False, figures=None)


Change = Callable[[RetuningState], RetuningState]


def state_of(record: RetuningRecord) -> RetuningState:
    return RetuningState.from_json(record.detail)
