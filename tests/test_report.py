"""Reports of simulated runs: columns, charts and pages lose nothing and let nothing through unescaped."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sim.setting import Setting
from sim.simulate import simulate
from tuner.cli import main
from tuner.guide.pages import read_page
from tuner.scenario.scenario import read_scenario
from tuner.simulation.comparison import PolicyComparison, compare, find_floor
from tuner.simulation.course import (
    choose_column_count,
    column_centres,
    column_means,
    column_starts,
    make_course,
    reduce_columns,
)
from tuner.simulation.runner import list_jobs, run_replays
from tuner.views.chart import Axis, Chart, Scale, Series, level
from tuner.views.comparison_report import choose_columns, describe_comparison, list_columns, write_comparison
from tuner.views.course_charts import Frame, chart_response
from tuner.views.html_document import read_scripts

HOSTILE = "<script>alert(1)</script>"
VOID = {"meta", "line", "path"}
YEAR = 525_533
Flags = dict[str, dict[str, Any]]


def stage(slots: int = 400, policies: tuple[str, ...] = ("static", "threshold-c"), **tables: Any) -> Flags:
    return {"trace": {"slots": slots, "high": 900.0}, "policy": {"names": list(policies)}, **tables}


def ignore(done: int) -> None:
    """Progress that nobody watches."""


def draw(flags: Flags, path: Path | None = None) -> tuple[PolicyComparison, str]:
    scenario = read_scenario(path, flags)
    replays = run_replays(list_jobs(scenario, choose_columns(scenario)), ignore)
    comparison = compare(scenario, [replay.run for replay in replays])
    return comparison, write_comparison(comparison, [replay.course for replay in replays if replay.course is not None])


class Page(HTMLParser):
    """What a browser would find: elements that are closed in order, text, charts, scripts, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.charts: list[dict[str, Any]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        self.charts += [json.loads(value or "") for name, value in attrs if name == "data-chart"]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open and self.open[-1] == "script" else self.words).append(data)


def check_alone(text: str) -> Page:
    """A page that asks for nothing and runs no script but those that draw its charts."""
    page = Page(text)
    assert page.links == []
    assert not re.search(r"https?:|//[a-z]|url\(|@import", text.replace(read_scripts(), ""))
    assert page.scripts == ([read_scripts()] if page.charts else [])
    assert page.seen.count("script") == len(page.scripts)
    return page


def test_a_page_is_whole_asks_for_nothing_and_shows_every_policy() -> None:
    comparison, text = draw(stage())
    page = check_alone(text)
    assert page.seen.count("figure") == len(page.charts) == 1 + 3 * 2
    words = " ".join(page.words)
    for row in comparison.rows:
        assert row.title in words
        assert f"{row.cost.mean:.4f}" in words


def test_a_hostile_name_stays_a_name(tmp_path: Path) -> None:
    path = tmp_path / "<img src=x onerror=alert(1)>.toml"
    path.write_text(
        f"""
        [application]
        name = "{HOSTILE}"
        [[application.operator]]
        name = "{HOSTILE}"
        service_rate = 100
        scv = 0.5
        [[application.operator]]
        name = "\\" onload=\\"alert(1)"
        service_rate = 100
        scv = 0.5
        [[application.edge]]
        from = "{HOSTILE}"
        to = "\\" onload=\\"alert(1)"
        [[infrastructure.node]]
        name = "{HOSTILE}"
        speedup = 1
        price = 1
        """
    )
    page = check_alone(draw(stage(60), path)[1])
    assert "img" not in page.seen
    assert HOSTILE in "".join(page.words)
    assert page.seen.count("details") == 1 + 2 * 2


def test_a_year_of_minutes_stays_a_small_file() -> None:
    comparison, text = draw(stage(YEAR, ("static",)))
    assert comparison.rows[0].runs[0].slots == YEAR
    assert len(text.encode()) < 200_000


def test_many_charts_get_fewer_columns() -> None:
    few = read_scenario(None, stage(50))
    many = read_scenario(None, stage(50, application={"builtin": "pipeline"}, infrastructure={"n_res": 10}))
    assert choose_columns(few) == 720
    assert 100 <= choose_columns(many) < 720


@pytest.fixture(scope="module")
def recorded() -> tuple[Setting, Any]:
    setting = read_scenario(None, stage(3000, ("threshold-c",), application={"builtin": "diamond"})).settings[0]
    return setting, simulate(setting, record=True)


def test_a_course_adds_up_to_the_run_s_own_averages(recorded: tuple[Setting, Any]) -> None:
    setting, run = recorded
    course = make_course(setting, run, 200)
    assert course.period == "hour"
    assert course.cost_at[-1] == 1.0
    assert np.average(course.cost, weights=np.diff(course.cost_at)) == pytest.approx(run.cost)
    assert len(course.at) == len(course.running_cost) == 200
    by_type = np.array([operator.replicas.mean(axis=0) for operator in course.operators])
    assert by_type == pytest.approx(run.replicas, abs=0.02)
    slow = np.sum(course.response.high > setting.r_max) + np.sum(course.response.infinite > 0)
    assert (slow > 0) == (run.violations > 0)


