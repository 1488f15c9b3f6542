"""Lines that `scaler.timing` wrote flow in, an object of JSON each with the fields of a sample; samples flow out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scaler.model.errors import BadInput
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.sample_schema import ddl, shape_frame
from tuner.pipeline.sources.source_result import SourceResult, no_links

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAMAGED = "_damaged"


def read_records(
    spark: SparkSession, found: Sequence[InputFile], application: str | None, strict: bool
) -> SourceResult:
    from pyspark.sql import functions as f

    reader = spark.read.schema(f"{ddl()}, {DAMAGED} string").option("columnNameOfCorruptRecord", DAMAGED)
    lines = reader.json([file.path for file in found])
    placed = f.col("operator").isNotNull() & f.col("start").isNotNull() & f.col("end").isNotNull()
    named = f.lit(bool(application)) | f.col("application").isNotNull()
    sound = placed & named & f.col(DAMAGED).isNull()
    good, all_lines = lines.select(f.count_if(sound), f.count(f.lit(1))).first() or (0, 0)
    where = found[0].path if len(found) == 1 else f"{found[0].path} and {len(found) - 1} more"
    if not good and strict:
        raise BadInput(f"{where}: no line says application, operator, start and end; give the lines that a timer wrote")
    left_out = f"{where}: {all_lines - good} of {all_lines} lines are no samples of a timer and were left out"
    columns = {
        "application": f.lit(application) if application else f.col("application"),
        "evidence": f.lit("records"),
        "completeness": f.coalesce("completeness", f.lit(1.0)),
    }
    return SourceResult(
        shape_frame(lines.where(sound), columns), no_links(spark), (left_out,) if good < all_lines else ()
    )
