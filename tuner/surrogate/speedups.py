"""Estimate the speed of every node type, or assume the declared one.

Speeds are relative: the type declared to have speed 1, or else the one on which most tuples were seen, keeps its
declared speed (1 where none is declared); the others stand to it as their mean service times do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scaler.model.nodes import NodeType
from tuner.surrogate.estimate import Estimate
from tuner.surrogate.service_moments import ServiceMoments, compare
from tuner.surrogate.surrogate import Speedup


def anchor(services: Mapping[str, ServiceMoments], reference: str, declared: Sequence[NodeType]) -> str:
    """The type declared to have speed 1 where it was seen as exactly as the reference, so that the unit stays put."""
    units = [node.name for node in declared if node.speedup == 1.0 and node.name in services]
    same = [name for name in units if services[name].evidence == services[reference].evidence]
    return same[0] if same else reference


def find_speedups(
    services: Mapping[str, ServiceMoments], used: Sequence[str], declared: Sequence[NodeType], reference: str
) -> tuple[Speedup, ...]:
    """One for every type used or declared; evidence of another kind than the reference's is not compared with it."""
    stated = {node.name: node.speedup for node in declared}
    base = stated.get(reference, 1.0)
    names = [*used, *(name for name in stated if name not in used)]
    found = []
    for name in names:
        service = services.get(name)
        if service is not None and service.evidence == services[reference].evidence:
            speed = compare(service, services[reference])
            own = Estimate(base, base, base, 0.0)
            scaled = Estimate(*(base * x for x in (speed.value, speed.low, speed.high, speed.error)))
            found.append(Speedup(name, own if name == reference else scaled, service.tuples, False))
        else:
            speed_now = stated.get(name, base)
            found.append(Speedup(name, Estimate(speed_now, speed_now, speed_now, 0.0), 0.0, True))
    return tuple(found)
