"""Check fine samples: which can be placed in time, and what is wrong with each of the others.

A row with a `fault` in REFUSED is left out; one that ends before it begins (a clock was set back under it) is kept as a
point at its earlier end, because what it counted did happen.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from scaler.model.sample import EVIDENCE
from tuner.pipeline.sources.sample_schema import MEASURED

AHEAD_S = 3600.0  # a clock may be wrong by so much before what it stamps is refused
LONGEST_S = 31 * 86_400.0
TURNED = "ended before they began, and count whole at the earlier of the two times"
REFUSED = {
    "unnamed": "name no application or no operator",
    "untimed": "do not say when they began and ended",
    "future": f"lie more than {AHEAD_S / 60:.0f} min in the future: a clock is wrong",
    "long": f"last longer than {LONGEST_S / 86_400:.0f} days",
    "evidence": f"have evidence that is none of {', '.join(EVIDENCE)}",
    "negative": "hold a figure that is negative or not finite",
    "partial": "have a completeness that is not between 0 and 1",
}
FAULTS = {**REFUSED, "turned": TURNED}


def check_samples(samples: DataFrame, now: float) -> DataFrame:
    """Add a column `fault`, null where there is none; `now` is in seconds since 1970."""
    start, end = F.col("start"), F.col("end")
    wrong: dict[str, Column] = {
        "unnamed": F.coalesce(F.col("application"), F.lit("")).eqNullSafe("")
        | F.coalesce(F.col("operator"), F.lit("")).eqNullSafe(""),
        "untimed": ~(sound(start) & sound(end)),
        "future": F.least(start, end) > now + AHEAD_S,
        "long": end - start > LONGEST_S,
        "evidence": ~F.coalesce(F.col("evidence"), F.lit("")).isin(*EVIDENCE),
        "negative": any_of([F.col(column).isNotNull() & ~sound(F.col(column)) for column in MEASURED]),
        "partial": ~(sound(F.col("completeness")) & (F.col("completeness") <= 1.0)),
        "turned": end < start,
    }
    verdict = F.lit(None).cast("string")
    for name in reversed(FAULTS):
        verdict = F.when(wrong[name], name).otherwise(verdict)
    return samples.withColumn("fault", verdict)


def select_sound(judged: DataFrame) -> DataFrame:
    """Drop samples that cannot be used, and place the others in time."""
    usable = judged.where(F.col("fault").isNull() | (F.col("fault") == "turned"))
    return usable.drop("fault").withColumn("start", F.least("start", "end"))


def sound(value: Column) -> Column:
    """Whether it is a finite number of 0 or more; Spark holds NaN to be the greatest of all."""
    return F.coalesce((value >= 0.0) & (value < float("inf")), F.lit(False))


def any_of(conditions: list[Column]) -> Column:
    whole = conditions[0]
    for condition in conditions[1:]:
        whole = whole | condition
    return whole
