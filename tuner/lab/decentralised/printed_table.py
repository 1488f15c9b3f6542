"""Rows of the paper's Table 1, as printed; the figures' values were not."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

from tuner.lab.decentralised.control import KNOWN, LEARNED, PLANNED

KNOWLEDGE = {"planned": PLANNED, "known": KNOWN, "learned": LEARNED}
MEASURES = ("cost", "violations", "reconfigurations", "instances")


@dataclass(frozen=True, slots=True)
class PublishedControl:
    """One row. Whether a decentralised one knew its utilisation is not said: None."""

    row: str
    kind: str
    knows: int | None
    target: float
    cost: float
    violations: float
    reconfigurations: float
    instances: float


def read_table_1() -> list[PublishedControl]:
    text = files(__package__).joinpath("table1.csv").read_text(encoding="utf-8")
    return [
        PublishedControl(
            row["row"],
            row["kind"],
            KNOWLEDGE.get(row["knows"]),
            float(row["target"] or 0.0),
            *(float(row[measure]) for measure in MEASURES),
        )
        for row in csv.DictReader(text.splitlines())
    ]
