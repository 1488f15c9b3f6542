"""A watch in hand in; the application carried on as far as it goes now, every step committed with where it stands, out.

idle -> ingest -> fit -> check -> tune -> compare -> (shadow -> canary -> full) -> idle. Whoever takes the watch up next
goes on where it stands: a step that was not committed is done again, one that was is not. A search is named by its run,
made in the transaction that names it, so that none is begun twice; an objective is pushed in the transaction that says
so. What fails ends in "not tuned" with a reason, and is tried again later.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from scaler.model.errors import BadInput, Retry
from tuner.retuning.context import Hand, Interrupted, give_up, note, settings_of
from tuner.retuning.due import find_reason, say_error
from tuner.retuning.refit import explain_health, refit
from tuner.retuning.requests import SEARCHING, STEERING, TUNE, fulfil, take_tuning
from tuner.retuning.stages import find_moving, watch_stage
from tuner.rollout.improvement import compare as weigh
from tuner.rollout.improvement import find_alike
from tuner.rollout.push import DAEMON, add_evidence, push
from tuner.search.search_plan import TuneOptions, freeze_settings, load_plan
from tuner.search.tuning_run import TuningResult, find_proposed
from tuner.search.tuning_run import tune as search
from tuner.store.applications import load_application
from tuner.store.events import add_event
from tuner.store.objectives import find_full_objective, list_objectives, load_objective
from tuner.store.records import EventRecord, ObjectiveRecord, RetuningRecord, Trial, TuningRun
from tuner.store.retunings import find_retuning, update_retuning
from tuner.store.runs import LeaseLost, claim_run, load_run, start_run
from tuner.store.samples import load_samples
from tuner.store.surrogates import load_surrogate, save_surrogate
from tuner.surrogate.surrogate_records import to_record

log = logging.getLogger(__name__)
HELD_RETRY_S = 60.0  # before looking again at a search that another process carries on
DAY_S = 86_400.0
INSTALL_SPARK = "pip install 'stream-scaler[spark]'"


def attend(hand: Hand, watch: RetuningRecord, searching: bool = True) -> tuple[RetuningRecord, bool]:
    """Do what is to be done now; whether a search is left to do, which takes long, where it may not be done here."""
    watch = fulfil(hand, watch)
    moving = watch_stage(hand, watch)
    if moving is not None:
        return moving, False
    if watch.phase not in SEARCHING:
        watch = look(hand, watch)
    while watch.phase in SEARCHING and not hand.ended() and not watch.detail.get("paused"):
        if not searching:
            return watch, True
        try:
            watch = step(hand, watch)
        except Interrupted:
            return note(hand, watch, due=hand.clock()), False
        if watch.due > hand.clock():
            break
    return watch, False


def look(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """Whether there is a reason to tune."""
    now, settings = hand.clock(), settings_of(watch)
    if TUNE in watch.asked:
        return take_tuning(hand, watch)
    with hand.store.read() as session:
        reason = find_reason(session, settings, watch, now)
    if reason is None:
        tuned, wait = watch.detail.get("tuned"), settings.check_s
        if tuned is not None:
            wait = min(wait, max(1.0, tuned + settings.period_s - now))
        return note(hand, watch, "idle", now + wait)
    event = None
    if reason.kind in ("drift", "error", "qos"):
        event = ("drift", f"{watch.application} is due for a tuning: {reason.why}", {"kind": reason.kind})
    cause = {"kind": reason.kind, "why": reason.why}
    return note(hand, watch, "ingest", now, event, cause=cause, says=reason.why, wish=None, run=None, version=None)


def step(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """One phase of a search."""
    try:
        return STEPS[watch.phase](hand, watch)
    except (LeaseLost, Interrupted):
        raise
    except BadInput as error:
        return give_up(hand, watch, str(error))
    except Retry as error:
        log.warning("%s: %s; trying again", watch.application, error)
        return note(hand, watch, due=hand.clock() + HELD_RETRY_S)
    except Exception as error:
        log.exception("%s: phase %s failed", watch.application, watch.phase)
        return give_up(hand, watch, f"the phase {watch.phase} failed by a fault of the program ({error!r})")


def ingest(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    sources = settings_of(watch).sources
    if sources:
        if find_spec("pyspark") is None:
            raise BadInput("sources are set, and reading them needs Spark; install it: " + INSTALL_SPARK)
        from tuner.retuning.ingestion import read_sources  # brings pyspark along

        read_sources(hand, watch.application, sources, settings_of(watch).window_s)
    return note(hand, watch, "fit")


def fit(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    with hand.store.read() as session:
        fitted = refit(session, watch.application, settings_of(watch), hand.clock())
    if fitted is None:
        return note(hand, watch, "check")
    record = to_record(fitted, hand.clock())

    def save(session: Any) -> None:
        save_surrogate(session, record)

    return note(hand, watch, "check", also=save)


def check(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """Nothing is tuned on what failed a check, or does not predict what scalers saw."""
    with hand.store.read() as session:
        record = load_surrogate(session, watch.application)
        wrong = explain_health(record) if record.health == "fail" else None
        wrong = wrong or say_error(session, watch.application, record, record.start, record.end)
    return note(hand, watch, "tune") if wrong is None else give_up(hand, watch, wrong)


def tune(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """Begin the search, or go on with the one that was begun; what it found is in the database when this returns."""
    if "run" not in watch.detail:
        watch, run = begin(hand, watch)
    else:
        with hand.store.begin() as session:
            there = load_run(session, watch.detail["run"])
            claimed = claim_run(session, watch.detail["run"], hand.owner, time.time())
            found = find_proposed(session, watch.application, watch.detail["run"])
        if there.state == "done":
            return finish(hand, watch, there, TuningResult(there, (), found))
        if claimed is None and there.state == "running":
            return note(hand, watch, due=hand.clock() + HELD_RETRY_S, says=f"another process carries run {there.id} on")
        if claimed is None:
            return give_up(hand, watch, f"run {there.id} was {there.state} ({there.failure or 'no reason was kept'})")
        run = claimed
    ended = search(hand.store, watch.application, run, stopping(hand, watch), settings_of(watch).seconds)
    return finish(hand, watch, ended.run, ended)


def begin(hand: Hand, watch: RetuningRecord) -> tuple[RetuningRecord, TuningRun]:
    settings, wish, count = settings_of(watch), watch.detail.get("wish") or {}, int(watch.detail.get("searches", 0))
    wanted = TuneOptions(
        engine=wish.get("engine", settings.engine),
        budget=wish.get("budget", settings.budget),
        seed=wish.get("seed", count),
        batch=settings.batch,
        held_out=settings.held_out,
    )
    with hand.store.read() as session:
        version = load_application(session, watch.application)
        version = prefer_monitored(session, version)
        asked = freeze_settings(session, watch.application, version, {}, wanted)
    assert version.id is not None
    new = TuningRun(version.id, wanted.engine, wanted.seed, wanted.budget, time.time(), asked)
    kept: list[TuningRun] = []
    now, cause = hand.clock(), watch.detail.get("cause", {})
    with hand.store.begin() as session:
        kept.append(start_run(session, new, hand.owner, time.time()))
        detail = {**watch.detail, "run": kept[0].id, "searches": count + 1}
        watch = update_retuning(session, watch, detail=detail)
        says = f"tuning {watch.application} (run {kept[0].id}): {cause.get('why', '')}"
        add_event(
            session, EventRecord(watch.application, now, DAEMON, "tuning started", says, {"run": kept[0].id, **cause})
        )
    return watch, kept[0]


def prefer_monitored(session: Any, version: Any) -> Any:
    """Without the trace of the description, where a day or more was monitored: that is what comes now."""
    if "trace" not in version.document:
        return version
    samples = load_samples(session, version.application)
    if not samples or max(s.end for s in samples) - min(s.start for s in samples) < DAY_S:
        return version
    return replace(version, document={k: v for k, v in version.document.items() if k != "trace"})


def stopping(hand: Hand, watch: RetuningRecord) -> Callable[[Trial, Sequence[Trial]], None]:
    """Raises between two trials where the daemon is to end, a person wants something, or an objective is on its way."""

    def on_trial(trial: Trial, trials: Sequence[Trial]) -> None:
        if hand.ended():
            raise Interrupted
        with hand.store.read() as session:
            there = find_retuning(session, watch.application)
            moving = find_moving(session, watch.application)
        if moving is not None or (there is not None and any(word in there.asked for word in STEERING)):
            raise Interrupted

    return on_trial


def finish(hand: Hand, watch: RetuningRecord, run: TuningRun, ended: Any) -> RetuningRecord:
    """On to the comparison where something was found."""
    now, found = hand.clock(), ended.objective
    if found is not None:
        says = f"run {run.id} of {watch.application} found objective {found.version}"
        event = ("tuning ended", says, {"run": run.id, "version": found.version})
        return note(hand, watch, "compare", event=event, version=found.version)
    near = "" if ended.nearest is None else f"; trial {ended.nearest.number} came nearest"
    says = f"run {run.id} of {watch.application} found nothing that keeps the constraints{near}"
    event = ("tuning ended", says, {"run": run.id, "version": None})
    due = now + settings_of(watch).check_s
    return note(hand, watch, "idle", due, event, tuned=now, says=says, run=None, version=None, wish=None, fails=None)


def compare(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """Let it in beside the standing one, if it is better beyond the noise; both, or neither, with the reason."""
    app, now, settings = watch.application, hand.clock(), settings_of(watch)
    with hand.store.read() as session:
        found = load_objective(session, app, watch.detail["version"])
        alike = find_alike(found, list_objectives(session, app, ("reverted",)))
        standing = find_full_objective(session, app)
        plan = load_plan(session, app, load_run(session, found.evidence["run"])) if alike is None else None
    done: dict[str, Any] = {"tuned": now, "run": None, "version": None, "wish": None, "fails": None}
    if alike is not None or plan is None:
        return note(
            hand, watch, "idle", now + settings.check_s, say_not(found, explain_alike(found, alike)), says=None, **done
        )
    seen = weigh(plan, found, standing, settings.gain)
    better = {**seen.figures, "why": seen.why}
    if not seen.better:

        def keep(session: Any) -> None:
            add_evidence(session, found, better=better)

        return note(hand, watch, "idle", now + settings.check_s, say_not(found, seen.why), keep, says=seen.why, **done)

    def let_in(session: Any) -> None:
        add_evidence(session, found, better=better)
        push(session, app, found.version or 0, "shadow", DAEMON, seen.why, now)

    return note(hand, watch, "shadow", now, None, let_in, says=seen.why, **done)


def say_not(found: ObjectiveRecord, why: str) -> tuple[str, str, dict[str, Any]]:
    says = f"objective {found.version} of {found.application} is not pushed: {why}"
    return "not tuned", says, {"version": found.version, "why": why}


def explain_alike(found: ObjectiveRecord, alike: ObjectiveRecord | None) -> str:
    version = None if alike is None else alike.version
    why = "" if alike is None else alike.evidence.get("reverted", {}).get("why", "")
    same = alike is not None and found.surrogate_id is not None and alike.surrogate_id == found.surrogate_id
    how = "stems from the same surrogate as" if same else "says nearly the same as"
    return f"it {how} objective {version}, which was rolled back ({why})"


STEPS: dict[str, Callable[[Hand, RetuningRecord], RetuningRecord]] = {
    "ingest": ingest,
    "fit": fit,
    "check": check,
    "tune": tune,
    "compare": compare,
}
assert tuple(STEPS) == SEARCHING
