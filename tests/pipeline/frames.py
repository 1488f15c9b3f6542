"""Frames of a few samples."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scaler.model.sample import Sample
from tuner.pipeline.sources.sample_schema import COLUMNS, ddl


def make_frame(spark: SparkSession, samples: list[Sample] | None = None) -> DataFrame:
    """A frame of these few samples; without any, the empty one."""
    rows: list[tuple[Any, ...]] = [
        tuple(to_cell(getattr(sample, name)) for name in COLUMNS) for sample in samples or []
    ]
    return spark.createDataFrame(rows, ddl())


def to_cell(value: Any) -> Any:
    """A mapping as the JSON text that a frame has of it."""
    return json.dumps(value) if isinstance(value, dict) else value
