"""Find windows that are no steady state: backlogs, reconfigurations and what follows them."""

from __future__ import annotations

import math

import numpy as np

from scaler.model.kernel import Floats
from tuner.surrogate.observed_windows import Flags, Windows, divide

INTERVALS = 3.0  # of arrivals that may wait at any time where tuples are taken in batches
SHARE = 0.1  # of a window's arrivals that may wait at its end, whatever else
MOVED = 0.25  # of a replica
SETTLING_S = 30.0  # what a move or a backlog may still be felt for
FORGIVEN = 0.02  # of a window's arrivals, by which the two counts may disagree for ever


def find_backlog(windows: Windows) -> Flags:
    """Windows that end behind, and those after them."""
    return settle(ends_behind(windows), windows)


def settle(odd: Flags, windows: Windows) -> Flags:
    """These windows, and each that follows one or begins within SETTLING_S of its end."""
    last = np.maximum.accumulate(np.where(odd, windows.end, -math.inf))
    before = np.append(-math.inf, last[:-1])
    near = windows.start <= before + SETTLING_S
    return odd | near[: odd.size] | (follows(windows) & np.append(False, odd[:-1]))[: odd.size]


def follows(windows: Windows) -> Flags:
    """Windows that begin where the one before ends."""
    return np.append(False, np.isclose(windows.start[1:], windows.end[:-1]))


def find_changes(windows: Windows) -> Flags:
    """Windows in which replicas came, went or moved or anything began, also after a gap, and those after them."""
    counts = np.nan_to_num(windows.replicas)
    moved = np.append(False, (np.abs(np.diff(counts, axis=0)) > MOVED).any(axis=1))
    return settle(moved | ~follows(windows), windows)


def ends_behind(windows: Windows) -> Flags:
    """More waiting than the rhythm of batches and the response times explain."""
    rate = windows.rate
    intervals = divide(windows.batch_interval, windows.batches)
    interval = float(np.nanmedian(intervals)) if np.isfinite(intervals).any() else 0.0
    waiting = np.where(np.isnan(windows.backlog), add_up_debt(windows), windows.backlog)
    usual = np.fmax(INTERVALS * rate * max(interval, usual_response(windows)), SHARE * rate * windows.length)
    return waiting > usual


def add_up_debt(windows: Windows) -> Floats:
    """What came and was not taken in, window upon window, where nobody counts what waits; a share of it is forgiven."""
    short = np.nan_to_num(windows.arrived - windows.tuples_in)
    forgiven, joined = FORGIVEN * np.nan_to_num(windows.arrived), follows(windows)
    debt = np.zeros(short.size)
    for i in range(short.size):
        debt[i] = max(0.0, (debt[i - 1] if joined[i] else 0.0) + short[i] - forgiven[i])
    return debt


def usual_response(windows: Windows) -> float:
    seen = windows.response[~np.isnan(windows.response)]
    return float(np.median(seen)) if seen.size else 0.0
