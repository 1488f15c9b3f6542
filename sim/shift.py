"""Changes of a setting in the middle of a trace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scaler.model.errors import BadInput
from sim.setting import Setting


@dataclass(frozen=True, slots=True)
class Shift:
    """From slot `at` on the operators are as `setting` states; policies are told so if it is announced.

    Prices are always what the setting says; bounds, weights and what a policy is told change only when announced.
    """

    at: int
    setting: Setting
    announced: bool = True


def check_shifts(setting: Setting, shifts: Sequence[Shift]) -> None:
    """Refuse a shift that changes more than the constants of the same operators on the same number of types."""
    last = 0
    for shift in shifts:
        if not last < shift.at < len(setting.trace.rates):
            raise BadInput(f"a shift at slot {shift.at} must lie after slot {last} and inside the trace")
        other = shift.setting
        same = other.application.edges == setting.application.edges and [
            operator.k_max for operator in other.application.operators
        ] == [operator.k_max for operator in setting.application.operators]
        if not same or len(other.infrastructure.types) != len(setting.infrastructure.types):
            raise BadInput("a shift keeps the operators, their most replicas and the number of node types")
        last = shift.at


def cut(slots: int, block: int, most: int, shifts: Sequence[Shift]) -> Iterator[tuple[int, int, Shift | None]]:
    """Stretches [first, last) of whole blocks, at most about `most` slots, none across a shift."""
    bounds = [0, *(shift.at for shift in shifts), slots]
    stretch = block * max(1, most // block)
    for i, (start, end) in enumerate(pairwise(bounds)):
        for first in range(start, end, stretch):
            yield first, min(end, first + stretch), shifts[i - 1] if i > 0 and first == start else None
