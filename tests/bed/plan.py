"""Draw a plan of a run: the arrivals of lines, and the known cost of every record."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TEXT = Path(__file__).with_name("words.txt").read_text(encoding="utf-8").split()
CUTS = ((0, 2), (2, 3), (3, 6))  # lines of two, one and three words
LINES = tuple(" ".join(TEXT[i + a : i + b]) for i in range(0, len(TEXT) - 5, 6) for a, b in CUTS)
WORDS_BEFORE = np.concatenate([[0], np.cumsum([len(line.split()) for line in LINES])])
WORDS_A_LINE = float(WORDS_BEFORE[-1]) / len(LINES)
SPEEDS = {"small": 1.0, "large": 1.6}
LOW = 0.2  # load of a rest
TABLE = 1000  # costs repeat after so many records, so that their mean and variance are known and not estimated


@dataclass(frozen=True, slots=True)
class Cost:
    """What a record costs an operator on a node of speedup 1: gamma of shape 2, so the variance is mean^2 / 2."""

    mean: float
    seed: int

    def table(self) -> Floats:
        """The costs of records 0, 1, ..., of exactly this mean."""
        drawn = np.random.default_rng(self.seed).gamma(2.0, 1.0, TABLE)
        costs: Floats = drawn * (self.mean / drawn.mean())
        return costs


@dataclass(frozen=True, slots=True)
class Plan:
    """A run: `seconds` at each of the loads, then, each operator on the other's node type, at each of the swapped.

    A load is the utilisation of both operators before the swap. Before the levels and on both sides of the swap comes a
    rest at a low load, in which starting up and backlogs pass. Costs are large beside what a busy machine adds to a
    sleep. The queries have different intervals between triggers, so that one is not always at the same point of its
    own when a batch of the other arrives.
    """

    loads: tuple[float, ...]
    seconds: float
    swapped: tuple[float, ...] = ()
    rest: float = 15.0
    intervals: tuple[float, float] = (1.0, 0.9)  # between triggers, of split and of count
    seed: int = 1
    split_mean: float = 0.04

    def costs(self) -> dict[str, Cost]:
        """Both operators have the same utilisation: a line is so many words, and the larger node is faster."""
        count_mean = self.split_mean * SPEEDS["large"] / WORDS_A_LINE
        return {"split": Cost(self.split_mean, self.seed + 1), "count": Cost(count_mean, self.seed + 2)}

    def levels(self) -> list[tuple[float, float, float]]:
        """Start, end and load of each, in seconds from the start of the replay; rests among them."""
        rests = [(self.rest, LOW)]
        steps = rests + [(self.seconds, load) for load in self.loads]
        if self.swapped:
            steps += rests + rests + [(self.seconds, load) for load in self.swapped]
        ends = np.cumsum([length for length, _ in steps]).tolist()
        return list(zip([0.0, *ends[:-1]], ends, [load for _, load in steps], strict=True))

    def is_rest(self, level: int) -> bool:
        return level in (0, len(self.loads) + 1, len(self.loads) + 2)

    def placements(self) -> list[tuple[dict[str, str], float]]:
        """The node type of each operator, and until when it runs there."""
        ends = [end for _, end, _ in self.levels()]
        first, second = {"split": "small", "count": "large"}, {"split": "large", "count": "small"}
        return [(first, ends[len(self.loads) + 1]), (second, ends[-1])] if self.swapped else [(first, ends[-1])]

    def arrivals(self) -> Floats:
        """Moments at which lines arrive, in seconds from the start of the replay: Poisson at each level's rate."""
        generator = np.random.default_rng(self.seed)
        parts = []
        for start, end, load in self.levels():
            n = generator.poisson((end - start) * load / self.split_mean)
            parts.append(np.sort(generator.uniform(start, end, n)))
        return np.concatenate(parts)


def first_word(line: int) -> int:
    """The number of words in all lines before this one: the words of the replay are numbered one after the other."""
    cycles, position = divmod(line, len(LINES))
    return int(cycles * WORDS_BEFORE[-1] + WORDS_BEFORE[position])


def write_plan(plan: Plan, path: Path) -> None:
    path.write_text(json.dumps(asdict(plan)))


def read_plan(path: Path) -> Plan:
    told: dict[str, Any] = json.loads(path.read_text())
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    return Plan(**values)
