"""Sketch of response times that merges: tuples by logarithmic bucket, with a bounded relative error of quantiles.

Bucket i holds times in (g^(i-1), g^i] seconds with g = (1 + ERROR) / (1 - ERROR), and stands for the time in it that is
within ERROR of all others (Masson, Rim and Lee, "DDSketch", VLDB 2019). So a quantile of a sketch is within ERROR of
that of its tuples. A span of times is spread over its buckets as a uniform distribution. What is stored joins buckets
that are MAX_BUCKETS and more below the highest, and says less of those.

A sketch is a plain mapping, with bucket numbers as texts, so that it travels as JSON and in a column as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

ERROR = 0.02
MAX_BUCKETS = 200  # of a sketch that is stored: its times differ by a factor of 3000 at most
LEAST_S, MOST_S = 1e-6, 1e7
STEP = math.log((1.0 + ERROR) / (1.0 - ERROR))
Sketch = dict[str, float]
Buckets = Mapping[str, float]


def find_bucket(seconds: float) -> int:
    return math.ceil(math.log(min(max(seconds, LEAST_S), MOST_S)) / STEP)


def add_span(sketch: Sketch, low: float, high: float, tuples: float) -> None:
    """Add tuples whose response times lie evenly between two times, or are one time where these are the same."""
    first, last = find_bucket(low), find_bucket(high)
    width, begin = high - low, low
    for bucket in range(first, last + 1):
        end = high if bucket == last else math.exp(bucket * STEP)
        share = (end - begin) / width if last > first else 1.0
        sketch[str(bucket)] = sketch.get(str(bucket), 0.0) + tuples * share
        begin = end


def add_buckets(sketch: Sketch, other: Buckets, share: float = 1.0) -> None:
    """Add a share of another sketch's tuples."""
    for bucket, tuples in other.items():
        sketch[bucket] = sketch.get(bucket, 0.0) + share * tuples


def merge_sketches(sketches: Iterable[Buckets | None]) -> Sketch | None:
    """Sum of the sketches that are known; None where none is."""
    merged: Sketch = {}
    for sketch in sketches:
        add_buckets(merged, sketch or {})
    return merged or None


def compact_sketch(sketch: Buckets) -> Sketch:
    """The sketch as it is stored: no more than MAX_BUCKETS, tuples to four digits."""
    lowest = max(map(int, sketch), default=0) - MAX_BUCKETS + 1
    joined: Sketch = {}
    for bucket in sorted(map(int, sketch)):
        place = str(max(bucket, lowest))
        joined[place] = joined.get(place, 0.0) + sketch[str(bucket)]
    return {bucket: float(f"{tuples:.4g}") for bucket, tuples in joined.items() if tuples > 0.0}


def find_quantile(sketch: Buckets | None, quantile: float) -> float | None:
    """The response time that this share of the tuples does not exceed; None of an empty or unknown sketch."""
    target = quantile * sum((sketch or {}).values())
    if sketch is None or not target > 0.0:
        return None
    below = 0.0
    for bucket in sorted(map(int, sketch)):
        below += sketch[str(bucket)]
        if below >= target * (1.0 - 1e-12):
            break
    return math.exp(bucket * STEP) * (1.0 - ERROR)
