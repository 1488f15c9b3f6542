"""A source that plays a plan: the lines that have arrived by now, each with its stamp."""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tests.bed.plan import LINES, read_plan


class Replay(DataSource):
    """Options: `plan`, the file that holds it, and `began`, seconds since 1970. Names and arguments are Spark's."""

    @classmethod
    def name(cls) -> str:
        return "replay"

    def schema(self) -> str:
        return "id long, arrived double, line string"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return ReplayReader(self.options)


class Lines(InputPartition):
    """Lines `first` to `last`, the latter not among them."""

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class ReplayReader(DataSourceStreamReader):
    """Offsets are numbers of lines."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.stamps = float(options["began"]) + read_plan(Path(options["plan"])).arrivals()

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"line": 0}

    def latestOffset(self, start: dict[str, int], limit: object) -> dict[str, int]:  # noqa: N802
        return {"line": int(np.searchsorted(self.stamps, time.time()))}

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802
        return {"line": int(np.searchsorted(self.stamps, time.time()))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return [Lines(start["line"], end["line"])] if end["line"] > start["line"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Lines)
        for number in range(partition.first, partition.last):
            yield number, float(self.stamps[number]), LINES[number % len(LINES)]
