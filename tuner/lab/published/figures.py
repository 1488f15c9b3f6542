"""The main paper's figures by name; each is a function from what is asked for to an outcome with a verdict per claim.

The figures were printed as pictures, without numbers. What is held against ours is therefore what the text claims of
each; where a claim is of a degree ("far", "alike", "acceptable"), the number that it was read as stands in it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scaler.model.registry import load_named
from tuner.lab.paper import PaperOutcome
from tuner.simulation.runner import OnShare

FIGURES: dict[str, str] = {
    "fig12": "operator_figures:figure_12",
    "fig16": "operator_figures:figure_16",
    "fig17": "operator_figures:figure_17",
    "fig18": "memory_figures:figure_18",
    "fig20": "application_figures:figure_20",
    "fig21": "application_figures:figure_21",
    "fig22a": "application_figures:figure_22a",
    "fig22b": "application_figures:figure_22b",
    "fig23": "course_figures:figure_23",
    "fig24": "course_figures:figure_24",
    "fig25": "course_figures:figure_25",
    "fig27a": "memory_figures:figure_27a",
    "fig27b": "memory_figures:figure_27b",
}
FIGURE_SEEDS = dict.fromkeys(("fig20", "fig21", "fig22a", "fig22b"), 1)  # of searches, unless others are asked for


@dataclass(frozen=True, slots=True)
class FigureRequest:
    """What a figure is computed from."""

    folder: Path  # of the traces
    seeds: int
    deep: bool  # whether rows of neural networks are run
    on_share: OnShare
    known: dict[Hashable, Any] = field(default_factory=dict)  # results of parts that were computed before, by job


ReproduceFigure = Callable[[FigureRequest], PaperOutcome]


def find_figure(name: str) -> ReproduceFigure:
    """The function that computes a figure."""
    reproduce: ReproduceFigure = load_named("figure", FIGURES, name, __package__)
    return reproduce
