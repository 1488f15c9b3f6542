"""Run a tuning run from baseline to recommendation; every trial is committed as soon as it ends.

A run is three stages, each of which goes on from the trials that are there: the baseline (equal shares and weights),
the search, and the proofs of what the search found best. Killed at any moment, it loses what was being computed.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaler.model.errors import BadInput
from tuner.search.engines import Engine, SearchProblem, find_engine
from tuner.search.engines.naive import suggest as ask_naive
from tuner.search.evaluation import Evaluation, EvaluationSpec, count_replayed, evaluate, evaluate_locally, summarise
from tuner.search.feasibility import Relaxation, find_relaxations
from tuner.search.fixed_parameters import find_fixed, fix_parameters, list_fixed
from tuner.search.other_days import count_days
from tuner.search.recommendation import (
    choose,
    find_least_infeasible,
    list_candidates,
    make_model,
    needs_more,
    pick_next,
    verify,
)
from tuner.search.search_plan import SearchPlan, TuneOptions, describe_run, load_plan
from tuner.search.search_target import tighten
from tuner.search.space.space import EvaluationOutcome, Parameters, from_document, meets, to_bounds
from tuner.search.trial_records import (
    number_of,
    of_purpose,
    to_outcome,
    to_verification,
    write_trial,
)
from tuner.store.applications import load_application
from tuner.store.audit_log import add_event
from tuner.store.connection import Store
from tuner.store.objectives import add_objective, list_objectives
from tuner.store.records import (
    BASELINE,
    SEARCH,
    VERIFY,
    EventRecord,
    HeldOutFigures,
    ObjectiveRecord,
    Trial,
    TrialDetail,
    TuningRun,
)
from tuner.store.runs import (
    Clock,
    claim_abandoned,
    end_run,
    list_runs,
    load_run,
    name_owner,
    release_lease,
    renew_lease,
    start_run,
)
from tuner.store.trials import add_trial, load_history

EvaluateAll = Callable[
    [EvaluationSpec, Sequence[Parameters], float], Iterator[Evaluation]
]  # results in the order of the parameters


def search(
    ask: Engine,
    problem: SearchProblem,
    spec: EvaluationSpec,
    spread: EvaluateAll,
    seed: int,
    batch: int = 1,
    earlier: Sequence[EvaluationOutcome] = (),
    done: Sequence[EvaluationOutcome] = (),
    in_time: Callable[[], bool] = lambda: True,
) -> Iterator[Evaluation]:
    """Go on after `done`, the outcomes of this search so far, until the budget, the time or the engine is exhausted.

    Batches begin at multiples of their size: a search that was interrupted within one asks for the same again, and
    leaves out what it has. Every outcome comes with the note of the suggestion that led to it.
    """
    own = list(done)
    while len(own) < problem.budget and in_time():
        first = len(own) // batch * batch
        count = min(batch, problem.budget - first)
        suggestions = ask(problem, [*earlier, *own[:first]], seed, count)
        todo = suggestions[len(own) - first :]
        if not todo:
            return
        ceiling = min((o.price for o in own[:first] if o.whole and meets(o, problem.target)), default=math.inf)
        results = spread(spec, [suggestion.parameters for suggestion in todo], ceiling)
        for suggestion, result in zip(todo, results, strict=True):
            own.append(replace(result.outcome, note=suggestion.note))
            yield replace(result, outcome=own[-1])


MEASURES = ("cost", "violations", "reconfigurations")  # keys of an objective's evidence; cost is a price per hour
FIGURES = {"cost": "price", "cost_error": "price_error", **{n: n for n in (*MEASURES[1:], "violations_error")}}
OnTrial = Callable[[Trial, Sequence[Trial]], None]  # the new one, and all with it


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What became of a run."""

    run: TuningRun
    trials: tuple[Trial, ...]
    objective: ObjectiveRecord | None  # None where nothing kept the constraints
    nearest: Trial | None = None  # then: the least infeasible
    relief: tuple[Relaxation, ...] = ()  # and what would have to give


