"""Frames of a few samples."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from scaler.model.sample import Sample
from tuner.pipeline.sources.sample_schema import COLUMNS, ddl


def make_frame(spark: SparkSession, samples: list[Sample] | None = None) -> DataFrame:
    """A frame of these few samples; without any, the empty one."""
    rows: list[tuple[Any, ...]] = [tuple(getattr(sample, name) for name in COLUMNS) for sample in samples or []]
    return spark.createDataFrame(rows, ddl())
