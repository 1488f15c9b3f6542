"""Outcome of reproducing a paper: its printed figures beside ours, the claims of its text, a verdict on each.

A paper is a package of this room. Its function in `PAPERS` runs the settings that reproduce it and returns a
`PaperOutcome`; the command prints that, whatever the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from scaler.model.registry import load_named
from tuner.lab.study import Study
from tuner.simulation.runner import OnShare

PAPERS: dict[str, str] = {
    "decentralised": "decentralised.outcome:reproduce_decentralised",
    "migration": "migration.outcome:reproduce_migration",
    "thesis": "thesis.outcome:reproduce_thesis",
    "multilevel": "multilevel.outcome:reproduce_multilevel",
}
SEEDS = {"decentralised": 4, "multilevel": 3, "thesis": 20}  # unless others are asked for


@dataclass(frozen=True, slots=True)
class FigurePair:
    """One printed figure and ours, with what they may differ by."""

    part: str  # table or figure of the paper
    row: str
    measure: str
    published: float | None  # None: not printed, and not judged
    ours: float  # mean over seeds
    deviation: float  # standard deviation of one seed; 0 where nothing is random or one seed was run
    allowed: float  # absolute difference within which they agree
    remark: str = ""
    factor: float = 1.0  # or within which they agree, up or down

    @property
    def difference(self) -> float | None:
        """Relative to the published figure."""
        return None if not self.published else self.ours / self.published - 1.0

    @property
    def agrees(self) -> bool | None:
        if self.published is None:
            return None
        within = self.published <= self.factor * self.ours and self.ours <= self.factor * self.published
        return abs(self.ours - self.published) <= self.allowed or within


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """One claim of a paper's text or picture, what was seen of it, and whether it holds."""

    part: str
    claim: str
    seen: str
    holds: bool


@dataclass(frozen=True, slots=True)
class PaperOutcome:
    """All that was reproduced of a paper."""

    name: str
    title: str
    pairs: tuple[FigurePair, ...]
    claims: tuple[ClaimCheck, ...]
    remarks: tuple[str, ...] = ()  # readings of what the paper leaves open
    studies: tuple[Study, ...] = ()  # tables beside the pairs

    @property
    def agreeing(self) -> tuple[int, int]:
        """Printed figures that agree, and all that were printed."""
        verdicts = [pair.agrees for pair in self.pairs if pair.agrees is not None]
        return sum(verdicts), len(verdicts)


ReproducePaper = Callable[[Path, int, OnShare], PaperOutcome]


def find_paper(name: str) -> ReproducePaper:
    """The function that reproduces a paper from a folder of traces with so many seeds."""
    reproduce: ReproducePaper = load_named("paper", PAPERS, name, __package__)
    return reproduce


def pair_figure(
    place: tuple[str, str, str],
    published: float | None,
    ours: Sequence[float],
    share: float = 0.0,
    absolute: float = 0.0,
    remark: str = "",
    factor: float = 1.0,
) -> FigurePair:
    """A printed figure and ours over seeds; they may differ by a share of it and an absolute part, or by a factor."""
    deviation = float(np.std(ours, ddof=1)) if len(ours) > 1 else 0.0
    allowed = share * abs(published or 0.0) + absolute
    return FigurePair(*place, published, float(np.mean(ours)), deviation, allowed, remark, factor)
