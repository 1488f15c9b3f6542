"""Models of response times, each fitted on the load of windows and their responses, predicting from loads.

Notation: W windows, N node types; k replicas, x = rate / k arrivals per second at each, m and v mean and variance of
the service time at speedup 1, s speedup, rho = x m / s on the slowest type.

queue     c + the M/G/1 term of `scaler.model.queueing`: c a constant for trigger and scheduling
bursty    the same with a variance of its own, which takes in arrivals that come in clumps
batches   a micro-batch query: a tuple waits half the interval I before the trigger that takes it in, then d and the
          share p of its batch's duration D. D = a + g rho I + noise: a overhead, part of which replicas may share, g
          how much longer a batch takes than its work split evenly. The next batch starts I' = max(T, D) after this
          one: where batches overrun the trigger T they follow each other at once, and without noise I = D = a / (1 - g
          rho). Noise (of the batch itself, standard deviation n, and of how much arrives) only ever adds to I near the
          trigger, and a long batch makes the next one longer: so the chain of batches is played with draws that are
          always the same, and a tuple is more likely to meet a long interval than a short one

Fits minimise Huber's loss of log(predicted / observed), so that a window counts by its relative error and an odd one
does not rule, by Levenberg-Marquardt steps within bounds from each of several starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from scaler.model.batch_quantiles import batch_response
from scaler.model.kernel import Floats
from scaler.model.micro_batches import MicroBatches
from scaler.model.queue_quantiles import replica_response_time
from scaler.model.queueing import mg1_response
from tuner.surrogate.observed_windows import Flags

TUNING = 1.345  # of Huber's loss: 95 % efficient where errors are normal
NORMAL = 1.4826  # from the median absolute deviation to the standard deviation
STEPS = 60
LEAST = 1e-12

Predict = Callable[[Floats], Floats]


def fit_robustly(predict: Predict, observed: Floats, starts: Sequence[Sequence[float]], low: Floats) -> Floats:
    """The parameters [P], none below `low`; windows whose prediction is infinite count as far off."""
    fits = [descend(predict, observed, np.maximum(low, np.array(start, dtype=np.float64)), low) for start in starts]
    return min(fits, key=lambda fit: fit[1])[0]


def descend(predict: Predict, observed: Floats, at: Floats, low: Floats) -> tuple[Floats, float]:
    """The end of the way down from one start, and the mean absolute residual there."""
    errors = residuals(predict, observed, at)
    damping = 1e-3
    for _ in range(STEPS):
        weight = weigh(errors)
        slopes = differentiate(predict, observed, at, errors)
        square = slopes.T @ (weight[:, None] * slopes)
        pull = slopes.T @ (weight * errors)
        step = np.linalg.lstsq(square + damping * np.diag(np.diag(square) + LEAST), -pull, rcond=None)[0]
        ahead = np.maximum(low, at + step)
        there = residuals(predict, observed, ahead)
        if np.sum(weight * there**2) < np.sum(weight * errors**2):
            still = np.all(np.abs(ahead - at) <= 1e-9 * (np.abs(at) + LEAST))
            at, errors, damping = ahead, there, damping * 0.3
            if still:
                break
        else:
            damping *= 5.0
            if damping > 1e9:
                break
    return at, float(np.mean(np.abs(errors)))


def residuals(predict: Predict, observed: Floats, at: Floats) -> Floats:
    predicted = np.clip(np.nan_to_num(predict(at), nan=1e9, posinf=1e9), LEAST, 1e9)
    return np.clip(np.log(predicted / observed), -5.0, 5.0)


def differentiate(predict: Predict, observed: Floats, at: Floats, errors: Floats) -> Floats:
    """Slopes of the residuals [W, P]."""
    slopes = np.empty((errors.size, at.size))
    for i in range(at.size):
        ahead = at.copy()
        ahead[i] += (width := 1e-6 * max(abs(at[i]), 1e-3))
        slopes[:, i] = (residuals(predict, observed, ahead) - errors) / width
    return slopes


def weigh(errors: Floats) -> Floats:
    """Huber's weights, by the spread of the errors themselves."""
    scale = max(NORMAL * float(np.median(np.abs(errors - np.median(errors)))), 1e-6)
    return np.minimum(1.0, TUNING * scale / np.maximum(np.abs(errors), LEAST))


