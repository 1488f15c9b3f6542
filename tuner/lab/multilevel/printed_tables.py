"""Rows of the paper's Tables 1 and 2, as printed; its figures' values were not."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from tuner.lab.multilevel.wordcount import PoolChoice

IN_PER_CENT = ("violations", "reconfigurations")
MEASURES = (*IN_PER_CENT, "replicas", "nodes")
STATIC = PoolChoice("static", (("nodes", 12),))  # found sufficient beforehand
SIMPLE = PoolChoice("idle-nodes", (("idle", 2),))


@dataclass(frozen=True, slots=True)
class PublishedPool:
    """One row; violations and reconfigurations in per cent of the slots."""

    table: str
    pool: str
    w_refused: float  # 0 where the pool does not learn
    application: str
    violations: float
    reconfigurations: float
    replicas: float
    nodes: float

    @property
    def learns(self) -> bool:
        return "RL" in (self.pool, self.application)

    @property
    def row(self) -> str:
        weights = f" {self.w_refused:.1f}/{1.0 - self.w_refused:.1f}" if self.pool == "RL" else ""
        return f"{self.pool}{weights} pool, {self.application}"

    @property
    def choice(self) -> PoolChoice:
        return {"static": STATIC, "simple": SIMPLE}.get(self.pool) or learn_pool(self.w_refused)


def learn_pool(w_refused: float) -> PoolChoice:
    """The paper's learner with this weight of refusals."""
    return PoolChoice("model-based", (("w_refused", w_refused),))


def read_tables() -> list[PublishedPool]:
    text = files(__package__).joinpath("tables.csv").read_text(encoding="utf-8")
    return [
        PublishedPool(
            row["table"],
            row["pool"],
            float(row["w_refused"] or 0.0),
            row["application"],
            *(float(row[measure]) for measure in MEASURES),
        )
        for row in csv.DictReader(text.splitlines())
    ]
