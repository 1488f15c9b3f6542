"""Every check passes on good samples and fails on samples made bad in just that way; drift alarms as seldom as said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from scaler.model.sample import Sample
from tests.surrogate.worlds import WINDOW, batch_stream, load_pattern, queue_stream
from tuner.surrogate.checks import CHECKS, check_windows
from tuner.surrogate.drift import ALARM, WindowProfile, judge_changes, measure_profile
from tuner.surrogate.fit import check_drift_since, fit
from tuner.surrogate.observed_windows import build_windows
from tuner.surrogate.surrogate import Check, Surrogate, is_fit_for_tuning, worst

Samples = list[Sample]
WINDOWS = 150


@cache
def good() -> Surrogate:
    return fit(queue_stream("gamma", WINDOWS), "shop")


def verdicts(surrogate: Surrogate) -> dict[str, Check]:
    return {check.name: check for check in surrogate.checks}


def change(**columns: Callable[[int, Sample], Any]) -> Samples:
    """A good stream with some columns made another, by the number of the window."""
    return [
        replace(s, **{name: made(i, s) for name, made in columns.items()})
        for i, s in enumerate(queue_stream("gamma", WINDOWS))
    ]


def utilisation(i: int) -> float:
    return float(load_pattern(WINDOWS)[i])


def in_tasks() -> Samples:
    """The same work timed as one task a window and half a window."""
    samples = []
    for i, s in enumerate(queue_stream("gamma", WINDOWS)):
        n, t = s.service_n or 0.0, s.service_sum or 0.0
        sizes, times = np.array([n * 0.4, n * 0.6]), np.array([t * 0.4, t * 0.6]) + 0.01 * (i % 3)
        samples.append(
            replace(
                s, evidence="tasks", service_n=None, service_sum=None, service_squares=None, task_n=2.0,
                task_records=float(sizes.sum()), task_time=float(times.sum()), task_inverse=float((1 / sizes).sum()),
                task_rates=float((times / sizes).sum()), task_squares=float((times**2 / sizes).sum()),
            )
        )  # fmt: skip
    return samples


def without_records() -> Samples:
    return change(service_n=lambda *_: None, service_sum=lambda *_: None, service_squares=lambda *_: None)


def outage() -> Samples:
    """A quarter of the time with 5 windows' arrivals waiting."""
    return change(
        backlog=lambda i, s: 5.0 * (s.arrived or 0.0) if 60 <= i < 105 else s.backlog,
        response_sum=lambda i, s: (s.response_sum or 0.0) + (200.0 * (s.response_n or 0.0) if 60 <= i < 105 else 0.0),
    )


def slow_neighbour(i: int, sample: Sample) -> float:
    """All answers take up to 40 % longer or shorter for a while, whatever the load."""
    return (sample.response_sum or 0.0) * (1.0 + 0.4 * np.sin(2.0 * np.pi * i / 61.0))


def falling(i: int, sample: Sample) -> float:
    """The busier the faster, as with a cache."""
    return (sample.response_n or 0.0) * 0.02 / utilisation(i) ** 2


def scaled(factor: Callable[[int], float]) -> Samples:
    """Service times another factor in each window, all else as it was."""
    return change(
        service_sum=lambda i, s: factor(i) * (s.service_sum or 0.0),
        service_squares=lambda i, s: factor(i) ** 2 * (s.service_squares or 0.0),
    )