def start_tuning(
    store: Store,
    app: str,
    flags: Mapping[str, Any],
    wanted: TuneOptions,
    clock: Clock = time.time,
    who: str = "somebody",
) -> TuningRun:
    """A new run, held by this process."""
    with store.read() as session:
        run = describe_run(session, app, load_application(session, app), flags, wanted, clock())
    with store.begin() as session:
        held = start_run(session, run, name_owner(), clock())
        message = f"{who} started tuning {app} (run {held.ordinal})"
        add_event(session, EventRecord(app, clock(), who, "tuning started", message, {"run": held.ordinal}))
        return held


def resume_tuning(store: Store, app: str, clock: Clock = time.time) -> TuningRun:
    """The newest run of the application that was interrupted, or whose process is gone."""
    with store.begin() as session:
        load_application(session, app)
        run = claim_abandoned(session, app, name_owner(), clock())
        newest = next(iter(list_runs(session, app, limit=1)), None)
    if run is None:
        is_done = newest is not None and newest.state == "done"
        ended = f"the newest one has ended, show it with: tuner report {app}; " if is_done else ""
        raise BadInput(f"{app!r} has no interrupted tuning run; {ended}start one with: tuner tune {app}")
    return run


def tune(
    store: Store,
    app: str,
    run: TuningRun,
    on_trial: OnTrial | None = None,
    seconds: float = math.inf,
    spread: EvaluateAll = evaluate_locally,
    clock: Clock = time.time,
) -> TuningResult:
    """Carry a run that this process holds to its end; the search stops asking after so many seconds."""
    until = clock() + seconds
    with store.read() as session:
        plan = load_plan(session, app, run)
        trials = load_history(session, number_of(run))

    def keep(trial: Trial) -> None:
        trials.append(store.write(lambda session: add_trial(session, run, trial, clock())))
        if on_trial is not None:
            on_trial(trials[-1], trials)

    try:
        with renew_lease(store, run, clock) as check_alive:
            plan = leave_out_fixed(plan)
            for trial in list_steps(plan, run, trials, spread, lambda: clock() < until, clock):
                check_alive()
                keep(trial)
            return conclude(store, plan, run, trials, clock)
    except BaseException:
        release_lease(store, run)
        raise


def leave_out_fixed(plan: SearchPlan) -> SearchPlan:
    """The plan without parameters that its policy ignores, within limits that leave room for other days.

    It is the same again where the run is resumed.
    """
    problem = fix_parameters(plan.problem, find_fixed(plan.spec, plan.problem.space))
    return replace(plan, problem=tighten(problem, plan.spec, len(plan.verification.seeds)))


def list_steps(
    plan: SearchPlan,
    run: TuningRun,
    trials: Sequence[Trial],
    spread: EvaluateAll,
    in_time: Callable[[], bool],
    clock: Clock,
) -> Iterator[Trial]:
    """The trials that the run has yet to make; `trials` grows by each before the next is asked for."""
    if not trials:
        began = clock()
        naive = ask_naive(plan.problem, (), plan.seed)[0].parameters
        result = evaluate(replace(plan.spec, short=0), naive)
        note = {"engine": "naive", "fixed": list_fixed(plan.problem.space)}
        yield write_trial(plan, run, trials, result, began, clock(), TrialDetail(BASELINE, note=note))
    began = clock()
    done = [to_outcome(plan, trial) for trial in of_purpose(trials, SEARCH)]
    if not of_purpose(trials, VERIFY):
        steps = search(
            find_engine(plan.engine), plan.problem, plan.spec, spread, plan.seed, plan.batch, plan.earlier,
            done, in_time,
        )  # fmt: skip
        for result in steps:
            yield write_trial(plan, run, trials, result, began, clock(), TrialDetail(note=dict(result.outcome.note)))
            began = clock()
    yield from verify_candidates(plan, run, trials, clock)


