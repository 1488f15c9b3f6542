"""`tuner lab compare`: table, document and page say the same, over floors that are computed once."""

from __future__ import annotations

import json
import re
import signal
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import tuner.simulation.comparison
from scaler.model.errors import BadInput
from scaler.model.kernel import Floats, lay_out
from scaler.model.nodes import NodeType
from scaler.model.queueing import mg1_response
from scaler.model.task import Task, Weights
from scaler.policies import POLICIES
from sim.floor import Bound, Stretch, clairvoyant_floor, shifted_floors
from sim.setting import Setting
from tests.examples import make_rates, make_task
from tests.test_cli_simulate import finish, piped, wait_until_it_works
from tests.test_report import Page
from tuner.cli import main
from tuner.cli.lab_commands import EXAMPLE, print_benchmark
from tuner.lab.benchmark_report import describe_benchmark, write_benchmark
from tuner.lab.plan import BenchmarkPlan, read_plan
from tuner.lab.policy_benchmark import BenchmarkResult, measure_multiples, run_benchmark
from tuner.lab.published.tables import list_published, plan_published
from tuner.lab.shifts import SETTLING, SHIFTS, apply_shift
from tuner.scenario.scenario import make_toy, read_scenario
from tuner.simulation.comparison import Figure
from tuner.simulation.floor_cache import (
    Floor,
    FloorQuery,
    compute_floor,
    is_supply_simple,
    load_floor,
    load_or_compute,
    lone_task,
    name_query,
    save_floor,
)
from tuner.simulation.runner import ReplayJob, replay
from tuner.views.chart import draw_dots

TRACES = Path(__file__).parents[2] / "shared" / "traces"
needs_traces = pytest.mark.skipif(not TRACES.exists(), reason=f"the traces folder {TRACES} is not there")
SMALL = """
policies = ["threshold-c", "static"]
seeds = 2
infrastructures = ["A"]
n_res = [2, 3]
k_max = 4

[[workload]]
name = "day"
trace = { generator = "diurnal", low = 50.0, high = 600.0, slots = 600 }

[[workload]]
name = "<b>graph</b>"
trace = { generator = "step", before = 50.0, after = 200.0, at = 100, slots = 300 }
application = { builtin = "pipeline" }
"""
LONG = (
    SMALL.partition("\n\n")[0]
    + """
[[workload]]
name = "long"
trace = { generator = "diurnal", low = 50.0, high = 400.0, slots = 4400 }
"""
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Floors of these tests are kept apart from a user's."""
    folder = tmp_path / "cache" / "floors"
    monkeypatch.setattr("tuner.lab.policy_benchmark.find_folder", lambda: folder)
    return folder


def write(folder: Path, text: str = SMALL) -> Path:
    path = folder / "plan.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["lab", "compare", *arguments])


def ignore(share: float) -> None:
    """Progress that nobody watches."""


def stand(folder: Path, text: str = SMALL, **more: Any) -> BenchmarkResult:
    return run_benchmark(read_plan(write(folder, text), **more), ignore)


def test_no_policy_costs_less_than_the_floor(tmp_path: Path) -> None:
    policies = [word for name in ("threshold-c", "static", "ql-pds-plus") for word in ("--policy", name)]
    result = run(str(write(tmp_path)), "--json", *policies)
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    day, graph = document["cells"][:2], document["cells"][2:]
    assert [(c["workload"], c["infrastructure"], c["n_res"], c["k_max"]) for c in day] == [
        ("day", "A", 2, 4),
        ("day", "A", 3, 4),
    ]
    for cell in day:
        assert cell["floor"]["exact"]
        assert [row["policy"] for row in cell["policies"]] == ["threshold-c", "static", "ql-pds-plus"]
        for row in cell["policies"]:
            assert row["times_floor"]["mean"] >= 1.0
            assert row["times_floor"]["mean"] == row["cost"]["mean"] / cell["floor"]["cost"]
            assert row["microseconds_per_decision"]["mean"] > 0.0
    for cell in graph:
        assert all(row["times_floor"]["mean"] >= 1.0 for row in cell["policies"])
    assert all(summary["cells_with_a_floor"] == 4 for summary in document["policies"])


@pytest.mark.parametrize("shift", [None, "prices-rise"])
def test_table_document_and_page_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str], shift: str | None) -> None:
    result = stand(tmp_path, SMALL if shift is None else LONG, shift=shift)
    document = json.loads(json.dumps(describe_benchmark(result), allow_nan=False))
    print_benchmark(result)
    lines = capsys.readouterr().out.splitlines()[2:]
    page = Page(write_benchmark(result))
    assert page.links == []
    assert not re.search(r"https?:|//[a-z]|url\(|@import", write_benchmark(result))
    cells = [word.strip() for word in page.words]
    pairs = [(cell, row) for cell in document["cells"] for row in cell["policies"]]
    assert len(pairs) == len(result.rows) > 0
    for line, (cell, row) in zip(lines, pairs, strict=False):
        said = [row["policy"], show(row["cost"], 4), show(percent(row["violations"]), 2), show(row["resources"], 2)]
        if cell["floor"] is not None:
            said += [
                f"{cell['floor']['cost']:.4g} {'exact' if cell['floor']['exact'] else 'bound'}",
                show(row["times_floor"], 3),
            ]
        if cell["floor_after"] is not None:
            said += [show(row["cost_after"], 4), show(row["times_floor_after"], 3)]
        assert line.startswith(cell["workload"])
        for text in said:
            assert text in line
            assert text in cells
    for summary in document["policies"]:
        line = next(line for line in lines if line.startswith(summary["policy"]))
        for text in (f"{summary['times_floor']['geometric_mean']:.3f}", f"{summary['times_floor']['worst']:.3f}"):
            assert text in line
            assert any(cell.startswith(text) for cell in cells)


