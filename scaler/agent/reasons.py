"""What was seen and decided in; a sentence that a person understands, with its figures, out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scaler.guards.decision import describe
from scaler.model.nodes import Reconfiguration
from scaler.model.policy import Observation


def situate(seen: Observation, bound: float | None) -> str:
    """ "At 412 tuples/s, and 30 to catch up with, answers took 38 ms, with 42 ms allowed"."""
    took = "came more than can be served" if math.isinf(seen.response) else f"answers took {in_time(seen.response)}"
    allowed = "" if bound is None else f", with {in_time(bound)} allowed"
    behind = f", and {seen.behind:.3g} to catch up with," if seen.behind > 0.0 else ""
    return f"At {seen.rate:.4g} tuples/s{behind} {took}{allowed}"


def explain(
    seen: Observation,
    bound: float | None,
    who: str,
    proposed: Reconfiguration,
    objections: Sequence[str],
    names: Sequence[str],
) -> str:
    """The whole sentence on a slot that was decided."""
    said = f"{situate(seen, bound)}; {who} proposed {describe(proposed, names)}"
    if objections:
        return f"{said}, which was blocked by {'; '.join(objections)}"
    return said if proposed.delta == 0 else f"{said}, and no guard objected"


def find_gap(seen: Observation, types: int, complete: float) -> str:
    """Why nothing can be decided on this observation; "" where it can."""
    missing = [name for name in ("rate", "response", "utilisation") if is_missing(getattr(seen, name))]
    if len(seen.deployment.replicas) != types or min(seen.deployment.replicas) < 0:
        return "the deployment is not known by node type"
    if not seen.completeness >= complete:
        return f"{100 * seen.completeness:.0f} % of the metrics arrived, and {100 * complete:.0f} % are needed"
    if missing or math.isinf(seen.rate):
        return f"the {' and the '.join(missing or ['rate'])} {'is' if len(missing) < 2 else 'are'} not known"
    if seen.deployment.parallelism == 0:
        return "no replica runs, so that nothing was served"
    return ""


def is_missing(value: float | None) -> bool:
    return value is None or math.isnan(value) or value < 0.0


def in_time(seconds: float) -> str:
    if math.isinf(seconds):
        return "for ever"
    return f"{seconds:.3g} s" if seconds >= 1.0 else f"{1000.0 * seconds:.3g} ms"
