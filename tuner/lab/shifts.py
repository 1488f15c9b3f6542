"""Named changes half-way through a replay: of rates, prices, service times, node types.

What a trace can say (the rate doubles, the day shifts) is an edit of it, and has the same floor as any trace. What it
cannot say is a change of the operators' constants. A node type cannot be taken out of a running replay: it
"disappears" by costing a thousand times as much, so that whoever stays on it pays for that rather than losing it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out
from scaler.model.task import Moments
from sim.infrastructure import Infrastructure
from sim.setting import Setting, Shift, tasks

SETTLING = 2_000  # slots after the change at which the last part begins
DEARER, GONE = 100.0, 1000.0  # times the price
SIX_HOURS_S = 21_600.0


@dataclass(frozen=True, slots=True)
class ShiftedWorld:
    """What is replayed under every policy; where it changes, `tail` is the first slot of the last part."""

    setting: Setting
    shift: Shift | None = None
    tail: int | None = None


@dataclass(frozen=True, slots=True)
class NamedShift:
    """A change by name: what it does to a world, and how to say so."""

    says: str
    apply: Callable[[Setting], ShiftedWorld]


def half(setting: Setting) -> int:
    return setting.trace.rates.size // 2


def with_rates(setting: Setting, later: np.ndarray) -> Setting:
    """The same with other rates from the middle on."""
    rates = np.concatenate([setting.trace.rates[: half(setting)], later])
    return replace(setting, trace=replace(setting.trace, rates=rates))


def double_rate(setting: Setting) -> ShiftedWorld:
    doubled = with_rates(setting, 2.0 * setting.trace.rates[half(setting) :])
    highest = None if setting.highest_rate is None else 2.0 * setting.highest_rate
    return ShiftedWorld(replace(doubled, highest_rate=highest))


def shift_day(setting: Setting) -> ShiftedWorld:
    """The last six hours before the middle come again, and what follows comes six hours late."""
    late = round(SIX_HOURS_S / setting.trace.step_s)
    middle, rates = half(setting), setting.trace.rates
    if not 0 < late <= middle:
        name, step = setting.trace.name, setting.trace.step_s
        raise BadInput(f"trace {name!r} has {rates.size} slots of {step:g} s, and a day shifts only with 12 hours")
    return ShiftedWorld(with_rates(setting, rates[middle - late : rates.size - late]))


def raise_prices(setting: Setting) -> ShiftedWorld:
    spared = cheapest_able(setting)
    return reprice(setting, DEARER, lambda i: i != spared)


def raise_prices_but_last(setting: Setting) -> ShiftedWorld:
    """As in the paper's Figure 25, whose program spares the last type of the table."""
    last = len(setting.infrastructure.types) - 1
    return reprice(setting, DEARER, lambda i: i != last)


def remove_type(setting: Setting) -> ShiftedWorld:
    gone = cheapest_able(setting)
    return reprice(setting, GONE, lambda i: i == gone)


def reprice(setting: Setting, factor: float, hit: Callable[[int], bool]) -> ShiftedWorld:
    """Multiply prices; C_max stays, and the change is announced to policies."""
    infrastructure = setting.infrastructure
    if len(infrastructure.types) < 2:
        raise BadInput(f"infrastructure {infrastructure.name} has one node type here, and must have two to choose from")
    types = tuple(replace(t, price=t.price * factor) if hit(i) else t for i, t in enumerate(infrastructure.types))
    dearer = Infrastructure(infrastructure.name, types, infrastructure.normaliser_price)
    return ShiftedWorld(setting, Shift(half(setting), replace(setting, infrastructure=dearer)))


def cheapest_able(setting: Setting) -> int:
    """The cheapest type on which every operator can keep its bound at all: A2 of A."""
    types = setting.infrastructure.types
    problems = [lay_out(task) for task in tasks(setting)]
    able = [i for i in range(len(types)) if all(p.capacity[i] > 0.0 for p in problems)] or list(range(len(types)))
    return min(able, key=lambda i: types[i].price)


def double_service(setting: Setting) -> ShiftedWorld:
    """Double the service times without announcing it to policies."""
    slow = tuple(
        replace(o, moments=Moments(2.0 * o.moments.mean, 4.0 * o.moments.variance, o.moments.tuples))
        for o in setting.application.operators
    )
    other = replace(setting, application=replace(setting.application, operators=slow))
    return ShiftedWorld(setting, Shift(half(setting), other, announced=False))


SHIFTS: dict[str, NamedShift] = {
    "rate-doubles": NamedShift("half-way, the arrival rate doubles", double_rate),
    "prices-rise": NamedShift(
        "half-way, every price rises a hundredfold but that of the cheapest type that can keep the bound; C_max stays",
        raise_prices,
    ),
    "type-disappears": NamedShift(
        "half-way, the cheapest type that can keep the bound costs a thousand times as much: the replay cannot take a "
        "type away, so that replicas left on it are paid for instead of lost",
        remove_type,
    ),
    "service-doubles": NamedShift("half-way, and untold, the service time doubles", double_service),
    "day-shifts": NamedShift("half-way, the daily pattern comes six hours later", shift_day),
}


def apply_shift(name: str, setting: Setting) -> ShiftedWorld:
    """The world changed half-way, its last part from `SETTLING` slots after that."""
    slots = setting.trace.rates.size
    if slots <= 2 * SETTLING + 1:
        raise BadInput(f"trace {setting.trace.name!r} has {slots} slots; --shift needs more than {2 * SETTLING + 1}")
    return replace(SHIFTS[name].apply(setting), tail=half(setting) + SETTLING)
