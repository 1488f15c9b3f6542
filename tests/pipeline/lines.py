"""The plainest source there is: a file with a fine sample as JSON on each line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from scaler.model.sample import Sample
from tuner.pipeline.local.columns import SCHEMA
from tuner.pipeline.local.reading import TableResult
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.sample_schema import SourceResult, no_links

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write_lines(path: Path, samples: Sequence[Sample]) -> Path:
    path.write_text("".join(f"{json.dumps(asdict(sample))}\n" for sample in samples))
    return path


def find(*paths: Path) -> list[InputFile]:
    return [InputFile(str(path), "lines", "lines") for path in paths]


def read_lines(spark: SparkSession, found: Sequence[InputFile]) -> SourceResult:
    from tuner.pipeline.sources.sample_schema import ddl

    return SourceResult(spark.read.schema(ddl()).json([file.path for file in found]), no_links(spark))


def read_lines_here(found: Sequence[InputFile]) -> TableResult:
    rows = [json.loads(line) for file in found for line in Path(file.path).read_text().splitlines()]
    return TableResult(pa.Table.from_pylist(rows, SCHEMA))
