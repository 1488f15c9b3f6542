"""Measure how far an application met its QoS, and at what price, slot by slot, from reported decisions.

The response time along a path is the sum of its operators'. A slot is a violation as soon as the known part of a path
exceeds the path's bound, and is within its bounds only when all operators on every path are known: missing is not zero.

Notation: T slots of `slot_s` seconds, M operators of the application.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scaler.model.kernel import Floats, Integers
from sim.application import Application, name_path, paths
from tuner.scenario.layout import SLOT_S, QoS
from tuner.store.connection import Session
from tuner.store.decisions import SlotRow, list_slot_figures

WITHIN, VIOLATED, UNKNOWN = 0, 1, -1


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """What every operator reported of every slot in which any did; NaN, "" and -1 where it did not report."""

    operators: tuple[str, ...]
    slot_s: float
    time: Floats  # [T] starts, ascending
    rate: Floats  # [T, M]
    response: Floats  # [T, M]
    bound: Floats  # [T, M]
    price: Floats  # [T, M]
    kind: NDArray[np.str_]  # [T, M]
    version: Integers  # [T, M] of the objective that was acted under


@dataclass(frozen=True, slots=True)
class QosFigures:
    """Shares of the slots of which it is known; None where it is known of none."""

    slots: int  # in which any operator reported
    violations: float | None
    reconfigurations: float | None
    price: float | None  # per hour, mean over the slots in which every operator reported it
    held: float | None  # of the decisions
    known: int  # slots of which it is known whether a bound was broken


def load_slots(
    session: Session,
    app: str,
    operators: tuple[str, ...],
    since: float = -math.inf,
    until: float = math.inf,
    slot_s: float = SLOT_S,
    registered: bool = False,
) -> Slots:
    """The slots that start in [since, until); of two decisions of one operator in one slot the later.

    `registered`: evidence, which counts instances alone that the manager knew when the slot began.
    """
    return lay_out(list_slot_figures(session, app, operators, since, until, registered), operators, slot_s)


def lay_out(rows: Sequence[SlotRow], operators: tuple[str, ...], slot_s: float) -> Slots:
    """Put decisions on a grid of slots by operators."""
    times, names, *figures, kinds, versions = zip(*rows, strict=True) if rows else ([],) * 8
    number = np.floor(np.array(times, dtype=np.float64) / slot_s + 1e-9).astype(np.int64)
    slots, t = np.unique(number, return_inverse=True)
    place = {name: i for i, name in enumerate(operators)}
    m = np.array([place[name] for name in names], dtype=np.int64)
    shape = (slots.size, len(operators))
    grids = np.full((len(figures), *shape), math.nan)
    grids[:, t, m] = np.array(figures, dtype=np.float64)  # of None makes NaN
    rate, response, bound, price = grids
    kind = np.full(shape, "", dtype="U16")
    kind[t, m] = kinds
    version = np.full(shape, UNKNOWN, dtype=np.int64)
    version[t, m] = [UNKNOWN if value is None else value for value in versions]
    return Slots(operators, slot_s, slots.astype(np.float64) * slot_s, rate, response, bound, price, kind, version)


def find_violations(slots: Slots, application: Application, qos: QoS) -> Integers:
    """Whether each slot [T] is within the bound of every path: WITHIN, VIOLATED or UNKNOWN."""
    verdict = np.full(slots.time.size, WITHIN, dtype=np.int64)
    column = {name: i for i, name in enumerate(slots.operators)}
    names = [operator.name for operator in application.operators]
    for path in paths(application):
        limit = qos.paths.get(name_path(application, path), qos.r_max)
        parts = slots.response[:, [column[names[i]] for i in path]]
        broken = np.nansum(parts, axis=1) > limit
        unknown = np.isnan(parts).any(axis=1) & ~broken
        verdict[unknown & (verdict == WITHIN)] = UNKNOWN
        verdict[broken] = VIOLATED
    return verdict


def find_changes(slots: Slots) -> NDArray[np.bool_]:
    """Slots [T] in which any operator was scaled."""
    return np.asarray((slots.kind == "SCALED").any(axis=1))


def sum_prices(slots: Slots) -> Floats:
    """What the replicas of all operators cost per hour [T]; NaN where one is not known."""
    return np.asarray(slots.price.sum(axis=1))


def measure_qos(slots: Slots, application: Application, qos: QoS) -> QosFigures:
    """All of these slots in a few figures."""
    verdict, price = find_violations(slots, application, qos), sum_prices(slots)
    known = verdict != UNKNOWN
    decided = slots.kind != ""
    priced = price[~np.isnan(price)]
    return QosFigures(
        slots=int(slots.time.size),
        violations=float((verdict[known] == VIOLATED).mean()) if known.any() else None,
        reconfigurations=float(find_changes(slots).mean()) if slots.time.size else None,
        price=float(priced.mean()) if priced.size else None,
        held=float((slots.kind[decided] == "HELD").mean()) if decided.any() else None,
        known=int(known.sum()),
    )