BAD: list[tuple[str, str, Callable[[], Samples]]] = [
    ("windows", "warn", lambda: queue_stream("gamma", 40)),
    ("windows", "fail", lambda: queue_stream("gamma", 16)),
    ("windows", "warn", lambda: change(response_sum=lambda _, s: 12.0 * (s.response_n or 0.0))),
    ("gaps", "warn", lambda: [s for s in queue_stream("gamma", WINDOWS) if not 60 <= s.start // WINDOW < 75]),
    ("gaps", "fail", lambda: [s for s in queue_stream("gamma", WINDOWS) if not 60 <= s.start // WINDOW < 100]),
    ("gaps", "fail", lambda: [replace(s, completeness=0.7) for s in queue_stream("gamma", WINDOWS)]),
    ("backlog", "warn", lambda: [s for i, s in enumerate(outage()) if not 76 <= i < 105]),
    ("backlog", "fail", lambda: outage()[55:]),
    ("load", "warn", lambda: queue_stream("gamma", WINDOWS, low=0.35, high=0.5)),
    ("load", "fail", lambda: queue_stream("gamma", WINDOWS, low=0.05, high=0.2)),
    ("saturation", "warn", lambda: queue_stream("gamma", WINDOWS, high=0.97)),
    ("saturation", "fail", lambda: change(replicas=lambda *_: 1.0)),
    ("mean", "warn", lambda: change(service_n=lambda i, _: 1.0 if i < 40 else None, service_sum=lambda *_: 0.02)),
    ("variance", "warn", in_tasks),
    ("variance", "warn", without_records),
    ("replicas", "warn", lambda: change(replicas=lambda *_: None)),
    ("prediction", "fail", lambda: change(response_sum=falling)),
    ("prediction", "fail", lambda: change(response_sum=lambda *_: None)),
    ("replay", "fail", lambda: change(response_sum=falling)),
    ("quantiles", "warn", lambda: change(responses=lambda *_: {"100": 10.0})),
    ("residuals", "warn", lambda: change(response_sum=slow_neighbour)),
    ("residuals", "fail", lambda: change(response_sum=lambda i, s: (s.response_n or 0.0) * 0.02 / utilisation(i))),
    ("drift", "fail", lambda: scaled(lambda i: 1.2 if i >= 105 else 1.0)),
    ("drift", "warn", lambda: scaled(lambda i: 1.05 if i >= 105 else 1.0)),
]  # fmt: skip


def test_good_samples_pass_every_check() -> None:
    assert set(verdicts(good())) == set(CHECKS)
    assert [check for check in good().checks if check.verdict != "pass"] == []
    assert is_fit_for_tuning(good().checks)
    assert all(check.says.endswith(".") and check.says.count("\n") == 0 for check in good().checks)


@pytest.mark.parametrize(("name", "verdict", "make"), BAD, ids=[f"{name}-{i}" for i, (name, _, _) in enumerate(BAD)])
def test_samples_bad_in_one_way_fail_that_check(name: str, verdict: str, make: Callable[[], Samples]) -> None:
    surrogate = fit(make(), "shop")
    check = verdicts(surrogate)[name]
    assert check.verdict == verdict, check.says
    assert check.says.endswith(".")
    assert is_fit_for_tuning(surrogate.checks) == (worst(surrogate.checks) != "fail")


def test_the_quantile_that_bounds_are_about_must_be_predicted() -> None:
    def judge(samples: Samples, quantile: float) -> Check:
        return verdicts(fit(samples, "shop", quantile=quantile))["quantiles"]

    unknown = judge(queue_stream("gamma", WINDOWS), 0.95)
    assert (unknown.verdict, "bounds are about p95" in unknown.says) == ("warn", True)
    spoilt = judge(change(responses=lambda *_: {"100": 10.0}), 0.9)
    assert (spoilt.verdict, "p90, which bounds are about" in spoilt.says) == ("fail", True)
    assert judge(batch_stream(WINDOWS, trigger=0.3), 0.95).verdict == "pass"


def test_every_check_is_seen_to_fail_or_warn() -> None:
    assert {name for name, _, _ in BAD} == set(CHECKS)


def test_nothing_unchecked_is_fit_for_tuning() -> None:
    assert not is_fit_for_tuning(())


def stationary(seed: int, factor: float = 1.0, windows: int = 60, rate: float = 3.0) -> Samples:
    """Windows of one operator with rates that come in waves, and service times as known."""
    rng = np.random.default_rng(seed)
    waves, samples = 0.0, []
    for w in range(windows):
        waves = 0.8 * waves + rng.normal(0.0, 0.2)
        count = int(rng.poisson(rate * WINDOW * np.exp(waves - 0.2)))
        times = rng.gamma(2.0, 0.005 * factor, count)
        samples.append(
            Sample(
                "shop", "count", WINDOW * w, WINDOW * w + WINDOW, "records", arrived=float(count),
                service_n=float(count), service_sum=float(times.sum()), service_squares=float((times**2).sum()),
            )
        )  # fmt: skip
    return samples


def look(seed: int, **changed: Any) -> WindowProfile:
    found = measure_profile(build_windows(stationary(seed, **changed))["count"], "")
    assert found is not None
    return found


def test_what_does_not_change_raises_no_more_false_alarms_than_stated() -> None:
    looks = 250
    alarms = sum(judge_changes(look(2 * i), look(2 * i + 1), "now").verdict != "pass" for i in range(looks))
    assert stats.binomtest(alarms, looks, ALARM, alternative="greater").pvalue > 0.01, alarms


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_fifth_more_or_less_is_always_noticed(factor: float) -> None:
    answers = [judge_changes(look(2 * i), look(2 * i + 1, factor=factor), "now") for i in range(60)]
    assert {answer.verdict for answer in answers} == {"fail"}


def test_other_rates_are_noticed_and_do_not_forbid_tuning() -> None:
    answers = [
        judge_changes(look(2 * i, windows=150), look(2 * i + 1, windows=150, rate=9.0), "now") for i in range(50)
    ]
    assert {answer.verdict for answer in answers} == {"warn"}


def later(factor: float, seed: int = 9) -> Samples:
    samples = queue_stream("gamma", 60, seed=seed, start=WINDOWS * WINDOW)
    return [
        replace(
            s,
            service_sum=factor * (s.service_sum or 0.0),
            service_squares=factor**2 * (s.service_squares or 0.0),
        )
        for s in samples
    ]


def test_samples_since_the_fit_tell_of_drift() -> None:
    assert check_drift_since(good(), []) == good()
    assert verdicts(check_drift_since(good(), later(1.0)))["drift"].verdict == "pass"
    changed = check_drift_since(good(), later(1.2))
    assert verdicts(changed)["drift"].verdict == "fail"
    assert "60 windows since the fit" in verdicts(changed)["drift"].says
    assert not is_fit_for_tuning(changed.checks)


def test_samples_of_the_fit_itself_are_not_looked_at_again() -> None:
    assert check_drift_since(good(), [replace(s, start=s.start - 1e6, end=s.end - 1e6) for s in later(2.0)]) == good()


def test_windows_behind_and_after_are_left_out() -> None:
    surrogate = fit(outage(), "shop")
    times = {point.time // WINDOW for point in surrogate.operators[0].points}
    assert times == set(range(2, 60)) | set(range(106, WINDOWS))
    assert verdicts(surrogate)["prediction"].verdict == "pass"


def test_a_backlog_that_nobody_counted_is_seen_from_what_was_taken_in() -> None:
    """Half of what came in three windows is taken in much later."""
    came = dict.fromkeys((50, 51, 52), 0.5) | dict.fromkeys(range(53, 63), 1.15)
    samples = change(
        backlog=lambda *_: None,
        arrived=lambda *_: 3000.0,
        tuples_in=lambda i, _: 3000.0 * came.get(i, 1.0),
    )
    times = {point.time // WINDOW for point in fit(samples, "shop").operators[0].points}
    assert times.isdisjoint(range(50, 60))
    assert set(range(2, 50)) | set(range(66, WINDOWS)) <= times


@pytest.mark.slow
def test_micro_batches_pass_too() -> None:
    assert worst(fit(batch_stream(WINDOWS), "shop").checks) == "pass"


def test_advice_on_windows_does_not_turn_round() -> None:
    """At 8 s it asked for windows of 10 s, and at 10 s for shorter ones."""
    short = check_windows(see_windows(65, 8.0, 0.92))
    assert short.verdict == "warn"
    assert "ingest a longer time, for 60 are wanted, with windows of 10 s or more" in short.says
    longer = check_windows(see_windows(52, 10.0, 0.92))
    assert "ingest a longer time with windows as these" in longer.says
    wide = check_windows(see_windows(30, 60.0, 0.92))
    assert "ingest a longer time, or windows of 10 s" in wide.says
    assert check_windows(see_windows(65, 10.0, 0.92)).verdict == "pass"
    unseen = see_windows(30, 60.0, 0.92)
    unseen.points = ()  # no response time is known, so that nothing says how short windows may be
    assert "ingest a longer time with windows as these" in check_windows(unseen).says


def see_windows(count: int, length: float, response: float) -> Any:
    """What the check looks at, of so many windows that are all sound."""
    points = tuple(SimpleNamespace(observed=response) for _ in range(count))
    windows = SimpleNamespace(length=np.full(count, length))
    return SimpleNamespace(sound=np.ones(count, bool), points=points, windows=windows)