def test_the_slowest_path_is_no_faster_than_any_operator(recorded: tuple[Setting, Any]) -> None:
    course = make_course(*recorded, 50)
    for operator in course.operators:
        assert np.all(course.response.infinite >= operator.response.infinite)
        both = np.isfinite(course.response.high) & (course.response.infinite == 0)
        assert np.all(course.response.high[both] >= operator.response.high[both])


series = arrays(np.float64, st.integers(1, 300), elements=st.floats(0, 1e9) | st.just(math.inf))


@given(series, st.integers(1, 80))
def test_columns_keep_extremes_counts_and_means(values: Any, columns: int) -> None:
    found = reduce_columns(values, columns)
    finite = values[np.isfinite(values)]
    assert len(found.mean) == min(columns, len(values))
    assert found.infinite.sum() == len(values) - len(finite)
    if len(finite):
        assert np.nanmin(found.low) == finite.min()
        assert np.nanmax(found.high) == finite.max()
        slack = 1e-9 * finite.max()
        there = np.isfinite(found.mean)
        assert np.all((found.low <= found.mean + slack)[there])
        assert np.all((found.mean <= found.high + slack)[there])


@given(st.integers(1, 1000), st.integers(1, 80))
def test_column_means_weigh_up_to_the_mean_of_all(slots: int, columns: int) -> None:
    values = np.random.default_rng(slots).random((slots, 2))
    starts = column_starts(slots, columns)
    sizes = np.diff(np.append(starts, slots))
    assert np.average(column_means(values, starts), axis=0, weights=sizes) == pytest.approx(values.mean(axis=0))
    at = column_centres(slots, starts)
    assert np.all(np.diff(at) > 0.0)
    assert 0.0 < at[0] <= at[-1] < 1.0


@pytest.mark.parametrize(("days", "columns"), [(1, 720), (14, 720), (120, 720), (121, 121), (365, 365), (1000, 500)])
def test_columns_show_a_day_in_parts_or_whole_days(days: int, columns: int) -> None:
    assert choose_column_count(days * 1440, 720, 1440) == columns


@given(st.floats(1e-6, 1e9))
def test_ticks_are_few_and_in_the_plot(highest: float) -> None:
    for scale in (Scale(0.0, highest), Scale(highest / 1e4, highest, True)):
        ticks = scale.ticks()
        assert 2 <= len(ticks) <= 16
        assert all(-1e-9 <= y <= 1.0 + 1e-9 for y, _ in ticks)
        assert len({label for _, label in ticks}) == len(ticks)


def test_a_scale_by_factors_puts_equal_factors_equally_far_apart() -> None:
    shares = [Scale(0.001, 10.0, True).within(value) for value in (0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 20.0)]
    assert shares == pytest.approx([0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.0])


def test_a_gap_breaks_a_line_and_an_area() -> None:
    xs, ys = np.array([0.1, 0.3, 0.5, 0.7, 0.95]), np.array([0.0, 0.5, math.nan, math.inf, 2.0])
    series = [Series("line", ys), Series("band", ys, look="band", low=np.array([0.0, math.nan, 0.0, 0.0, 1.0]))]
    drawn = Page(Chart("chart", xs, Axis(), Axis(), series).render()).charts[0]
    assert drawn["x"] == xs.tolist()
    assert [each["values"] for each in drawn["series"]] == [[0, 0.5, None, None, 2]] * 2
    assert drawn["series"][1]["low"] == [0, None, 0, 0, 1]


@given(
    arrays(np.float64, st.integers(1, 50), elements=st.floats(-1e12, 1e12)), st.floats(-1e9, 2e9), st.floats(0.5, 1e5)
)
def test_chart_keeps_its_values_and_places(values: Any, first: float, step: float) -> None:
    x = first + step * np.arange(len(values))
    drawn = Page(Chart("c", x, Axis(), Axis(), [Series("s", values)]).render()).charts[0]
    places = drawn["x"]
    if isinstance(places, dict):
        places = [places["first"] + i * places["step"] for i in range(places["count"])]
    assert places == pytest.approx(x.tolist(), rel=1e-6, abs=1e-3 * step)
    assert drawn["series"][0]["values"] == pytest.approx(values.tolist(), rel=1e-4)