def verify_candidates(plan: SearchPlan, run: TuningRun, trials: Sequence[Trial], clock: Clock) -> Iterator[Trial]:
    """Candidates replayed again until enough of them were, or one passes."""
    tried = [trial for trial in trials if trial.about.purpose != VERIFY]
    history = [to_outcome(plan, trial) for trial in tried]
    qos = plan.problem.qos
    places = {trial.number: place for place, trial in enumerate(tried)}
    candidates = list_candidates(plan.problem.space, plan.problem.target, history)
    while True:
        verified = [(trial.about.of, to_verification(plan, trial)) for trial in of_purpose(trials, VERIFY)]
        proofs = {places[of]: proof for of, proof in verified if of is not None}
        place = pick_next(candidates, history, proofs, qos)
        if place is None or not needs_more(list(proofs.values()), qos):
            return
        began, started = clock(), time.perf_counter()
        parameters = history[place].parameters
        proof, runs = verify(plan.verification, parameters, plan.held_out)
        slots = count_replayed(runs)
        result = summarise(plan.verification, parameters, runs, slots, time.perf_counter() - started)
        seen = proof.held_out
        held_out = HeldOutFigures(seen.price, seen.violations, seen.reconfigurations, plan.held_out)
        detail = TrialDetail(VERIFY, tried[place].number, held_out=held_out, confidence=proof.confidence)
        yield write_trial(plan, run, trials, result, began, clock(), detail)


def conclude(store: Store, plan: SearchPlan, run: TuningRun, trials: Sequence[Trial], clock: Clock) -> TuningResult:
    """Keep what is recommended and end the run, both or neither."""
    proved = of_purpose(trials, VERIFY)
    place = choose([to_verification(plan, trial) for trial in proved], plan.problem.qos)
    objective = None if place is None else propose(plan, run, trials, proved[place], clock())

    def end(session: Any) -> tuple[TuningRun, ObjectiveRecord | None]:
        there = load_run(session, number_of(run))
        if there.state == "done" and there.fence == run.fence:  # the answer to an earlier try was lost
            return there, find_proposed(session, plan.application, number_of(run))
        kept = None if objective is None else add_objective(session, objective)
        return end_run(session, run, "done", clock()), kept

    ended, kept = store.write(end)
    if kept is not None:
        return TuningResult(ended, tuple(trials), kept)
    return TuningResult(ended, tuple(trials), None, *explain(plan, trials))


def find_proposed(session: Any, app: str, run_id: int) -> ObjectiveRecord | None:
    return next((one for one in list_objectives(session, app) if one.evidence.get("run") == run_id), None)


def explain(plan: SearchPlan, trials: Sequence[Trial]) -> tuple[Trial | None, tuple[Relaxation, ...]]:
    """The trial that came nearest, by its proof where it has one, and what would have let it pass."""
    tried = [trial for trial in trials if trial.about.purpose != VERIFY]
    proofs = {trial.about.of: to_outcome(plan, trial) for trial in of_purpose(trials, VERIFY)}
    place = find_least_infeasible([proofs.get(t.number, to_outcome(plan, t)) for t in tried], plan.problem.qos)
    if place is None:
        return None, ()
    parameters = from_document(plan.problem.space.operators, tried[place].parameters)
    return tried[place], tuple(find_relaxations(replace(plan.spec, short=0), parameters))


def propose(plan: SearchPlan, run: TuningRun, trials: Sequence[Trial], proof: Trial, now: float) -> ObjectiveRecord:
    """The objective of a trial that was proved, with the evidence for it."""
    chosen = next(trial for trial in trials if trial.number == proof.about.of)
    parameters: Parameters = from_document(plan.problem.space.operators, chosen.parameters)
    baseline = next((trial for trial in of_purpose(trials, BASELINE)), None)
    evidence = {
        "run": run.id,
        "qos": dict(run.settings["qos"]),
        "model": make_model(plan.verification.setting, plan.constants).to_json(),
        **{key: getattr(proof, name) for key, name in FIGURES.items()},
        "confidence": proof.about.confidence,
        "held_out": proof.detail["held_out"],
        "verified_on": {
            "seeds": list(proof.about.seeds),
            "slots": plan.verification.slots,
            "days": count_days(plan.verification.slots, plan.verification.setting.trace.step_s),
        },
        "baseline": {} if baseline is None else {key: getattr(baseline, FIGURES[key]) for key in MEASURES},
    }
    return ObjectiveRecord(
        application=plan.application,
        weights=parameters.weights,
        bounds=to_bounds(plan.problem.space.operators, parameters, plan.problem.qos.r_max),
        created=now,
        provenance=f"trial {chosen.ordinal} of run {run.ordinal}",
        trial_id=chosen.id,
        surrogate_id=plan.surrogate_id,
        evidence=evidence,
    )
