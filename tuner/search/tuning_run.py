"""An application in the database in; its tuning run, every trial kept as soon as it ends, and what it recommends out.

A run is three stages, each of which goes on from the trials that are there: the baseline (equal shares and weights),
the search, and the proofs of what the search found best. Killed at any moment, it loses what was being computed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from tuner.search.engines import find_engine
from tuner.search.engines.naive import ask as ask_naive
from tuner.search.evaluation import Result, evaluate
from tuner.search.lease import Clock, let_go, staying_alive
from tuner.search.local_pool import spread_here
from tuner.search.loop import Spread, search
from tuner.search.problem import Brief, Wanted, read_brief, settle
from tuner.search.recommendation import choose, find_least_infeasible, list_candidates, needs_more, prove
from tuner.search.relaxations import Relief, find_relief
from tuner.search.space.parameters import Parameters, from_document, to_bounds
from tuner.search.trial_records import (
    BASELINE,
    SEARCH,
    VERIFY,
    number_of,
    of_purpose,
    to_outcome,
    to_proof,
    write_trial,
)
from tuner.store.applications import load_application
from tuner.store.connection import Store
from tuner.store.objectives import add_objective, list_objectives
from tuner.store.records import ObjectiveRecord, Trial, TuningRun
from tuner.store.runs import claim_abandoned, end_run, load_run, name_owner, start_run
from tuner.store.trials import add_trial, load_history

OnTrial = Callable[[Trial, Sequence[Trial]], None]  # the new one, and all with it


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a run."""

    run: TuningRun
    trials: tuple[Trial, ...]
    objective: ObjectiveRecord | None  # None where nothing kept the constraints
    nearest: Trial | None = None  # then: the least infeasible
    relief: tuple[Relief, ...] = ()  # and what would have to give


def start_tuning(
    store: Store, app: str, flags: Mapping[str, Any], wanted: Wanted, clock: Clock = time.time
) -> TuningRun:
    """A new run, held by this process."""
    with store.read() as session:
        version = load_application(session, app)
        settings = settle(session, app, version, flags, wanted)
    if version.id is None:
        raise ValueError(f"version {version.number} of {app!r} came without its id")
    run = TuningRun(version.id, wanted.engine, wanted.seed, wanted.budget, clock(), settings)
    with store.begin() as session:
        return start_run(session, run, name_owner(), clock())


def resume_tuning(store: Store, app: str, clock: Clock = time.time) -> TuningRun:
    """The newest run of the application that was interrupted, or whose process is gone."""
    with store.begin() as session:
        load_application(session, app)
        run = claim_abandoned(session, app, name_owner(), clock())
    if run is None:
        raise BadInput(f"no run of {app!r} waits to be resumed; start one with: tuner tune {app}")
    return run


def tune(
    store: Store,
    app: str,
    run: TuningRun,
    on_trial: OnTrial | None = None,
    seconds: float = math.inf,
    spread: Spread = spread_here,
    clock: Clock = time.time,
) -> Ended:
    """Carry a run that this process holds to its end; the search stops asking after so many seconds."""
    until = clock() + seconds
    with store.read() as session:
        brief = read_brief(session, app, run)
        trials = load_history(session, number_of(run))

    def keep(trial: Trial) -> None:
        trials.append(store.write(lambda session: add_trial(session, run, trial, clock())))
        if on_trial is not None:
            on_trial(trials[-1], trials)

    try:
        with staying_alive(store, run, clock) as check_alive:
            for trial in list_steps(brief, run, trials, spread, lambda: clock() < until, clock):
                check_alive()
                keep(trial)
            return conclude(store, brief, run, trials, clock)
    except BaseException:
        let_go(store, run)
        raise


def list_steps(
    brief: Brief, run: TuningRun, trials: Sequence[Trial], spread: Spread, in_time: Callable[[], bool], clock: Clock
) -> Iterator[Trial]:
    """The trials that the run has yet to make; `trials` grows by each before the next is asked for."""
    if not trials:
        began = clock()
        naive = ask_naive(brief.question, (), brief.seed)[0].parameters
        result = evaluate(replace(brief.exam, short=0), naive)
        yield write_trial(brief, run, trials, BASELINE, result, began, clock(), {"note": {"engine": "naive"}})
    began = clock()
    done = [to_outcome(brief, trial) for trial in of_purpose(trials, SEARCH)]
    if not of_purpose(trials, VERIFY):
        steps = search(
            find_engine(brief.engine), brief.question, brief.exam, spread, brief.seed, brief.batch, brief.earlier,
            done, in_time,
        )  # fmt: skip
        for tried in steps:
            detail = {"note": dict(tried.suggestion.note)}
            yield write_trial(brief, run, trials, SEARCH, tried.result, began, clock(), detail)
            began = clock()
    yield from list_proofs(brief, run, trials, clock)