def show(figure: dict[str, float], digits: int) -> str:
    return f"{figure['mean']:.{digits}f} ± {figure['error']:.{digits}f}"


def percent(figure: dict[str, float]) -> dict[str, float]:
    return {name: 100.0 * value for name, value in figure.items()}


def test_a_page_has_a_table_per_workload_and_a_dot_per_multiple(tmp_path: Path) -> None:
    html = tmp_path / "page.html"
    result = run(str(write(tmp_path)), "--seeds", "1", "--html", str(html))
    assert result.exit_code == 0, result.output
    assert str(html) in result.stderr
    text = html.read_text(encoding="utf-8")
    page = Page(text)
    assert page.seen.count("table") == 1 + 2 + 1
    assert page.seen.count("figure") == 1
    assert text.count('class="dot ') == 4 * 2
    assert "b" not in page.seen
    assert "script" not in page.seen
    assert "prefers-color-scheme: dark" in text


def test_dots_lie_where_the_values_say_and_what_is_not_known_has_none() -> None:
    rows = {"x": (Figure(1.0, 0.0), Figure(100.0, np.nan)), "y": (None, Figure(np.inf, np.nan))}
    chart = draw_dots(rows, ["a", "b"], "chart", 1.0)
    places = [float(x) for x in re.findall(r'class="dot c\d" style="left:([\d.]+)%', chart)]
    assert places == pytest.approx([0.0, 100.0 * np.log(100.0) / np.log(105.0)], abs=0.01)


def test_the_geometric_mean_is_the_root_of_the_product(tmp_path: Path) -> None:
    known = [(Figure(2.0, 0.1), "a"), (None, "b"), (Figure(8.0, 0.1), "c"), (Figure(4.0, 0.1), "d")]
    extent = measure_multiples(known)
    assert extent is not None
    assert extent.geometric_mean == pytest.approx((2.0 * 8.0 * 4.0) ** (1 / 3))
    assert (extent.worst, extent.where) == (8.0, "c")
    assert measure_multiples([(None, "b")]) is None
    result = stand(tmp_path)
    for summary in result.summaries:
        assert summary.times_floor is not None
        multiples = [row.times_floor.mean for row in result.rows if row.policy == summary.policy and row.times_floor]
        assert len(multiples) == 4
        assert summary.times_floor.geometric_mean == pytest.approx(np.prod(multiples) ** 0.25)


