"""Apply people's requests to an application's retuning; who asked is recorded with what was done."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tuner.retuning.state import Cause, DaemonContext, DaemonEvent, commit_phase, settings_of, state_of
from tuner.rollout.steering import TuningRequest
from tuner.store.connection import Session
from tuner.store.records import RetuningRecord
from tuner.store.retunings import find_retuning, remove_requests
from tuner.store.runs import claim_run, end_run

STEERING = ("pause", "resume", "stop")
TUNE = "tune"
SEARCHING = ("ingest", "fit", "check", "tune", "compare")  # phases between being due and a candidate


def is_requested(record: RetuningRecord) -> bool:
    """Whether a request can be applied now: one to tune waits for what is under way."""
    return any(word in record.asked for word in STEERING) or (TUNE in record.asked and record.phase == "idle")


def apply_requests(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Pause, resume and stop, in the order of the requests."""
    requests = [(word, TuningRequest.from_json(record.asked[word])) for word in STEERING if word in record.asked]
    for word, request in sorted(requests, key=lambda one: one[1].when):
        who = request.who
        if word == "stop":
            record = stop(context, record, who)
        elif word == "pause":
            event = DaemonEvent("paused", f"{who} paused the retuning of {record.application}", {"who": who})
            record = commit_phase(
                context, record, lambda state, who=who: replace(state, paused_by=who), event=event,  # type: ignore[misc]
                work=removal_of(record, word),
            )  # fmt: skip
        else:
            event = DaemonEvent("resumed", f"{who} let the retuning of {record.application} go on", {"who": who})
            record = commit_phase(
                context, record, lambda state: replace(state, paused_by=None), due=context.clock(), event=event,
                work=removal_of(record, word),
            )  # fmt: skip
    return reload_requests(context, record) if requests else record


def stop(context: DaemonContext, record: RetuningRecord, who: str) -> RetuningRecord:
    """End the search under way for good."""
    run_id = state_of(record).run_id

    def work(session: Session) -> None:
        remove_requests(session, record, ("stop",))
        run = None if run_id is None else claim_run(session, run_id, context.owner, time.time())
        if run is not None:
            end_run(session, run, "stopped", time.time(), f"stopped by {who}")

    if record.phase not in SEARCHING:
        return commit_phase(context, record, work=work)
    now, message = context.clock(), f"{who} stopped the tuning of {record.application}"
    event = DaemonEvent("tuning ended", message, {"who": who, "run": run_id})
    due = now + settings_of(record).check_s
    return commit_phase(context, record, lambda state: state.stop_search(now, message), "idle", due, event, work)


def start_requested(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Start the search that a person asked for."""
    request = TuningRequest.from_json(record.asked[TUNE])
    cause = Cause("asked", f"{request.who} asked for it")
    started = commit_phase(
        context, record, lambda state: state.start_search(cause, request), "ingest", work=removal_of(record, TUNE)
    )
    return reload_requests(context, started)


def removal_of(record: RetuningRecord, word: str) -> Callable[[Session], object]:
    return lambda session: remove_requests(session, record, (word,))


def reload_requests(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """The record with the requests that are left."""
    with context.store.read() as session:
        stored = find_retuning(session, record.application)
    return record if stored is None else replace(record, asked=stored.asked, settings=stored.settings)
