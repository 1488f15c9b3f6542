"""Advance one application's retuning by its phases; each is committed before the next starts.

idle -> ingest -> fit -> check -> tune -> compare -> (shadow -> canary -> full) -> idle. Whoever claims the lease next
continues from the last committed phase. A search is named by its run, which is made in the transaction that names it,
so that none starts twice; an objective is pushed in the transaction that says so. A failure ends in "not tuned" with a
reason, and is tried again later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from scaler.model.errors import BadInput, Retry
from tuner.retuning.causes import explain_error, find_cause
from tuner.retuning.refit import explain_health, refit
from tuner.retuning.stages import advance_stage, find_moving
from tuner.retuning.state import (
    SEARCHING,
    STEERING,
    TUNE,
    Cause,
    DaemonContext,
    DaemonEvent,
    Interrupted,
    abandon,
    apply_requests,
    commit_phase,
    settings_of,
    start_requested,
    state_of,
)
from tuner.rollout.improvement import compare, find_similar
from tuner.rollout.known_history import find_unlearned, keep_history
from tuner.rollout.push import push
from tuner.rollout.steering import TuningRequest
from tuner.search.search_plan import TuneOptions, describe_run, load_plan
from tuner.search.tuning_run import TuningResult, find_proposed
from tuner.search.tuning_run import tune as run_search
from tuner.store.applications import load_application, load_surrogate, save_surrogate
from tuner.store.audit_log import DAEMON, add_event
from tuner.store.connection import Session
from tuner.store.faults import DatabaseFault
from tuner.store.json_fields import write_fields
from tuner.store.objectives import (
    ObjectiveEvidence,
    Reversion,
    find_full_objective,
    list_objectives,
    load_objective,
    merge_evidence,
)
from tuner.store.records import ApplicationVersion, EventRecord, ObjectiveRecord, RetuningRecord, Trial, TuningRun
from tuner.store.runs import LeaseLost, claim_run, find_retuning, load_run, start_run, update_retuning
from tuner.store.samples import load_samples
from tuner.surrogate.surrogate import to_record
from tuner.views.words import describe_history

log = logging.getLogger(__name__)
RETRY_S = 60.0  # before trying again what another process does, or what may work in a moment
DAY_S = 86_400.0


def advance(context: DaemonContext, record: RetuningRecord, searching: bool = True) -> tuple[RetuningRecord, bool]:
    """Advance as far as possible; and whether a search is left to do, which takes long, where it may not run here."""
    record = apply_requests(context, record)
    replay_known_history(context, record.application)
    moved = advance_stage(context, record)
    if moved is not None:
        return moved, False
    if record.phase not in SEARCHING:
        record = check_due(context, record)
    while record.phase in SEARCHING and not context.ending() and state_of(record).paused_by is None:
        if not searching:
            return record, True
        try:
            record = run_phase(context, record)
        except Interrupted:
            return commit_phase(context, record, due=context.clock()), False
        if record.due > context.clock():
            break
    return record, False


def replay_known_history(context: DaemonContext, app: str) -> None:
    """Replay the history under an objective that agents pursue without: the service pushes and waits for none."""
    with context.store.read() as session:
        version = find_unlearned(session, app)
    if version is not None:
        history = keep_history(context.store, app, version, context.clock())
        log.info("%s, objective %s: %s", app, version, describe_history(history))


def check_due(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Start a search where there is a cause; else set when to check again."""
    now, settings = context.clock(), settings_of(record)
    if TUNE in record.asked:
        return start_requested(context, record)
    with context.store.read() as session:
        cause = find_cause(session, record.application, settings, state_of(record), now)
    if cause is None:
        tuned, pause = state_of(record).tuned, settings.check_s
        if tuned is not None:
            pause = min(pause, max(1.0, tuned + settings.period_s - now))
        return commit_phase(context, record, phase="idle", due=now + pause)
    event = None
    if cause.kind in ("drift", "error", "qos"):
        event = DaemonEvent("drift", f"{record.application} is due for a tuning: {cause.why}", {"kind": cause.kind})
    return commit_phase(context, record, lambda state: state.start_search(cause), "ingest", now, event)


