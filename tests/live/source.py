"""Streaming source of a given rate and limit, whose offsets count its tuples as Kafka's do."""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType


class Ticks(DataSource):
    """Options: `rate` a second since `began`, at most `most` a batch; `until` ends it. Names are Spark's."""

    @classmethod
    def name(cls) -> str:
        return "ticks"

    def schema(self) -> str:
        return "id long, arrived double"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return TicksReader(self.options)


class Piece(InputPartition):
    """Tuples `first` to `last`, the latter not among them."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class TicksReader(DataSourceStreamReader):
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.rate, self.most = float(options["rate"]), int(options.get("most", 1_000_000))
        self.began, self.until = float(options["began"]), float(options.get("until", "inf"))

    def newest(self) -> int:
        return max(0, int(self.rate * (min(time.time(), self.until) - self.began)))

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"tick": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        return {"tick": min(self.newest(), start["tick"] + self.most)}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"tick": self.newest()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Piece(start["tick"], end["tick"])] if end["tick"] > start["tick"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Piece)
        for number in range(partition.first, partition.last):
            yield number, self.began + number / self.rate
