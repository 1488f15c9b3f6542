"""A stream of stated rates whose offsets count its records, whoever reads it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

RECORD = "id long, arrived double"


@dataclass(frozen=True, slots=True)
class Levels:
    """Records come evenly at each level, (seconds, rate), one after the other from second 0, and then no more."""

    levels: tuple[tuple[float, float], ...]

    @property
    def seconds(self) -> float:
        return sum(length for length, _ in self.levels)

    def marks(self) -> tuple[list[float], list[float]]:
        """Seconds at which the rate changes, and how many records have come by each."""
        ends = np.cumsum([length for length, _ in self.levels])
        came = np.cumsum([length * rate for length, rate in self.levels])
        return [0.0, *ends.tolist()], [0.0, *came.tolist()]

    def count(self, second: float) -> int:
        """Records that have come by then."""
        ends, came = self.marks()
        return int(np.interp(second, ends, came) + 1e-9)

    def arrival(self, number: int) -> float:
        """The second at which record 0, 1, ... comes."""
        ends, came = self.marks()
        return float(np.interp(number + 1, came, ends))

    def rates(self, slot_s: float) -> list[float]:
        """Mean rate of each slot."""
        edges = np.arange(0.0, self.seconds + 0.5 * slot_s, slot_s)
        ends, came = self.marks()
        return (np.diff(np.interp(edges, ends, came)) / slot_s).tolist()  # type: ignore[no-any-return]


class Rising(DataSource):
    """Options: `levels` as JSON, `began`, at most `most` a batch, `piece` a task or `tasks` a batch.

    Names are Spark's.
    """

    @classmethod
    def name(cls) -> str:
        return "rising"

    def schema(self) -> str:
        return RECORD

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return Reader(self.options)


class Piece(InputPartition):
    """Records `first` to `last`, the latter not among them."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last


class Reader(DataSourceStreamReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.levels = Levels(tuple((length, rate) for length, rate in json.loads(options["levels"])))
        self.began = float(options["began"])
        self.most, self.piece, self.tasks = int(options["most"]), int(options["piece"]), int(options["tasks"])

    def newest(self) -> int:
        return self.levels.count(time.time() - self.began)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"record": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        return {"record": min(self.newest(), start["record"] + self.most)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"record": self.newest()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = start["record"], end["record"]
        edges = [*range(first, last, self.piece), last]
        if self.tasks:
            edges = sorted({first + (last - first) * task // self.tasks for task in range(self.tasks + 1)})
        return [Piece(first, last) for first, last in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Piece)
        for number in range(partition.first, partition.last):
            yield number, self.began + self.levels.arrival(number)