def test_overloaded_slots_are_marked_and_counted_beside_the_bound() -> None:
    response = reduce_columns(np.array([0.01, math.inf, math.inf, 0.03]), 4)
    frame = Frame(None, 240.0, ("A1",))
    page = Page(chart_response(frame, column_centres(4, column_starts(4, 4)), response, 0.02, "<b>parse</b>").render())
    (drawn,) = page.charts
    by_label = {each["label"]: each for each in drawn["series"]}
    assert by_label["overloaded in 2 slots"]["values"] == [None, 1, 1, None]
    assert by_label["mean"]["values"] == [10, None, None, 30]
    assert by_label["bound, 20 ms"]["values"] == [20]
    assert drawn["x"] == {"first": 30.0, "step": 60.0, "count": 4}


def test_a_chart_without_scripts_is_a_table_of_its_figures() -> None:
    series = [Series("<i>mean</i>", np.array([1.0, math.nan, 3.0])), level("bound", 2.5, "alarm")]
    page = Page(Chart("chart", np.arange(3.0), Axis(), Axis("ms"), series).render())
    assert page.seen.count("table") == 1
    assert [word for word in page.words if word] == ["ms", *("least", "mean", "greatest"), "<i>mean</i>", "1", "2", "3",
                                                     "bound", "2.5", "2.5", "2.5"]  # fmt: skip


def test_json_has_no_nan_and_agrees_with_the_table() -> None:
    scenario = read_scenario(None, stage(1, run={"seeds": 2}))
    comparison = compare(scenario, [replay.run for replay in run_replays(list_jobs(scenario), ignore)])
    document = json.loads(json.dumps(describe_comparison(comparison), allow_nan=False))
    assert document["policies"][0]["runs"][0]["errors"]["cost"] is None
    assert [row["policy"] for row in document["policies"]] == ["static", "threshold-c"]
    cells = {column.head: column.cells for column in list_columns(comparison)}
    for i, row in enumerate(document["policies"]):
        assert cells["cost"][i] == f"{row['cost']['mean']:.4f} ± {row['cost']['error']:.4f}"
        assert cells["violated %"][i] == f"{100 * row['violations']['mean']:.2f}"
        assert cells["A1"][i] == f"{sum(each[0] for each in row['replicas']):.2f}"


def take_example(path: Path) -> str:
    """The example of the guide's paragraph on supply, saved; the command below it."""
    example = read_page("simulation").partition("```toml file=spot.toml\n")[2].partition("```\n\n```sh\n")
    path.write_text(example[0])
    return example[2].replace("\\\n", " ").partition("\n")[0]


def test_finite_supply_is_told_by_operator(tmp_path: Path) -> None:
    command = take_example(tmp_path / "spot.toml").split()
    assert command[:2] == ["tuner", "simulate"]
    words = [str(tmp_path / word) if word == "spot.toml" else word for word in command[1:]]
    arguments = [*words, "--policy", "static"]
    page = tmp_path / "page.html"
    printed = CliRunner().invoke(main, [*arguments, "--html", str(page)])
    assert printed.exit_code == 0, printed.output
    document = json.loads(CliRunner().invoke(main, [*arguments, "--json"]).stdout)
    busy, still = (row["refused"] for row in document["policies"])
    assert max(busy) > 0.0 == max(still)
    assert document["supply"] in " ".join(printed.stdout.split())
    assert document["supply"] in page.read_text()
    assert document["supply"].startswith("There are 4 firm and 2 spot; the last replicas of a slot go to the operator")
    names = document["operators"]
    for name, count in zip(names, busy, strict=True):
        assert f"{name} {count:.2f}" in printed.stdout
    assert json.loads(CliRunner().invoke(main, ["simulate", "--slots", "5", "--json"]).stdout)["supply"] is None


def test_several_seeds_give_the_mean_and_its_standard_error() -> None:
    scenario = read_scenario(None, stage(500, ("ql",), run={"seeds": [0, 1, 2]}))
    runs = [replay.run for replay in run_replays(list_jobs(scenario), ignore)]
    (row,) = compare(scenario, runs).rows
    costs = [run.cost for run in runs]
    assert len(set(costs)) == 3
    assert row.cost.mean == pytest.approx(np.mean(costs))
    assert row.cost.error == pytest.approx(np.std(costs, ddof=1) / math.sqrt(3))
    assert [run.seed for run in row.runs] == [0, 1, 2]


def test_no_policy_is_cheaper_than_the_floor_and_none_is_named_without_one() -> None:
    single, _ = draw(stage(2000))
    assert single.bound is not None
    assert single.bound.exact
    assert all(single.bound.multiple(row.cost.mean) >= 1.0 for row in single.rows)
    bound = find_floor(read_scenario(None, stage(50, run={"plant": "backlog"})).settings[0])
    assert bound is not None
    assert not bound.exact
    several = stage(50, application={"builtin": "pipeline"}, run={"plant": "backlog"})
    assert find_floor(read_scenario(None, several).settings[0]) is None
