"""Formatters of numbers: total over every float, in the order of the values, one word for what is infinite."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.units import (
    format_age,
    format_bytes,
    format_count,
    format_duration,
    format_fixed,
    format_milliseconds,
    format_moment,
    format_money,
    format_number,
    format_percentage,
    format_rate,
    format_response,
    format_share,
)

FORMATTERS = (
    *(format_number, format_fixed, format_share, format_money, format_duration, format_response, format_moment),
    *(format_bytes, format_rate, format_percentage, format_milliseconds),
)
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "%": 0.01, "k": 1e3, "M": 1e6}
SIZES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
anything = st.none() | st.floats() | st.integers(-(10**18), 10**18)


def read(text: str) -> float:
    """The value that a person would read."""
    if text in ("infinite", "overloaded", "unlimited"):
        return math.inf
    number, _, unit = text.removeprefix("more than ").partition(" ")
    return float(number.replace(",", "")) * {**UNITS, **SIZES}.get(unit, 1.0)


@pytest.mark.parametrize("format_value", FORMATTERS)
@given(value=anything)
def test_formatters_are_total_and_short(format_value: object, value: float | None) -> None:
    text = format_value(value)  # type: ignore[operator]
    assert text == text.strip()
    assert 0 < len(text) < 40
    assert (text == "-") == (value is None)
    assert ("unknown" in text) == (value is not None and math.isnan(value))
    assert not re.search(r"\b(nan|inf|None)\b", text)


@pytest.mark.parametrize(
    "format_value",
    [format_number, format_share, format_money, format_duration, format_response, format_bytes, format_rate],
)
@given(values=st.tuples(*2 * [st.floats(0.0, allow_nan=False)]))
def test_greater_values_never_read_as_smaller(format_value: object, values: tuple[float, float]) -> None:
    low, high = (read(format_value(value)) for value in sorted(values))  # type: ignore[operator]
    assert low <= high * (1.0 + 1e-9)


@given(st.floats(1e-6, 1e9))
def test_formatted_figures_are_within_their_digits(value: float) -> None:
    assert read(format_number(value)) == pytest.approx(value, rel=6e-4)
    assert read(format_duration(value)) == pytest.approx(value, rel=6e-3)
    assert read(format_share(value)) == pytest.approx(value, rel=6e-3)
    assert format_duration(-value) == f"-{format_duration(value)}"


@given(st.floats(0.0, 1.0))
def test_only_a_whole_share_reads_100_percent(share: float) -> None:
    assert (format_share(share) == "100 %") == (share == 1.0)


def test_each_infinity_has_one_word() -> None:
    assert format_response(math.inf) == "overloaded"
    assert format_duration(math.inf) == "unlimited"
    assert format_moment(math.inf) == format_age(math.inf, 0.0) == "never"
    assert format_number(math.inf) == format_share(math.inf) == format_money(math.inf) == "infinite"
    assert format_number(-math.inf) == "-infinite"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (format_number(1234.56), "1,235"),
        (format_number(0.0123449), "0.01234"),
        (format_share(0.031), "3.1 %"),
        (format_money(7.9), "7.90"),
        (format_money(0.00123), "0.00123"),
        (format_money(1234.5, whole=True), "1,234"),
        (format_duration(0.0384), "38.4 ms"),
        (format_duration(0.9999), "1 s"),
        (format_duration(90.0), "90 s"),
        (format_duration(7200.0), "2 h"),
        (format_duration(200_000.0), "2.31 d"),
        (format_moment(0.0), "1970-01-01 00:00:00 UTC"),
        (format_moment(0.0, "minutes"), "1970-01-01 00:00 UTC"),
        (format_moment(1e300), "1e+300 s since 1970"),
        (format_age(0.0, 7200.0), "2 h ago"),
        (format_age(180.0, 0.0), "in 3 min"),
        (format_age(3.0, 0.0), "just now"),
        (format_bytes(0), "0 B"),
        (format_bytes(999), "999 B"),
        (format_bytes(1000), "1.0 kB"),
        (format_bytes(319440), "319 kB"),
        (format_bytes(999600), "1.0 MB"),
        (format_bytes(3e9), "3.0 GB"),
        (format_rate(12.3), "12.3"),
        (format_rate(4321.0), "4.32 k"),
        (format_rate(15_400_000.0), "15.4 M"),
        (format_count(1, "slot", "slots"), "1 slot"),
        (format_count(1440, "slot", "slots"), "1,440 slots"),
    ],
)
def test_formatters_print_what_people_write(text: str, found: str) -> None:
    assert text == found
