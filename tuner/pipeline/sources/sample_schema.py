"""The dataclass of a sample flows in; the Spark schema of its rows, and frames of exactly these columns, flow out."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from scaler.model.sample import Sample

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

KINDS = {"str": "string", "float": "double", "int": "bigint", "bool": "boolean"}
COLUMNS = tuple(field.name for field in fields(Sample))


def ddl(shape: type = Sample) -> str:
    """Columns named and typed as the fields of the dataclass."""
    return ", ".join(f"{field.name} {KINDS[str(field.type).removesuffix(' | None')]}" for field in fields(shape))


def schema(shape: type = Sample) -> StructType:
    from pyspark.sql.types import StructType

    found = StructType.fromDDL(ddl(shape))
    assert isinstance(found, StructType)
    return found


def shape_frame(frame: DataFrame, columns: dict[str, Column] | None = None) -> DataFrame:
    """Samples from a frame: `columns` by name, then the frame's own, None for what neither has."""
    from pyspark.sql import functions as f

    given = columns or {}
    chosen = []
    for field in fields(Sample):
        kind = KINDS[str(field.type).removesuffix(" | None")]
        if field.name in given:
            column = given[field.name]
        elif field.name in frame.columns:
            column = f.col(field.name)
        else:
            column = f.lit(1.0 if field.name == "completeness" else None)
        chosen.append(column.cast(kind).alias(field.name))
    return frame.select(*chosen)


def make_frame(spark: SparkSession, samples: list[Sample] | None = None) -> DataFrame:
    """A frame of these few samples; without any, the empty one."""
    rows: list[tuple[Any, ...]] = [tuple(getattr(sample, name) for name in COLUMNS) for sample in samples or []]
    return spark.createDataFrame(rows, schema())
