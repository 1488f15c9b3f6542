"""Parts of the service's pages: links, moments, time ranges, thinned values, facts."""

from __future__ import annotations

import math
import re
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from sim.graphs import single
from tests.service.made_decisions import DAY, NOW
from tuner.history.qos_history import QosFigures
from tuner.service.page.address import link_application, read_window
from tuner.service.page.error_pages import render_refusal
from tuner.service.page.live_graph import draw_live
from tuner.service.page.render import format_change, mark_age, mark_moment, mark_text
from tuner.service.page.slot_charts import select_peaks, thin
from tuner.service.page.slot_grid import SlotGrid, find_data
from tuner.views.html_document import read_style
from tuner.views.words import list_facts


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_link_leads_back_to_the_name(name: str) -> None:
    parts = urlsplit(link_application(name, {"kind": ["A", "B"]}, "decisions"))
    asked = parse_qs(parts.query, keep_blank_values=True)
    last = parts.path.removeprefix("/applications").removeprefix("/")
    assert (unquote(last) or asked["app"][0]) == name
    assert "/" not in last
    assert last not in (".", "..")
    assert asked["kind"] == ["A", "B"]
    assert asked["tab"] == ["decisions"]


@given(
    st.lists(st.one_of(st.floats(0.0, 1e3), st.just(math.inf), st.just(math.nan)), min_size=1, max_size=300),
    st.integers(1, 50),
)
def test_thinned_values_keep_their_peaks_and_miss_nothing_for_infinite(values: list[float], columns: int) -> None:
    whole = np.array(values)
    thinned = thin(whole, columns)
    finite = whole[np.isfinite(whole)]
    assert int(thinned.infinite.sum()) == int(np.isinf(whole).sum())
    if finite.size:
        assert np.nanmax(thinned.high) == finite.max()
        assert np.nanmin(thinned.low) == finite.min()
    else:
        assert np.isnan(thinned.high).all()


def test_the_busiest_slot_of_a_column_is_the_one_that_is_drawn() -> None:
    replicas = np.ones((1000, 2))
    replicas[777] = (3.0, 9.0)
    replicas[10] = math.nan
    drawn = select_peaks(replicas, np.arange(0, 1000, 100))
    assert drawn.tolist() == [[3.0, 9.0] if i == 7 else [1.0, 1.0] for i in range(10)]


def test_a_time_line_is_fitted_to_its_data() -> None:
    assert find_data(np.array([False] * 50 + [True, False, True] + [False] * 40)) == (49, 54)
    assert find_data(np.array([True] * 5)) == (0, 5)
    assert find_data(np.array([False] * 5)) == (0, 5)


def test_the_graph_says_which_response_times_it_draws() -> None:
    shape, one = single(180.0), np.full((3, 1), 9.5)
    name = shape.operators[0].name
    unknown = QosFigures(0, None, None, None, None, 0)
    counts = np.ones((3, 1, 1))
    course = SlotGrid(0.0, 60.0, (name,), ("A1",), one, one, one, one[:, 0], counts, counts, (0.5,), unknown, (0,))
    mean, p95 = (str(draw_live(shape, course, 12.0, quantile)) for quantile in (None, 0.95))
    bar = "A full bar is R_max, 12\N{NO-BREAK SPACE}s"
    assert f"Means of the last 60 slots; response times are each slot&#39;s p95. {bar} (p95);" in p95
    assert f"Means of the last 60 slots. {bar} (mean);" in mean
    assert "p95" not in mean


def test_times_are_utc_and_absurd_ones_do_not_fail() -> None:
    assert str(mark_moment(NOW)) == (
        '<time datetime="2026-03-12T14:20:00Z" title="2026-03-12T14:20:00Z">2026-03-12 14:20 UTC</time>'
    )
    assert "2\N{NO-BREAK SPACE}h ago" in mark_age(NOW - 7200.0, NOW)
    assert "in 3\N{NO-BREAK SPACE}d" in mark_age(NOW + 3 * DAY, NOW)
    for absurd in (1e300, -1e300, math.inf, math.nan):
        assert mark_moment(absurd)
        assert mark_age(absurd, NOW)
    window = read_window({"since": "2026-03-12T10:00+02:00", "until": "2026-03-12T09:00"}, NOW)
    assert window.query == {"since": "2026-03-12T08:00", "until": "2026-03-12T09:00"}
    with pytest.raises(BadInput, match="at most 92 days"):
        read_window({"since": "2020-01-01"}, NOW)


def test_a_sentence_keeps_figures_by_their_units_and_marks_its_moments() -> None:
    told = str(mark_text("<i> 5 % of 20 ms until 2026-03-12 18:20 UTC, since 2026-03-12 18:20:07 UTC"))
    assert told.startswith("&lt;i&gt; 5\N{NO-BREAK SPACE}% of 20\N{NO-BREAK SPACE}ms until <time")
    assert re.findall(r'<time datetime="(.*?)" title="\1">(.*?)</time>', told) == [
        ("2026-03-12T18:20:00Z", "2026-03-12 18:20 UTC"), ("2026-03-12T18:20:07Z", "2026-03-12 18:20:07 UTC"),
    ]  # fmt: skip


def test_a_document_of_any_depth_is_told_flat() -> None:
    told = dict(
        list_facts({"a": {"b": [1, 2], "c": [{"d": math.inf}]}, "when": NOW, "no": None, "yes": True, "empty": {}})
    )
    assert told == {
        "a · b": "1, 2",
        "a · c · 1 · d": "infinite",
        "when": "2026-03-12 14:20 UTC",
        "no": "-",
        "empty": "-",
        "yes": "yes",
    }
    stated = {"cost": 7.9, "figures": {"violations_limit": 0.05, "my_operator": 3}}
    assert dict(list_facts(stated)) == {
        "price per hour": "7.90", "then · violations allowed": "5 %", "then · my_operator": "3",
    }  # fmt: skip


def test_a_refusal_shows_commands_as_code_and_markup_as_text() -> None:
    page = bytes(render_refusal("<b>clicks</b> has no run 1; `tuner runs '<i>'` lists them", 404).body).decode()
    assert "&lt;b&gt;clicks&lt;/b&gt; has no run 1; <code>tuner runs &#39;&lt;i&gt;&#39;</code> lists them" in page


def test_prices_are_compared_where_they_differ() -> None:
    assert format_change(9.0, 10.0) == "10 % less than 10.00"
    assert format_change(12.0, 10.0) == "20 % more than 10.00"
    assert format_change(10.001, 10.0) == "about as much as 10.00"
    assert format_change(None, 10.0) == format_change(1.0, None) == format_change(1.0, 0.0) == ""


def find_luminance(colour: str) -> float:
    """Relative luminance of #rrggbb or #rgb, as the Web Content Accessibility Guidelines have it."""
    digits = colour.lstrip("#")
    whole = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(whole[i : i + 2], 16) / 255.0 for i in (0, 2, 4)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", [0, 1])
@pytest.mark.parametrize("ground", ["paper", "raised"])
@pytest.mark.parametrize("text", ["ink", "faint", "alarm", "c0", "c3"])
def test_text_stands_out_from_its_ground(scheme: int, ground: str, text: str) -> None:
    roots = re.findall(r":root \{(.*?)\}", read_style(), re.S)
    colours = dict(re.findall(r"--(\w+): (#\w+);", roots[scheme]))
    light, dark = sorted((find_luminance(colours[name]) for name in (ground, text)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5