FEWEST = 8  # windows with known batches, to take the batches' parameters from them
WORTH = 0.9  # of the residuals, below which another parameter must bring them
LOADS, CHAINS, LENGTH, SETTLING = 40, 8, 160, 32  # of the chains that are played
LEAST_OVERHEAD = 1e-3  # seconds
HIGHEST = 0.98  # g rho, beyond which they are not
ODD = 4.0  # standard deviations, at which a batch's noise is cut
DRAWS = np.random.default_rng(20_240_811).standard_normal((LENGTH, CHAINS // 2, 1))
# Of an overhead that replicas share: its seconds on one, the replicas that the whole is stated for, the most seen.
SHARED, USUAL, MOST = OF_SHARING = ("shared_overhead", "usual_replicas", "most_replicas")
Parameters = Mapping[str, float]
Explain = Callable[[Any, float], Floats]  # durations by overhead, which may differ by window, and work


@dataclass(frozen=True, slots=True, eq=False)
class WindowLoad:
    """What a model predicts from, and the batches seen, which serve to fit alone."""

    rate: Floats  # [W]
    earlier: Floats  # [W] the rate in the window before, or the same where there is none
    replicas: Floats  # [W, N]
    speedups: Floats  # [N]
    mean: float
    variance: float
    interval: Floats  # [W] mean between triggers, NaN where unknown
    duration: Floats  # [W] mean of the batches, NaN where unknown
    taken: Floats  # [W] tuples in a batch, NaN where unknown
    batches: Floats  # [W] how many ended, NaN where unknown
    place: Floats  # [W] in time: windows whose places differ by one adjoin

    @property
    def each(self) -> Floats:
        """Arrivals per second at each replica [W]."""
        return self.rate / self.replicas.sum(axis=1)

    @property
    def slowest(self) -> Floats:
        """The lowest speedup among the replicas of each window [W]."""
        return np.where(self.replicas > 0.0, self.speedups, math.inf).min(axis=1)

    @property
    def utilisation(self) -> Floats:
        return self.each * self.mean / self.slowest

    @property
    def batch_work(self) -> Floats:
        """Seconds of work that each replica has of a batch [W]; from the arrivals where batches were not counted."""
        rate = np.where(np.isnan(self.taken), self.rate * self.interval, self.taken)
        return rate / self.replicas.sum(axis=1) * self.mean / self.slowest


def blend_earlier(load: WindowLoad, share: float) -> WindowLoad:
    """The load as it is felt: in short windows, this share of it is still that of the window before."""
    return load if share == 0.0 else replace(load, rate=(1.0 - share) * load.rate + share * load.earlier)


def select_windows(load: WindowLoad, which: Flags) -> WindowLoad:
    """Some of the windows."""
    columns = ("rate", "earlier", "replicas", "interval", "duration", "taken", "batches", "place")
    return replace(load, **{name: getattr(load, name)[which] for name in columns})


def find_seen_batches(load: WindowLoad) -> Flags:
    """Windows of which triggers and durations of batches are known [W]."""
    return ~np.isnan(load.interval) & (load.duration > 0.0)


def are_batches_seen(load: WindowLoad) -> bool:
    """Whether enough windows tell of batches for these to be fitted on."""
    return int(np.count_nonzero(find_seen_batches(load))) >= FEWEST


def fit_batches(load: WindowLoad, observed: Floats) -> dict[str, float]:
    """Batches' parameters; the share of its batch that a tuple waits is that of durations seen, not of predicted ones.

    These vary too little to tell it from the delay, and where batches grow it is what counts.
    """
    if not are_batches_seen(load):
        return fit_unseen_batches(load, observed)
    known = find_seen_batches(load)
    columns = (load.interval, load.duration, load.batch_work, load.batches, load.utilisation)
    rhythm = fit_rhythm(
        *(column[known] for column in columns),
        replicas=load.replicas.sum(axis=1)[known],
        adjoining=np.diff(load.place[known]) == 1.0,
    )
    seen = load.duration[known]
    starts = [[0.0, 1.0], [0.0, 0.5], [rhythm["overhead"], 0.1]]
    low = np.array([-rhythm["overhead"], 0.0])
    half = np.maximum(rhythm["trigger"], seen) / 2.0
    part = float(min(fit_robustly(lambda p: half + p[0] + min(p[1], 1.0) * seen, observed[known], starts, low)[1], 1.0))
    wait, duration = beat(load, rhythm)
    delay = fit_robustly(lambda p: wait + p[0] + part * duration, observed, [[0.0]], low[:1])[0]
    return {**rhythm, "delay": float(delay), "part": part}


def fit_rhythm(
    interval: Floats,
    duration: Floats,
    work: Floats,
    batches: Floats,
    share: Floats | None = None,
    *,
    replicas: Floats | None = None,
    adjoining: Flags | None = None,
) -> dict[str, float]:
    """Trigger, overhead, work and noise from the batches themselves.

    `work` [W] is of the batches that were counted. Where windows are short, tuples of a batch at their edge count to
    one window and its duration to another; the steady cycle at a `share` [W] of capacity explains them better. There
    durations vary less than what explains them: noise is no more than what tells windows that adjoin apart [W - 1].
    Part of the overhead may be shared by the replicas [W], as what each task takes beyond its tuples is.
    """
    waits = interval > 1.05 * duration
    trigger = float(np.median(interval[waits])) if np.mean(waits) > 0.1 else 0.0
    explanations: list[Explain] = [lambda overhead, each: overhead + each * work]
    if share is not None:
        explanations.append(
            lambda overhead, each: beat_evenly(each * share, {"trigger": trigger, "overhead": overhead})[1]
        )
    fits = [fit_duration(explain, duration, replicas) for explain in explanations]
    found, errors = min(fits, key=lambda fit: float(np.mean(np.abs(fit[1]))))
    noise = measure_noise(errors, batches)
    if adjoining is not None and np.count_nonzero(adjoining) >= FEWEST:
        noise = min(noise, measure_noise(duration, batches, adjoining))
    return {"trigger": trigger, **found, "noise": noise}


def measure_noise(errors: Floats, batches: Floats, adjoining: Flags | None = None) -> float:
    """Standard deviation of single batches from the errors [W] of windows' means, in order of time.

    Of neighbouring windows' differences: what they share (a busy neighbour, warm-up) is slower than a batch, and would
    be taken for noise as many times too large as the root of a window's batches.
    """
    noise = np.abs(np.diff(errors)) / np.sqrt(1.0 / batches[1:] + 1.0 / batches[:-1])
    noise = noise if adjoining is None else noise[adjoining]
    usual = NORMAL * float(np.median(noise))
    return math.sqrt(float(np.mean(np.minimum(noise, ODD * usual) ** 2)))


def fit_duration(explain: Explain, duration: Floats, replicas: Floats | None) -> tuple[dict[str, float], Floats]:
    """Overhead and work of batches' durations, and what these leave; a batch takes its work, unless it shows another.

    Loads that vary little, or that few numbers of replicas served, do not tell the two apart; what is fitted in one for
    the other is wrong at every other number of replicas. Nor is the overhead shared unless it shows that.
    """
    start = 0.5 * float(duration.min())
    (only,) = fit_robustly(lambda p: explain(p[0], 1.0), duration, [[start]], np.zeros(1))
    free = fit_robustly(lambda p: explain(p[0], p[1]), duration, [[start, 1.0], [float(only), 1.0]], np.zeros(2))
    found = [{"overhead": float(only), "work": 1.0}, {"overhead": float(free[0]), "work": float(free[1])}]
    errors = [duration - explain(one["overhead"], one["work"]) for one in found]
    if replicas is not None and np.ptp(replicas) > 0.0:
        replicas = np.maximum(1.0, replicas)
        usual = 1.0 / float(np.mean(1.0 / replicas))
        apart = 1.0 / replicas - 1.0 / usual
        overhead, shared = fit_robustly(
            lambda p: explain(p[0] + min(p[1], p[0] * usual) * apart, 1.0), duration, [[float(only), 0.1]], np.zeros(2)
        )
        part = {SHARED: float(min(shared, overhead * usual)), USUAL: usual, MOST: float(replicas.max())}
        found.append({"overhead": float(overhead), "work": 1.0, **part})
        errors.append(duration - explain(overhead + part[SHARED] * apart, 1.0))
    missed = [float(np.mean(np.abs(one))) for one in errors]
    best = min(range(1, len(found)), key=lambda i: missed[i])
    best = best if missed[best] < WORTH * missed[0] else 0
    return found[best], errors[best]


def overhead_by(parameters: Parameters, replicas: float) -> float:
    """The overhead of a batch on so many replicas; of more than were seen as of those."""
    if SHARED not in parameters:
        return parameters["overhead"]
    apart = 1.0 / min(max(1.0, replicas), parameters[MOST]) - 1.0 / parameters[USUAL]
    return max(LEAST_OVERHEAD, parameters["overhead"] + parameters[SHARED] * apart)


def with_overhead_of(parameters: Parameters, replicas: float) -> Parameters:
    """The parameters on so many replicas."""
    kept = {name: value for name, value in parameters.items() if name not in OF_SHARING}
    return {**kept, "overhead": overhead_by(parameters, replicas)}


def fit_unseen_batches(load: WindowLoad, observed: Floats) -> dict[str, float]:
    """All from the response times: the whole batch counts, and nothing else delays.

    Where no batch overran, three parameters are one too many; then a batch takes what its work does.
    """
    least = float(np.min(observed))
    starts = [[trigger * least, part * least] for trigger, part in ((0.0, 0.6), (0.6, 0.5), (1.2, 0.3), (1.8, 0.1))]

    def respond(p: Floats) -> Floats:
        rhythm = {"trigger": p[0], "overhead": p[1], "work": p[2] if p.size > 2 else 1.0, "noise": 0.0}
        return np.add(*beat(load, rhythm))

    plain = fit_robustly(respond, observed, starts, np.zeros(2))
    free = fit_robustly(respond, observed, [[*plain, 1.0], *([*start, 1.0] for start in starts)], np.zeros(3))
    errors = [float(np.mean(np.abs(residuals(respond, observed, fit)))) for fit in (plain, free)]
    trigger, overhead, work = map(float, free if errors[1] < WORTH * errors[0] else [*plain, 1.0])
    return {"trigger": trigger, "overhead": overhead, "work": work, "noise": 0.0, "delay": 0.0, "part": 1.0}


def beat(load: WindowLoad, parameters: Parameters) -> tuple[Floats, Floats]:
    """A tuple's wait for its trigger and its batch's duration [W]; infinite where work outruns the replicas."""
    if SHARED in parameters:
        wait, duration = find_by_count(load, parameters, lambda *part: np.array(beat(*part)))
        return wait, duration
    share = parameters["work"] * load.utilisation
    if parameters["noise"] <= 0.0:
        return beat_evenly(share, parameters)
    clump = parameters["work"] * load.mean * (1.0 + load.variance / load.mean**2) / float(np.median(load.slowest))
    grid = np.linspace(0.0, HIGHEST, LOADS)
    sides = play(grid, parameters, clump)
    inside, stretch = np.minimum(share, HIGHEST), stretch_beyond(share)
    return np.interp(inside, grid, sides[0]) * stretch, np.interp(inside, grid, sides[1]) * stretch


def stretch_beyond(share: Floats) -> Floats:
    """How much longer times are than at the last load played, as the chain without noise grows [W]."""
    rest = np.divide(1.0 - HIGHEST, 1.0 - share, where=share < 1.0, out=np.full(share.size, math.inf))
    return np.maximum(1.0, rest)


def find_by_count(load: WindowLoad, parameters: Parameters, find: Callable[[WindowLoad, Parameters], Floats]) -> Floats:
    """What is found [..., W] of the windows of each number of replicas, which has an overhead of its own."""
    counts = load.replicas.sum(axis=1)
    parts = [
        (there, find(select_windows(load, there), with_overhead_of(parameters, many)))
        for many, there in ((float(many), counts == many) for many in np.unique(counts))
    ]
    found = np.empty((*parts[0][1].shape[:-1], counts.size))
    for there, part in parts:
        found[..., there] = part
    return found


def beat_evenly(share: Floats, parameters: Mapping[str, Any]) -> tuple[Floats, Floats]:
    trigger, overhead = parameters["trigger"], parameters["overhead"]
    kept = overhead + share * trigger
    overrun = np.divide(overhead, 1.0 - share, out=np.full(share.size, math.inf), where=share < 1.0)
    return np.where(kept <= trigger, trigger, overrun) / 2.0, np.where(kept <= trigger, kept, overrun)


def play(share: Floats, parameters: Parameters, clump: float) -> tuple[Floats, Floats]:
    """Mean wait and mean duration as tuples see them, by load; `clump` is what variance each second of work brings."""
    trigger, overhead, noise = parameters["trigger"], parameters["overhead"], parameters["noise"]
    interval = np.broadcast_to(2.0 * beat_evenly(share, parameters)[0], (CHAINS, share.size))
    seen, waited, lasted = (np.zeros(share.size) for _ in range(3))
    for i, draw in enumerate(DRAWS):
        work = share * interval
        spread = np.sqrt(noise**2 + clump * work)
        ahead = np.maximum(0.2 * overhead, overhead + work + spread * np.concatenate([draw, -draw]))
        if i >= SETTLING:
            seen += interval.sum(axis=0)
            waited += (interval**2).sum(axis=0) / 2.0
            lasted += (interval * ahead).sum(axis=0)
        interval = np.maximum(trigger, ahead)
    return waited / seen, lasted / seen


def predict_batches(load: WindowLoad, parameters: Parameters) -> Floats:
    wait, duration = beat(load, parameters)
    return wait + parameters["delay"] + parameters["part"] * duration


def queue_term(load: WindowLoad, variance: float) -> Floats:
    """The M/G/1 response time [W], the mean over the replicas, among which arrivals split evenly."""
    term = np.vectorize(mg1_response, otypes=[np.float64])
    total = np.zeros(load.rate.size)
    for j, speedup in enumerate(load.speedups):
        there = load.replicas[:, j] > 0.0
        if there.any():
            total[there] += load.replicas[there, j] * term(load.each[there], load.mean, variance, speedup)
    return total / load.replicas.sum(axis=1)


def fit_queue(load: WindowLoad, observed: Floats) -> dict[str, float]:
    term = queue_term(load, load.variance)
    start = max(0.0, float(np.median(observed - np.where(np.isfinite(term), term, observed))))
    return {"constant": float(fit_robustly(lambda p: p[0] + term, observed, [[start]], np.zeros(1))[0])}


def predict_queue(load: WindowLoad, parameters: Parameters) -> Floats:
    """The constant and the M/G/1 term, with the variance that was fitted if one was."""
    return parameters["constant"] + queue_term(load, parameters.get("variance", load.variance))


def fit_bursty(load: WindowLoad, observed: Floats) -> dict[str, float]:
    """The term grows in proportion to the variance, so two values of it give all others."""
    unit = load.mean**2
    still, moved = queue_term(load, 0.0), queue_term(load, unit)
    slope = np.subtract(moved, still, out=np.full(still.size, math.inf), where=np.isfinite(moved))
    least = float(np.min(observed))
    starts = [[0.0, load.variance / unit], [0.5 * least, 1.0], [0.9 * least, 30.0]]
    constant, scale = fit_robustly(
        lambda p: p[0] + still + np.maximum(p[1], 1e-12) * slope, observed, starts, np.zeros(2)
    )
    return {"constant": float(constant), "variance": float(scale * unit)}


class ResponseModel(NamedTuple):
    says: str
    fit: Callable[[WindowLoad, Floats], dict[str, float]]
    predict: Callable[[WindowLoad, Mapping[str, float]], Floats]


def fit_model(name: str, load: WindowLoad, observed: Floats, memory: float) -> dict[str, float]:
    """The model's parameters, and the share of its load that is still felt in the window after."""
    return {**MODELS[name].fit(blend_earlier(load, memory), observed), "memory": memory}


def predict_model(name: str, load: WindowLoad, parameters: Mapping[str, float]) -> Floats:
    return MODELS[name].predict(blend_earlier(load, parameters["memory"]), parameters)


def predict_quantile(name: str, load: WindowLoad, parameters: Mapping[str, float], quantile: float) -> Floats:
    """Quantile of response times [W] as the simulator replays the model, of steady windows.

    A queue's is that of the slowest replicas. Of batches with noise it is interpolated between LOADS loads.
    """
    load = blend_earlier(load, parameters["memory"])
    if name != BATCHES:
        times = np.vectorize(replica_response_time, otypes=[np.float64])
        variance = parameters.get("variance", load.variance)
        return parameters["constant"] + times(load.each, load.mean, variance, load.slowest, quantile)
    if SHARED in parameters:
        felt = {**parameters, "memory": 0.0}
        return find_by_count(load, felt, lambda part, own: predict_quantile(name, part, own, quantile))
    batches, share = to_micro_batches(parameters), parameters["work"] * load.utilisation
    inside = np.minimum(share, HIGHEST)
    grid = np.linspace(inside.min(), inside.max(), LOADS) if batches.noise_s > 0.0 else np.unique(inside)
    known = np.array([batch_response(batches, float(one), quantile) for one in grid])
    return np.interp(inside, grid, known) * stretch_beyond(share)


def to_micro_batches(parameters: Parameters) -> MicroBatches:
    """The fitted batches as they are replayed."""
    overhead = max(parameters["overhead"], LEAST_OVERHEAD)
    return MicroBatches(
        trigger_s=parameters["trigger"] if parameters["trigger"] > overhead else 0.0,  # always overrun, it is none
        overhead_s=overhead,
        work=parameters["work"],
        noise_s=parameters["noise"],
        delay_s=parameters["delay"],
        part=parameters["part"],
        overhead_curve_s=tuple(overhead_by(parameters, k) for k in range(1, 1 + round(parameters.get(MOST, 0.0)))),
    )


BATCHES = "batches"
MODELS: dict[str, ResponseModel] = {  # the simpler before the richer
    "queue": ResponseModel("M/G/1 and a constant", fit_queue, predict_queue),
    "bursty": ResponseModel(
        "M/G/1 with a variance fitted to the response times, and a constant", fit_bursty, predict_queue
    ),
    BATCHES: ResponseModel("half the interval between triggers and the batch", fit_batches, predict_batches),
}