def list_proofs(brief: Brief, run: TuningRun, trials: Sequence[Trial], clock: Clock) -> Iterator[Trial]:
    """Candidates replayed again until enough of them were, or one passes."""
    tried = [trial for trial in trials if trial.detail.get("purpose") in (BASELINE, SEARCH)]
    history = [to_outcome(brief, trial) for trial in tried]
    qos = brief.question.qos
    for place in list_candidates(brief.question.space, qos, history):
        proofs = [to_proof(brief, trial) for trial in of_purpose(trials, VERIFY)]
        if not needs_more(proofs, qos):
            return
        of = tried[place].number
        if any(trial.detail.get("of") == of for trial in of_purpose(trials, VERIFY)):
            continue
        began, started = clock(), time.perf_counter()
        proof, runs = prove(brief.proof, history[place].parameters, brief.proof_seeds, brief.held_out, qos)
        result = Result(
            outcome=proof.whole,
            seeds=tuple(run.seed for run in runs),
            slots=sum(run.slots for run in runs),
            saved=0,
            seconds=time.perf_counter() - started,
            replicas=np.mean([run.replicas for run in runs], axis=0),
        )
        held_out = {
            "cost": proof.held_out.cost,
            "violations": proof.held_out.violations,
            "reconfigurations": proof.held_out.reconfigurations,
            "slots": brief.held_out,
        }
        detail = {"of": of, "held_out": held_out, "confidence": proof.confidence}
        yield write_trial(brief, run, trials, VERIFY, result, began, clock(), detail)


def conclude(store: Store, brief: Brief, run: TuningRun, trials: Sequence[Trial], clock: Clock) -> Ended:
    """Keep what is recommended and end the run, both or neither."""
    proved = of_purpose(trials, VERIFY)
    place = choose([to_proof(brief, trial) for trial in proved], brief.question.qos)
    objective = None if place is None else propose(brief, run, trials, proved[place], clock())

    def end(session: Any) -> tuple[TuningRun, ObjectiveRecord | None]:
        there = load_run(session, number_of(run))
        if there.state == "done" and there.fence == run.fence:  # the answer to an earlier try was lost
            return there, find_proposed(session, brief.application, number_of(run))
        kept = None if objective is None else add_objective(session, objective)
        return end_run(session, run, "done", clock()), kept

    ended, kept = store.write(end)
    if kept is not None:
        return Ended(ended, tuple(trials), kept)
    return Ended(ended, tuple(trials), None, *explain(brief, trials))


def find_proposed(session: Any, app: str, run_id: int) -> ObjectiveRecord | None:
    return next((one for one in list_objectives(session, app) if one.evidence.get("run") == run_id), None)


def explain(brief: Brief, trials: Sequence[Trial]) -> tuple[Trial | None, tuple[Relief, ...]]:
    """The trial that came nearest, by its proof where it has one, and what would have let it pass."""
    tried = [trial for trial in trials if trial.detail.get("purpose") in (BASELINE, SEARCH)]
    proofs = {trial.detail["of"]: to_outcome(brief, trial) for trial in of_purpose(trials, VERIFY)}
    place = find_least_infeasible([proofs.get(t.number, to_outcome(brief, t)) for t in tried], brief.question.qos)
    if place is None:
        return None, ()
    parameters = from_document(brief.question.space.operators, tried[place].parameters)
    return tried[place], tuple(find_relief(replace(brief.exam, short=0), parameters))


def propose(brief: Brief, run: TuningRun, trials: Sequence[Trial], proof: Trial, now: float) -> ObjectiveRecord:
    """The objective of a trial that was proved, with the evidence for it."""
    chosen = next(trial for trial in trials if trial.number == proof.detail["of"])
    parameters: Parameters = from_document(brief.question.space.operators, chosen.parameters)
    baseline = next((trial for trial in of_purpose(trials, BASELINE)), None)
    figures = ("cost", "violations", "reconfigurations")
    evidence = {
        "run": run.id,
        **{name: getattr(proof, name) for name in (*figures, "cost_error", "violations_error")},
        "confidence": proof.detail["confidence"],
        "held_out": proof.detail["held_out"],
        "verified_on": {"seeds": list(proof.detail["seeds"]), "slots": brief.proof.trace.rates.size},
        "baseline": {} if baseline is None else {name: getattr(baseline, name) for name in figures},
    }
    return ObjectiveRecord(
        application=brief.application,
        weights=parameters.weights,
        bounds=to_bounds(brief.question.space.operators, parameters, brief.question.qos.r_max),
        created=now,
        provenance=f"trial {chosen.number} of run {run.id}",
        trial_id=chosen.id,
        surrogate_id=brief.surrogate_id,
        evidence=evidence,
    )
