"""Choose the recommended trial by verification on fresh seeds and on held-out slots.

The cheapest of what was observed is the luckiest. Candidates are therefore ordered by what Gaussian processes of the
whole history expect of them, and the first few are replayed again, with seeds of their own and over the whole trace,
its held-out end included. Recommended is the cheapest of those that keep both constraints there, with confidence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scaler.model.orders import ObjectiveModel, OperatorModel
from sim.setting import Setting, is_joint, tasks
from sim.simulate import Run
from tuner.scenario.layout import QoS
from tuner.search.evaluation import EvaluationSpec, apply_parameters, average, replay_seeds
from tuner.search.other_days import DayErrors, bootstrap_days
from tuner.search.space.space import EvaluationOutcome, Parameters, SearchSpace, measure_slack, meets

CONFIDENCE = 0.95
PROVED = 4  # candidates that are replayed again, even where the first of them passes
MOST_PROVED = 12  # where none does
SAFER = 0.8  # times what a failed candidate used of its limit, for the next one
LIKELY = 0.2  # a candidate is at least so likely to be feasible
SMALLEST_ERROR = 1e-4  # of a share of the slots, in the test of a constraint: seeds may agree by chance


@dataclass(frozen=True, slots=True)
class Verification:
    """A candidate replayed again: over all slots, and over those held out alone."""

    whole: EvaluationOutcome
    held_out: EvaluationOutcome
    confidence: float  # that both constraints hold in the next run, over all slots

    def passes(self, qos: QoS) -> bool:
        kept = measure_slack(self.held_out, qos) >= 0.0
        return kept and self.confidence >= CONFIDENCE and measure_slack(self.whole, qos) >= 0.0


def list_candidates(space: SearchSpace, qos: QoS, history: Sequence[EvaluationOutcome]) -> list[int]:
    """Places in the history, the most promising first: by expected cost where feasibility is likely, then the rest."""
    known = [i for i, outcome in enumerate(history) if outcome.age == 0.0 and outcome.whole and outcome.price > 0.0]
    if not known:
        return []
    expected = expect_candidates(space, qos, [history[i] for i in known])
    keys = [(p < LIKELY, cost if p >= LIKELY else -p, i) for i, (cost, p) in zip(known, expected, strict=True)]
    first: dict[Parameters, int] = {}  # each parameters once, for the same proof twice tells nothing
    for _, _, i in sorted(keys):
        first.setdefault(history[i].parameters, i)
    return list(first.values())


def expect_candidates(
    space: SearchSpace, qos: QoS, history: Sequence[EvaluationOutcome]
) -> Sequence[tuple[float, float]]:
    """Expected cost and chance of feasibility, by the model of all trials; as replayed where that is not installed."""
    try:
        from tuner.search.engines.gp import estimate_candidates  # late, for it brings torch along
    except ModuleNotFoundError as error:
        if error.name not in ("gpytorch", "torch"):
            raise
        return [(outcome.price, float(meets(outcome, qos))) for outcome in history]
    return estimate_candidates(space, qos, history)


def verify(spec: EvaluationSpec, parameters: Parameters, held_out: int) -> tuple[Verification, list[Run]]:
    """Replay all slots with the spec's fresh seeds; the proof, and the runs behind it."""
    runs = replay_seeds(apply_parameters(spec, parameters), spec.seeds)
    whole, end = average(parameters, runs, whole=True), average(parameters, runs, True, held_out)
    days = bootstrap_days(runs, spec.setting.trace.step_s)
    return Verification(whole, end, measure_confidence(whole, spec.qos, len(runs), days)), runs


def measure_confidence(outcome: EvaluationOutcome, qos: QoS, seeds: int, days: DayErrors | None = None) -> float:
    """The lesser of the confidences with which each constraint is met by the next run, which has luck of its own.

    A stream runs once: what has to stay within the limit is one more draw, not the mean of many. Its interval is
    Student's, with the standard deviation of a single seed times the root of 1 + 1 / seeds. Where enough `days` were
    replayed, the next run has as many others: twice the variance of their mean, for those seen and those to come.
    """
    from scipy.special import stdtr  # late, for it takes a quarter of a second to load

    least = 1.0
    for mean, error, other_days, allowed in (
        (outcome.violations, outcome.violations_error, days and days.violations, qos.eta_v),
        (outcome.reconfigurations, outcome.reconfigurations_error, days and days.reconfigurations, qos.eta_r),
    ):
        single = 0.0 if math.isnan(error) else error * math.sqrt(seeds)
        luck = math.hypot(single * math.sqrt(1.0 + 1.0 / seeds), math.sqrt(2.0) * (other_days or 0.0))
        spread = max(SMALLEST_ERROR * allowed, luck)
        least = min(least, float(stdtr(max(1, seeds - 1), (allowed - mean) / spread)))
    return least


def choose(proofs: Sequence[Verification], qos: QoS) -> int | None:
    """The place of the cheapest that passes; None where none does."""
    passing = [i for i, proof in enumerate(proofs) if proof.passes(qos)]
    return min(passing, key=lambda i: proofs[i].whole.price) if passing else None


def needs_more(proofs: Sequence[Verification], qos: QoS) -> bool:
    """Whether another candidate is worth a proof."""
    return len(proofs) < PROVED or (len(proofs) < MOST_PROVED and choose(proofs, qos) is None)


def pick_next(
    candidates: Sequence[int], history: Sequence[EvaluationOutcome], proofs: Mapping[int, Verification], qos: QoS
) -> int | None:
    """The next candidate to verify, given the proofs of some by their place; None where all have one.

    After a failure it is the first that breaks the limit in question clearly less often, so that proofs are not spent
    on neighbours of what has failed.
    """
    left = [place for place in candidates if place not in proofs]
    failed = [(history[place], find_binding(proof, qos)) for place, proof in proofs.items() if not proof.passes(qos)]
    for place in left:
        if all(getattr(history[place], name) <= SAFER * getattr(outcome, name) for outcome, name in failed):
            return place
    return left[0] if left else None


def find_binding(proof: Verification, qos: QoS) -> str:
    """The measure of which most of what is allowed was used."""
    allowed = {"violations": qos.eta_v, "reconfigurations": qos.eta_r}
    seen = (proof.whole, proof.held_out)
    return max(allowed, key=lambda name: max(getattr(one, name) for one in seen) / allowed[name])


def find_least_infeasible(history: Sequence[EvaluationOutcome], qos: QoS) -> int | None:
    """The place of the outcome nearest to being feasible; of those that are, the cheapest."""
    known = [(i, measure_slack(o, qos)) for i, o in enumerate(history) if o.whole and not math.isnan(o.price)]
    if not known:
        return None
    return max(known, key=lambda one: (min(one[1], 0.0), -history[one[0]].price))[0]


def make_model(setting: Setting, constants: Mapping[str, float]) -> ObjectiveModel:
    """The setting's part of an objective; `constants` are seconds of response time besides queueing, by operator."""
    operators = {
        operator.name: OperatorModel(
            task.moments,
            task.k_max,
            task.highest_rate,
            constants.get(operator.name, 0.0),
            task.dearest,
            task.batches,
            task.k_min,
            task.hold,
            task.slot_s,
        )
        for operator, task in zip(setting.application.operators, tasks(setting), strict=True)
    }
    types = tuple(setting.infrastructure.types)
    return ObjectiveModel(
        setting.policy, types, operators, dict(setting.options), setting.levels, setting.gamma, setting.quantile,
        is_joint(setting),
    )  # fmt: skip
