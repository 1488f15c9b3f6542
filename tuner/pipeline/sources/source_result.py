"""What a source yields: frames of samples and of links, and a sentence for everything that was amiss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LINKS = "application string, upstream string, downstream string"


@dataclass(frozen=True, slots=True)
class SourceResult:
    samples: DataFrame  # columns of Sample
    links: DataFrame  # columns of LINKS
    notes: tuple[str, ...] = ()


def no_links(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], LINKS)
