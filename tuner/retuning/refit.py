"""Fit a surrogate on the longest stretch of an application's samples without drift."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tuner.retuning.causes import have_moments_changed
from tuner.rollout.retuning_settings import RetuningSettings
from tuner.scenario.description import tables_of
from tuner.scenario.scenario import make_infrastructure, make_qos
from tuner.store.applications import list_surrogates, load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_supply
from tuner.store.records import SurrogateRecord
from tuner.store.samples import load_samples
from tuner.surrogate.checks import LATER
from tuner.surrogate.drift import split_profiles
from tuner.surrogate.fit import choose_length, fit
from tuner.surrogate.observed_windows import Windows, build_windows
from tuner.surrogate.service_moments import list_services
from tuner.surrogate.supply import measure_supply
from tuner.surrogate.surrogate import Surrogate, from_record, worst

TAIL_SHARES = (0.5, 0.25, 0.125)  # of all samples: stretches that are tried where the whole has a drift
MIN_WINDOWS = 30  # of a stretch, for its last windows to be compared with those before
MAX_FITS = 6  # earlier fits, whose ends start stretches as well: drift may have begun there


def refit(session: Session, app: str, settings: RetuningSettings, now: float) -> Surrogate | None:
    """Fit anew; None where the newest surrogate has seen all samples."""
    earlier = list_surrogates(session, app, limit=MAX_FITS)
    samples = load_samples(session, app, since=now - settings.history_s)
    if not samples:
        raise BadInput(f"no agent of {app!r} reported a sample, and none was read, so that nothing is known of it")
    if earlier and max(sample.end for sample in samples) <= earlier[0].end:
        return None
    fitted = fit_stretches(session, app, samples, [record.end for record in earlier])
    return replace(fitted, supply=measure_supply(list_supply(session, app, since=now - settings.history_s)))


def fit_stretches(session: Session, app: str, samples: list[Sample], ends: Sequence[float]) -> Surrogate:
    """Fit the longest stretch without drift up to now whose surrogate passes its checks, else the longest of all.

    Stretches start at the first sample, at the ends of earlier fits, and at shares of the whole. Drift is tested before
    the fit, which takes long. Refused where every stretch has drift.
    """
    tables = tables_of(load_application(session, app).document)
    types, quantile = make_infrastructure(tables["infrastructure"]).types, make_qos(tables["qos"]).quantile
    own = choose_length(samples)
    first, last = min(sample.start for sample in own), max(sample.end for sample in own)
    starts = {first, *(last - part * (last - first) for part in TAIL_SHARES), *(e for e in ends if first < e < last)}
    tried: list[Surrogate] = []
    for start in sorted(starts):
        part = [sample for sample in own if sample.start >= start]
        if all(is_steady(windows) for windows in build_windows(part).values()):
            tried.append(fit(part, app, node_types=types, quantile=quantile))
            if worst(tried[-1].checks) != "fail":
                return tried[-1]
    if not tried:
        raise BadInput(
            "service times have changed within every stretch of samples that is long enough to be fitted; what comes "
            "from now on will tell"
        )
    return tried[0]


def is_steady(windows: Windows) -> bool:
    """Whether the last windows are like those before: a surrogate of two regimes is right about neither."""
    if windows.start.size < MIN_WINDOWS:
        return False
    before, after = split_profiles(windows, LATER, list_services(windows)[1])
    if before is None or after is None:  # what cannot be compared is left to the checks
        return True
    return not have_moments_changed(before, after)


def explain_health(record: SurrogateRecord) -> str:
    """Name the checks that failed, with their messages."""
    failed = [check for check in from_record(record).checks if check.verdict == "fail"]
    told = "; ".join(f"{check.operator}, {check.name}: {check.says}" for check in failed[:3])
    return f"surrogate {record.number} failed a check ({told})"