def run_phase(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Run one phase of a search."""
    try:
        return PHASES[record.phase](context, record)
    except (LeaseLost, Interrupted):
        raise
    except (Retry, DatabaseFault) as error:
        log.warning("%s: %s; trying again", record.application, error)
        return commit_phase(context, record, due=context.clock() + RETRY_S)
    except BadInput as error:
        return abandon(context, record, str(error))
    except Exception as error:
        log.exception("%s: phase %s failed", record.application, record.phase)
        return abandon(context, record, f"the phase {record.phase} failed by a fault of the program ({error!r})")


def ingest(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    settings = settings_of(record)
    if settings.sources:
        from tuner.retuning.ingestion import read_sources  # brings pyarrow along

        read_sources(context, record.application, settings.sources, settings.window_s)
    return commit_phase(context, record, phase="fit")


def fit(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    with context.store.read() as session:
        fitted = refit(session, record.application, settings_of(record), context.clock())
    work = None if fitted is None else partial(save_surrogate, surrogate=to_record(fitted, context.clock()))
    return commit_phase(context, record, phase="check", work=work)


def check(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Refuse to tune on a surrogate that failed a check, or does not predict the observed response times."""
    with context.store.read() as session:
        surrogate = load_surrogate(session, record.application)
        wrong = explain_health(surrogate) if surrogate.health == "fail" else None
        wrong = wrong or explain_error(session, record.application, surrogate, surrogate.start, surrogate.end)
    return commit_phase(context, record, phase="tune") if wrong is None else abandon(context, record, wrong)


def tune(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Start the search, or resume the one under way; its result is in the database when this returns."""
    run_id = state_of(record).run_id
    if run_id is None:
        record, run = start_search(context, record)
    else:
        with context.store.begin() as session:
            stored = load_run(session, run_id)
            claimed = claim_run(session, run_id, context.owner, time.time())
            found = find_proposed(session, record.application, run_id)
        if stored.state == "done":
            return end_search(context, record, TuningResult(stored, (), found))
        if claimed is None and stored.state == "running":
            message = f"another process carries run {stored.ordinal} on"
            due = context.clock() + RETRY_S
            return commit_phase(context, record, lambda state: replace(state, message=message), due=due)
        if claimed is None:
            why = f"run {stored.ordinal} was {stored.state} ({stored.failure or 'no reason was kept'})"
            return abandon(context, record, why)
        run = claimed
    stop_if = interrupt_for(context, record)
    result = run_search(context.store, record.application, run, stop_if, settings_of(record).seconds)
    return end_search(context, record, result)


def start_search(context: DaemonContext, record: RetuningRecord) -> tuple[RetuningRecord, TuningRun]:
    """Make the run in the transaction that names it in the state."""
    settings, state = settings_of(record), state_of(record)
    request, cause = state.request or TuningRequest(), state.cause or Cause()
    usual = TuneOptions(settings.engine, settings.budget, state.searches, settings.batch, held_out=settings.held_out)
    asked = {name: getattr(request, name) for name in ("engine", "budget", "seed")}
    options = replace(usual, **{name: value for name, value in asked.items() if value is not None})
    with context.store.read() as session:
        version = prefer_monitored(session, load_application(session, record.application))
        if "trace" not in version.document:
            options = replace(options, since=context.clock() - settings.arrivals_s, gap=settings.gap)
        new = describe_run(session, record.application, version, {}, options, time.time())
    with context.store.begin() as session:
        run = start_run(session, new, context.owner, time.time())
        changed = replace(state, run_id=run.id, searches=state.searches + 1)
        record = update_retuning(session, record, detail=write_fields(changed))
        message = f"tuning {record.application} (run {run.ordinal}): {cause.why}"
        about = {"run": run.ordinal, "kind": cause.kind, "why": cause.why}
        add_event(session, EventRecord(record.application, context.clock(), DAEMON, "tuning started", message, about))
    return record, run


def prefer_monitored(session: Session, version: ApplicationVersion) -> ApplicationVersion:
    """Leave out the described trace where a day or more was monitored: that is the present arrival rate."""
    if "trace" not in version.document:
        return version
    samples = load_samples(session, version.application)
    if not samples or max(s.end for s in samples) - min(s.start for s in samples) < DAY_S:
        return version
    return replace(version, document={k: v for k, v in version.document.items() if k != "trace"})


def interrupt_for(context: DaemonContext, record: RetuningRecord) -> Callable[[Trial, Sequence[Trial]], None]:
    """Interrupt the search between two trials for the daemon's end, a person's request, or a moving objective."""

    def on_trial(trial: Trial, trials: Sequence[Trial]) -> None:
        if context.ending():
            raise Interrupted
        with context.store.read() as session:
            stored = find_retuning(session, record.application)
            moving = find_moving(session, record.application)
        if moving is not None or (stored is not None and any(word in stored.asked for word in STEERING)):
            raise Interrupted

    return on_trial


def end_search(context: DaemonContext, record: RetuningRecord, result: TuningResult) -> RetuningRecord:
    """Go on to the comparison where the search proposed an objective."""
    now, run, found = context.clock(), result.run, result.objective
    version = None if found is None else found.version
    near = "" if result.nearest is None else f"; trial {result.nearest.ordinal} came nearest"
    what = f"nothing that keeps the constraints{near}" if found is None else f"objective {version}"
    message = f"run {run.ordinal} of {record.application} found {what}"
    event = DaemonEvent("tuning ended", message, {"run": run.ordinal, "version": version})
    if found is not None:
        return commit_phase(context, record, lambda state: replace(state, version=version), "compare", event=event)
    due = now + settings_of(record).check_s
    return commit_phase(context, record, lambda state: state.end_search(now, message), "idle", due, event)


def compare_found(context: DaemonContext, record: RetuningRecord) -> RetuningRecord:
    """Push the proposed objective to shadow if it is better beyond the noise; record the reason in either case."""
    app, now, settings, version = record.application, context.clock(), settings_of(record), state_of(record).version
    with context.store.read() as session:
        found = load_objective(session, app, version or 0)
        evidence = ObjectiveEvidence.from_json(found.evidence)
        if evidence.run_id is None:
            raise BadInput(f"objective {found.version} of {app} names no run to compare it with")
        similar = find_similar(found, list_objectives(session, app, ("reverted",)))
        standing = find_full_objective(session, app)
        plan = None if similar is not None else load_plan(session, app, load_run(session, evidence.run_id))
    later = now + settings.check_s
    if similar is not None:
        event = explain_rejection(found, explain_similar(found, similar))
        return commit_phase(context, record, lambda state: state.end_search(now, None), "idle", later, event)
    assert plan is not None
    better = compare(plan, found, standing, settings.gain)
    changed = replace(evidence, better=better).to_json()

    def work(session: Session) -> None:
        merge_evidence(session, found, changed)
        if better.is_better:
            push(session, app, found.version or 0, "shadow", DAEMON, better.why, now)

    if better.is_better:
        return commit_phase(context, record, lambda state: state.end_search(now, better.why), "shadow", now, work=work)
    event = explain_rejection(found, better.why)
    return commit_phase(context, record, lambda state: state.end_search(now, better.why), "idle", later, event, work)


def explain_rejection(found: ObjectiveRecord, why: str) -> DaemonEvent:
    message = f"objective {found.version} of {found.application} is not pushed: {why}"
    return DaemonEvent("not tuned", message, {"version": found.version, "why": why})


def explain_similar(found: ObjectiveRecord, similar: ObjectiveRecord) -> str:
    reverted = ObjectiveEvidence.from_json(similar.evidence).reverted or Reversion()
    same = found.surrogate_id is not None and similar.surrogate_id == found.surrogate_id
    how = "stems from the same surrogate as" if same else "says nearly the same as"
    return f"it {how} objective {similar.version}, which was rolled back ({reverted.why})"


PHASES: dict[str, Callable[[DaemonContext, RetuningRecord], RetuningRecord]] = {
    "ingest": ingest,
    "fit": fit,
    "check": check,
    "tune": tune,
    "compare": compare_found,
}
assert tuple(PHASES) == SEARCHING
