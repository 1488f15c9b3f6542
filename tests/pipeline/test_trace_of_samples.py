"""Arrivals with their gaps, traces without, and selectivities with their errors, from folded samples."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tests.test_report import Page
from tuner.pipeline.flows import Arrivals, build_arrivals, estimate_edges, fill, find_gaps, find_sources
from tuner.views.course_charts import write_arrivals

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp()


def window(i: int, operator: str = "parse", **figures: Any) -> Sample:
    return Sample("shop", operator, NOON + 60.0 * i, NOON + 60.0 * i + 60.0, "progress", **figures)


def test_windows_become_rates_and_what_is_missing_stays_missing() -> None:
    rows = [window(0, arrived=60.0), window(1, arrived=0.0), window(4, arrived=120.0)]
    found = build_arrivals(reversed(rows), {"parse": 1.0})
    np.testing.assert_array_equal(found.rates, [1.0, 0.0, np.nan, np.nan, 2.0])
    assert (found.start, found.step_s, found.counted) == (NOON, 60.0, True)
    assert find_gaps(found.rates) == [(2, 4)]


def test_a_window_seen_in_part_has_the_rate_of_that_part_and_one_hardly_seen_none() -> None:
    rows = [
        window(0, arrived=60.0),
        window(1, arrived=30.0, completeness=0.5),
        window(2, arrived=6.0, completeness=0.1),
        window(3, tuples_in=60.0),
    ]
    found = build_arrivals(rows, {"parse": 1.0})
    np.testing.assert_array_equal(found.rates, [1.0, 1.0, np.nan, 1.0])
    assert not found.counted


def test_of_several_sources_all_must_be_known() -> None:
    rows = [window(i, name, arrived=60.0 * n) for i in range(3) for name, n in (("web", 3), ("shop", 1))][:-1]
    found = build_arrivals(rows, {"web": 0.75, "shop": 0.25})
    np.testing.assert_array_equal(found.rates, [4.0, 4.0])
    assert build_arrivals(rows, {"web": 1.0, "shop": 1.0}).rates.tolist() == [2.0, 2.0]  # each gets the whole rate
    assert found.shares["web"] == pytest.approx(9.0 / 11.0)


def test_node_types_and_the_operator_as_a_whole_do_not_add_up() -> None:
    plain = window(0, tuples_in=60.0)
    fast = replace(window(0, tuples_in=59.0), node_type="fast", evidence="tasks")
    assert build_arrivals([plain, fast], {"parse": 1.0}).rates.tolist() == [1.0]


def arrivals(*rates: float) -> Arrivals:
    return Arrivals("shop", NOON, 60.0, np.array(rates))


def test_short_gaps_are_bridged_and_the_trace_starts_when_it_did() -> None:
    trace = fill(arrivals(1.0, math.nan, math.nan, 4.0, 2.0))
    assert trace.rates.tolist() == [1.0, 2.0, 3.0, 4.0, 2.0]
    assert (trace.start, trace.step_s, trace.name) == (datetime(2026, 5, 1, 12, tzinfo=UTC), 60.0, "shop")


def test_long_gaps_are_refused_with_what_to_do() -> None:
    holed = arrivals(1.0, math.nan, 2.0, *[math.nan] * 6, 3.0)
    with pytest.raises(BadInput) as refused:
        fill(holed)
    assert str(refused.value) == (
        "nothing is known of the arrivals of 'shop' from 2026-05-01T12:03:00Z to 2026-05-01T12:09:00Z; "
        "take a stretch without that by --since or --until, or bridge it by --gap 6"
    )
    assert fill(holed, 6).rates.size == 10
    with pytest.raises(BadInput, match="bridge it by --gap 6"):
        fill(holed, 0)


@pytest.mark.parametrize(
    ("sources", "operators", "said"),
    [
        (None, [], "there are no samples of 'shop'; read some with: tuner ingest PATH --app shop"),
        (None, ["a", "b"], "'shop' has several operators; name its sources with --operator: a, b"),
        ({"c": 1.0}, ["a", "b"], "there are no samples of operator 'c' in 'shop'; there are of a, b"),
    ],
)
def test_sources_that_cannot_be_known_are_asked_for(
    sources: dict[str, float] | None, operators: list[str], said: str
) -> None:
    with pytest.raises(BadInput) as refused:
        find_sources(sources, [window(0, name) for name in operators], "shop")
    assert str(refused.value) == said


def test_the_only_operator_is_the_source() -> None:
    assert find_sources(None, [window(0)], "shop") == {"parse": 1.0}


def test_no_counts_at_all_are_refused() -> None:
    with pytest.raises(BadInput, match="no window knows how many tuples came to parse"):
        build_arrivals([window(0, busy=1.0)], {"parse": 1.0})


def test_a_stretch_beyond_reason_is_refused() -> None:
    with pytest.raises(BadInput, match="more than 5,000,000 windows; take a stretch"):
        build_arrivals(
            [replace(window(0, arrived=1.0), start=0.0, end=60.0), window(9_000_000, arrived=1.0)], {"parse": 1.0}
        )


def test_the_page_shows_rates_and_lists_what_is_missing() -> None:
    page = write_arrivals(arrivals(1.0, math.nan, math.nan, 4.0))
    assert "2026-05-01 12:01:00 UTC</td><td>2026-05-01 12:03:00 UTC</td><td>2" in page
    assert "50 % of them known" in page
    (chart,) = Page(page).charts
    assert {series["label"]: series["values"] for series in chart["series"]}["windows without a rate"] == [
        None,
        1,
        1,
        None,
    ]
    assert "Nothing is missing." in write_arrivals(arrivals(0.0, 0.0))


def test_edge_is_a_ratio_of_sums_and_its_error_covers_the_truth() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        taken = rng.poisson(200.0, 50).astype(float)
        given = rng.binomial(taken.astype(int), 0.3)
        pairs = enumerate(zip(taken.tolist(), given.tolist(), strict=True))
        rows = []
        for i, (x, y) in pairs:
            rows += [window(i, tuples_out=x), window(i, "count", arrived=float(y))]
        (found,) = estimate_edges([*rows, window(99, tuples_out=5.0)], [("parse", "count")])
        assert found.value == pytest.approx(given.sum() / taken.sum())
        assert found.error is not None
        inside += abs(found.value - 0.3) <= 1.96 * found.error
    assert 300 * 0.90 <= inside <= 300 * 0.99


def test_an_edge_takes_what_was_put_out() -> None:
    rows = [window(i, "parse", tuples_in=10.0, tuples_out=20.0 + i) for i in range(4)]
    rows += [window(i, "count", arrived=10.0 + i / 2.0) for i in range(3)]
    (found,) = estimate_edges(rows, [("parse", "count"), ("parse", "nobody")])
    assert (found.operator, found.downstream, found.windows) == ("parse", "count", 3)
    assert (found.value, found.error) == (0.5, pytest.approx(0.0, abs=1e-9))


def test_streams_that_meet_are_told_apart_where_they_move_apart() -> None:
    rng = np.random.default_rng(1)
    rows = []
    for i in range(200):
        web, shop = rng.poisson(rng.uniform(50.0, 500.0)), rng.poisson(rng.uniform(50.0, 500.0))
        rows += [window(i, "web", tuples_out=float(web)), window(i, "shop", tuples_out=float(shop))]
        rows.append(window(i, "join", arrived=float(rng.binomial(web, 0.25) + 2 * shop)))
    web_edge, shop_edge = estimate_edges(rows, [("web", "join"), ("shop", "join")])
    assert web_edge.error is not None
    assert abs(web_edge.value - 0.25) < 4.0 * web_edge.error < 0.05
    assert shop_edge.value == pytest.approx(2.0, abs=0.05)
    alike = [replace(row, tuples_out=5.0) if row.operator != "join" else row for row in rows]
    assert estimate_edges(alike, [("web", "join"), ("shop", "join")]) == []
