"""Sketches of response times as Spark columns: JSON text in samples, maps by bucket while they are added up.

Text, for Spark neither orders nor hashes maps. The buckets are those of `scaler.model.sketch`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scaler.model.sketch import LEAST_S, MOST_S, STEP

if TYPE_CHECKING:
    from pyspark.sql import Column

MAP = "map<string,double>"


def read_sketch(text: Column, share: Column) -> Column:
    """This share of the tuples of a sketch, by bucket; null where the text holds none."""
    from pyspark.sql import functions as f

    return f.transform_values(f.from_json(text, MAP), lambda _, tuples: tuples * share)


def merge_sketch_column(maps: str) -> Column:
    """Sum over the rows of a group; null where no row has any."""
    from pyspark.sql import functions as f

    def add(one: Column, other: Column) -> Column:
        return f.map_zip_with(one, other, lambda _, a, b: f.coalesce(a, f.lit(0.0)) + f.coalesce(b, f.lit(0.0)))

    known = f.collect_list(maps)
    return f.when(f.size(known) > 0, f.aggregate(known, f.from_json(f.lit("{}"), MAP), add))


def write_span(low: Column, high: Column, tuples: Column) -> Column:
    """The sketch of tuples whose response times lie evenly between two, as `add_span` of the driver has it."""
    from pyspark.sql import functions as f

    def find_bucket(seconds: Column) -> Column:
        return f.ceil(f.log(f.least(f.greatest(seconds, f.lit(LEAST_S)), f.lit(MOST_S))) / STEP)

    first, last = find_bucket(low), find_bucket(high)

    def fill(bucket: Column) -> Column:
        end = f.when(bucket == last, high).otherwise(f.exp(bucket * STEP))
        begin = f.when(bucket == first, low).otherwise(f.exp((bucket - 1) * STEP))
        share = f.when(first == last, 1.0).otherwise((end - begin) / (high - low))
        return f.struct(bucket.cast("string"), tuples * share)

    return f.to_json(f.map_from_entries(f.transform(f.sequence(first, last), fill)))
