"""Figures in, the words in which tables show them out."""

from __future__ import annotations

import math

from tuner.comparison import Comparison, Figure

NONE = "-"


def format_figure(figure: Figure, factor: float = 1.0, digits: int = 4) -> str:
    """A mean and its standard error, where there is one."""
    mean = f"{figure.mean * factor:.{digits}f}"
    return f"{mean} ± {figure.error * factor:.{digits}f}" if math.isfinite(figure.error) else mean


def format_bytes(size: float) -> str:
    """A size in the unit that leaves the fewest digits."""
    if size < 999.5:
        return f"{size:.0f} B"
    for unit in ("kB", "MB"):
        size /= 1000.0
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 99.5 else f"{size:.1f} {unit}"
    return f"{size / 1000.0:.1f} GB"


def format_pace(slots_per_second: float) -> str:
    """Slots per second to two digits or three."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if slots_per_second >= 0.9995 * size:
            return f"{slots_per_second / size:.3g} {unit}"
    return f"{slots_per_second:.3g}"


def say_errors(comparison: Comparison) -> str:
    """What stands after the ±."""
    seeds = comparison.scenario.seeds
    if len(seeds) == 1:
        return f"± one standard error, from the means of blocks of slots; seed {seeds[0]}."
    return f"Means over {len(seeds)} seeds; ± one standard error of these means over the seeds."


def say_floor(comparison: Comparison) -> str:
    """What the costs are multiples of."""
    if comparison.bound is None:
        return ""
    kind = "the optimum" if comparison.bound.exact else "a lower bound of the optimum"
    return f"The floor is {comparison.bound.lower:.4f}: {kind} with the whole trace known beforehand."