class Counter:
    """Solves, and counts how often."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, question: FloorQuery) -> Floor:
        self.asked += 1
        return compute_floor(question)


def test_a_floor_is_computed_once_and_then_looked_up(tmp_path: Path, cache: Path) -> None:
    plan, counter = read_plan(write(tmp_path)), Counter()
    first, again = (run_benchmark(plan, ignore, solve=counter) for _ in range(2))
    assert counter.asked == 4  # A2 and A3, one operator and the pipeline, whatever the policies and seeds
    assert [row.floor for row in first.rows] == [row.floor for row in again.rows]
    assert len(list(cache.iterdir())) == 4
    other = read_plan(write(tmp_path, SMALL.replace("600.0", "601.0")))
    run_benchmark(other, ignore, solve=counter)
    assert counter.asked == 6


def test_what_a_floor_depends_on_is_in_its_name() -> None:
    question = FloorQuery(make_task(), make_rates(50))
    others = [
        replace(question, rates=make_rates(50, seed=1)),
        replace(question, rates=make_rates(49)),
        replace(question, task=make_task(k_max=5)),
        replace(question, task=make_task(weights=Weights(0.5, 0.3, 0.2))),
        replace(question, changed=make_task(), at=20),
        replace(question, tail=20),
    ]
    assert name_query(question) == name_query(FloorQuery(make_task(), make_rates(50)))
    assert len({name_query(q) for q in (question, *others)}) == 1 + len(others)


@pytest.mark.parametrize("broken", ["", "[", "[[1]]", "{}", '["x", null]', "[null, null]"])
def test_a_broken_answer_is_none_and_gets_computed_again(tmp_path: Path, broken: str) -> None:
    question = FloorQuery(make_task(), make_rates(50))
    (tmp_path / f"{name_query(question)}.json").write_text(broken)
    answer = load_or_compute(question, tmp_path)
    assert answer == load_floor(tmp_path, name_query(question))
    assert answer.whole.lower == clairvoyant_floor(question.task, question.rates).lower


def test_where_nothing_can_be_kept_the_answer_is_given_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = Floor(Bound(0.1, True), Bound(0.2, False))
    save_floor(tmp_path / "file", "name", answer)
    assert load_floor(tmp_path / "file", "name") is None
    save_floor(tmp_path / "new", "name", answer)
    kept = load_floor(tmp_path / "new", "name")
    assert kept is not None
    assert (kept.whole.lower, kept.tail and kept.tail.exact) == (0.1, False)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["name.json"]


def search(tasks: list[Task], rates: Floats, start: tuple[int, ...]) -> float:
    """Every course of changes from a deployment on, slot by slot under its own task."""
    types = len(start)
    best = np.inf
    for course in product([(0, 0), *((i, d) for i in range(types) for d in (-1, 1))], repeat=len(rates) - 1):
        k, cost = list(start), 0.0
        for t, (task, rate) in enumerate(zip(tasks, rates, strict=True)):
            p = lay_out(task)
            slowest = min(p.speedup[i] for i in range(types) if k[i])
            cost += p.w_perf * (mg1_response(rate / sum(k), p.mean, p.variance, slowest) > p.bound)
            cost += p.w_res * float(np.dot(k, p.price))
            if t < len(course) and course[t][1]:
                k[course[t][0]] += course[t][1]
                cost += p.w_rcf
                if min(k) < 0 or not 1 <= sum(k) <= p.k_max:
                    break
        else:
            best = min(best, cost)
    return best / len(rates)


@pytest.mark.parametrize("seed", range(3))
def test_the_floor_of_a_world_that_changes_equals_brute_force(seed: int) -> None:
    weights = Weights(0.5, 0.05, 0.45)
    before = make_task(types=2, k_max=2, weights=weights, normaliser=4.0)
    dearer = tuple(NodeType(t.name, t.speedup, t.price * f) for t, f in zip(before.types, (0.2, 3.0), strict=True))
    after = replace(before, types=dearer)
    rates = np.random.default_rng(seed).uniform(20.0, 330.0, 6)
    whole, tail = shifted_floors([Stretch(before, rates[:3]), Stretch(after, rates[3:])])
    assert whole.exact
    assert whole.lower == pytest.approx(search([before] * 3 + [after] * 3, rates, (1, 0)), rel=1e-12)
    starts = [(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)]
    assert tail.lower == pytest.approx(min(search([after] * 3, rates[3:], start) for start in starts), rel=1e-12)
    assert whole.lower != pytest.approx(clairvoyant_floor(before, rates).lower)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_world_that_stays_has_the_clairvoyant_s_floor(depth: int) -> None:
    task, rates = make_task(), make_rates(400)
    cut = [Stretch(task, part) for part in (rates[:150], rates[150:150], rates[150:])]
    whole, _, tail = shifted_floors(cut, depth)
    assert whole.lower == pytest.approx(clairvoyant_floor(task, rates, depth=depth).lower, rel=1e-12)
    assert tail.lower <= clairvoyant_floor(task, rates[150:], depth=depth).lower
    with pytest.raises(BadInput, match="the same node speeds"):
        shifted_floors([Stretch(task, rates), Stretch(make_task(types=2), rates)])


def state(slots: int = 5000, n_res: int = 3, **tables: Any) -> Setting:
    flags = {"trace": {"slots": slots}, "infrastructure": {"n_res": n_res}, "policy": {"names": ["static"]}, **tables}
    return read_scenario(None, flags).settings[0]


@pytest.mark.parametrize("shift", SHIFTS)
def test_after_a_change_no_policy_costs_less_than_the_floor_either(tmp_path: Path, shift: str) -> None:
    result = stand(tmp_path, LONG, shift=shift)
    for row in result.rows:
        assert row.times_floor is not None
        assert row.times_floor_after is not None
        assert row.times_floor.mean >= 1.0
        assert row.times_floor_after.mean >= 1.0


def test_each_change_is_what_it_says() -> None:
    setting = state(highest := 5000, trace={"slots": 5000, "highest_rate": 700.0})
    rates = setting.trace.rates
    doubled = apply_shift("rate-doubles", setting)
    assert doubled.setting.highest_rate == 1400.0
    assert np.array_equal(doubled.setting.trace.rates / rates, np.repeat([1.0, 2.0], highest // 2))
    day = apply_shift("day-shifts", setting).setting.trace.rates
    assert np.array_equal(day[:2500], rates[:2500])
    assert np.array_equal(day[2500:], rates[2500 - 360 : 5000 - 360])
    assert price_factors("prices-rise", setting) == [100.0, 1.0, 100.0]  # all but A2, as published
    assert price_factors("type-disappears", setting) == [1.0, 1000.0, 1.0]
    slow = apply_shift("service-doubles", setting)
    assert slow.shift is not None
    assert not slow.shift.announced
    (before,), (after,) = setting.application.operators, slow.shift.setting.application.operators
    assert (after.moments.mean, after.moments.variance) == (2 * before.moments.mean, 4 * before.moments.variance)
    assert {apply_shift(name, setting).tail for name in SHIFTS} == {2500 + SETTLING}


def price_factors(shift: str, setting: Setting) -> list[float]:
    changed = apply_shift(shift, setting).shift
    assert changed is not None
    late = changed.setting
    assert late.infrastructure.normaliser_price == setting.infrastructure.normaliser_price
    types = zip(late.infrastructure.types, setting.infrastructure.types, strict=True)
    return [pytest.approx(new.price / old.price) for new, old in types]


def test_the_last_part_is_charged_at_its_own_prices() -> None:
    setting = state(infrastructure={"n_res": 2}, trace={"slots": 5000, "low": 1.0, "high": 2.0})
    world = apply_shift("prices-rise", setting)
    outcome = replay(ReplayJob(world.setting, 0, shift=world.shift, tail=world.tail))
    one_replica = 0.2 * 1.0 / (10 * 2.0)  # weight, price, C_max of infrastructure A
    assert outcome.tail_cost == pytest.approx(100.0 * one_replica)
    assert outcome.run.cost == pytest.approx((1.0 + 100.0) / 2.0 * one_replica)
    assert outcome.run.timeline is None
    assert replay(ReplayJob(setting, 0)).tail_cost is None


@pytest.mark.parametrize(
    ("shift", "changes", "sentence"),
    [
        ("rate-doubles", {"slots": 4001}, "has 4001 slots; --shift needs more than 4001"),
        ("prices-rise", {"n_res": 1}, "has one node type here"),
    ],
)
def test_a_world_that_cannot_change_so_is_refused(shift: str, changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        apply_shift(shift, state(**changes))
    with pytest.raises(BadInput, match="only with 12 hours"):
        apply_shift("day-shifts", state(trace={"slots": 5000, "step_s": 1.0}))


def test_several_operators_and_a_backlog_have_no_floor() -> None:
    assert lone_task(state()) is not None
    for tables in ({"application": {"builtin": "pipeline"}}, {"run": {"plant": "backlog"}}):
        assert lone_task(state(**tables)) is None
    bounds = {"qos": {"bounds": {"operator": 0.04}}}  # a violation is then another one than the policies'
    assert lone_task(state(**bounds)) is None


@pytest.mark.parametrize(
    "stated", [{"prices": [1.0, 2.0]}, {"capacity": 2}, {"start_s": [20.0]}, {"lost_per_hour": 0.5}]
)
def test_supply_that_is_not_simple_has_no_floor(stated: dict[str, Any]) -> None:
    """Start-ups and losses need a plant that knows time, which has no floor of its own."""
    plant = "memoryless" if {"prices", "capacity"} & set(stated) else "backlog"
    node = {"name": "a", "speedup": 1.0, "price": 1.0}
    for more, known in (({}, plant == "memoryless"), (stated, False)):
        infrastructure = {"node": [{**node, **more}]}
        setting = state(infrastructure=infrastructure, run={"plant": plant})
        assert (lone_task(setting) is not None) == known
        assert is_supply_simple(setting) == (not more)


DAY = SMALL.partition("[[workload]]")[2].partition("[[workload]]")[0]
BAD = {
    "no workload": ("seeds = 1", "has no workload; head at least one with [[workload]]"),
    "no trace": ("[[workload]]\nname = 'x'", "[[workload]] x has no trace"),
    "no name": ("[[workload]]\ntrace = {}", "[[workload]] 1 has no name"),
    "a key": (SMALL.replace("k_max", "k_mx"), "did you mean 'k_max'?"),
    "a trace's key": (SMALL.replace("low =", "lo ="), "[[workload]] day, trace lo: there is no such key"),
    "a generator": (SMALL.replace('"diurnal"', '"lunar"'), "there is no generator 'lunar'"),
    "a file": (SMALL.replace('generator = "diurnal"', 'file = "nope.csv"').replace(", low = 50.0, high = 600.0", ""),
               "nope.csv cannot be read"),
    "two sources": (SMALL.replace("low = 50.0, high = 600.0", 'file = "x.csv"'), "file and generator, and must have"),
    "a policy": (SMALL.replace('"static"', '"nope"'), "plan.toml, policies: there is no policy 'nope'"),
    "no policy": (SMALL.replace('"threshold-c", "static"', ""), "plan.toml, policies is empty"),
    "an option": ("[options]\nx = 1\n" + SMALL.replace(SMALL.partition("\n\n")[0], ""), "has an option 'x'"),
    "a size": (SMALL.replace("[2, 3]", "[2, 11]"), "plan.toml, n_res: infrastructure A: n_res is 11"),
    "a size twice": (SMALL.replace("[2, 3]", "[2, 2]"), "plan.toml, n_res: 2 is there twice"),
    "no replicas": (SMALL.replace("k_max = 4", "k_max = 0"), "plan.toml, k_max with "),
    "an infrastructure": (SMALL.replace('["A"]', '["Z"]'), "there is no infrastructure 'Z'"),
    "nodes in no file": (SMALL.replace('["A"]', '["z.toml"]'), "z.toml cannot be read"),
    "a graph": (SMALL.replace('"pipeline"', '"pipe"'), "<b>graph</b>, application: there is no application"),
    "weights": ("weights = { perf = 1.0 }\n" + SMALL, "weights for perf, and must be for perf, rcf and res"),
    "heavy weights": ("weights = { perf = 1.0, rcf = 1.0, res = 1.0 }\n" + SMALL, "sum to 3, and must sum to 1"),
    "no seeds": (SMALL.replace("seeds = 2", "seeds = 0"), "plan.toml, seeds: there are no seeds"),
    "a bound": ("r_max = 0\n" + SMALL, "R_max is 0"),
    "a plant": ("plant = 'nope'\n" + SMALL, "plan.toml: there is no plant 'nope'"),
    "a workload twice": (SMALL.replace("<b>graph</b>", "day"), "day is there twice"),
    "one application twice": ("[[application]]\n[[application]]\n[[workload]]" + DAY, "day A N3 K10 is there twice"),
    "no TOML": ("x = ", "is not TOML"),
}  # fmt: skip


@pytest.mark.parametrize("why", BAD)
def test_a_bad_plan_gets_one_sentence_exit_code_2_and_nothing_is_written(tmp_path: Path, why: str) -> None:
    text, sentence = BAD[why]
    path = write(tmp_path, text)
    result = run(str(path), "--html", str(tmp_path / "page.html"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["plan.toml"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "neither says what to compare"),
        ("plan.toml --published", "both say what to compare"),
        ("plan.toml --traces .", "give it with that"),
        ("nope.toml", "nope.toml cannot be read"),
        ("plan.toml --policy nope", "--policy: there is no policy 'nope'"),
        ("plan.toml --seeds 0", "--seeds: there are no seeds"),
        ("plan.toml --n-res 99", "--n-res: infrastructure A: n_res is 99"),
        ("plan.toml --option x=1", "--option: none of threshold-c, static has an option 'x'"),
        ("plan.toml --shift rate-doubles", "--shift needs more than 4001"),
        ("plan.toml --shift nope", "'nope' is not one of"),
        ("plan.toml --html nowhere/page.html", "there is no folder nowhere"),
        ("--published --traces nowhere", "taxi.txt.gz is not there"),
    ],
)
def test_mistaken_arguments_get_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, sentence: str
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    result = run(*arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_the_example_in_the_help_is_a_plan(tmp_path: Path) -> None:
    plan = read_plan(write(tmp_path, EXAMPLE))
    assert len(plan.cells) == 2 * 2 * 2
    assert plan.seeds == (0, 1, 2)
    assert all(line in run("--help").stdout for line in EXAMPLE.splitlines())


def test_files_are_found_from_the_plan_s_folder(tmp_path: Path) -> None:
    (tmp_path / "rates.csv").write_text("rate\n10\n20\n")
    (tmp_path / "cloud.toml").write_text("name = 'mine'\n[[node]]\nname = 'a'\nspeedup = 1\nprice = 1\n")
    text = "infrastructures = ['cloud.toml']\n[[workload]]\nname = 'w'\ntrace = { file = 'rates.csv' }\n"
    (cell,) = read_plan(write(tmp_path, text)).cells
    assert cell.name == "w cloud N1 K10"
    assert cell.world.setting.trace.rates.tolist() == [10.0, 20.0]


def test_applications_of_the_plan_meet_every_workload_without_its_own(tmp_path: Path) -> None:
    text = "[[application]]\nbuiltin = 'diamond'\n[[application]]\nservice_rate = 90\n" + SMALL.partition("\n\n")[2]
    cells = read_plan(write(tmp_path, text)).cells
    assert [cell.application for cell in cells] == ["diamond", "single", "pipeline"]
    assert cells[1].world.setting.application.operators[0].moments.mean == pytest.approx(1 / 90)


def test_the_published_settings_are_24_with_their_best() -> None:
    best = list_published()
    assert len(best) == 24
    assert best["taxi", "A", 3, 10].cost == pytest.approx(0.0366, abs=1e-4)
    assert {size[0] for size in best} == {"taxi", "tweets"}


@needs_traces
def test_published_settings_are_those_of_the_tables() -> None:
    plan = plan_published(TRACES, {"n_res": [3, 10], "k_max": [10]})
    assert [cell.name for cell in plan.cells[:4]] == [
        "taxi A N3 K10",
        "taxi A N10 K10",
        "taxi B N3 K10",
        "taxi B N10 K10",
    ]
    assert [cell.world.setting.infrastructure.name for cell in plan.cells[2:4]] == ["B", "B-earlier"]
    assert set(plan.policies) <= set(POLICIES)
    assert {cell.published is None for cell in plan_published(TRACES, {}, "rate-doubles").cells} == {True}
    with pytest.raises(BadInput, match="leave no published setting"):
        plan_published(TRACES, {"n_res": [4]})


@needs_traces
@pytest.mark.slow
def test_the_published_threshold_is_reached_where_it_starts_as_ours_does() -> None:
    plan = plan_published(TRACES, {"policies": ["threshold-c"], "n_res": [3], "k_max": [10]})
    only = replace(plan, cells=tuple(cell for cell in plan.cells if cell.name == "taxi A N3 K10"))
    result = run_benchmark(only, ignore)
    (row,) = result.rows
    assert row.times_published_best == pytest.approx(1.0, abs=2e-3)
    assert result.summaries[0].cells_as_cheap_as_published == 1


def test_workers_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: BenchmarkPlan = read_plan(write(tmp_path))
    here = run_benchmark(plan, ignore, tmp_path / "a")
    monkeypatch.setattr("tuner.simulation.runner.PATIENCE_S", 0.0)
    shares: list[float] = []
    there = run_benchmark(plan, shares.append, tmp_path / "b")
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert [(row.policy, row.cost, row.floor) for row in there.rows] == [
        (row.policy, row.cost, row.floor) for row in here.rows
    ]


def test_ctrl_c_is_one_line_and_leaves_no_page(tmp_path: Path) -> None:
    write(tmp_path, "policies = ['ql']\n[[workload]]\nname = 'w'\ntrace = { generator = 'diurnal', slots = 300000 }\n")
    process = piped("lab", "compare", "plan.toml", "--seeds", "500", "--html", "page.html", folder=tmp_path)
    wait_until_it_works(process)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "", "Interrupted.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["plan.toml"]


def test_simulate_leaves_the_floor_out_when_told_or_when_it_would_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def heads(*flags: str) -> str:
        result = CliRunner().invoke(main, ["simulate", "--slots", "200", "--policy", "static", *flags])
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()[0]

    assert "x floor" in heads()
    assert "x floor" not in heads("--no-floor")
    monkeypatch.setattr(tuner.simulation.comparison, "QUICK_FLOOR", 199)
    assert "x floor" not in heads()
    assert "x floor" in heads("--floor")


@pytest.mark.parametrize("policy", ["static", "planner"])
def test_micro_batches_are_warmed_up_and_replayed(policy: str) -> None:
    setting = make_toy(policy, "batches")
    assert replay(ReplayJob(setting, 0)).run.slots == 3
