"""Scenario files and flags make settings, or one sentence that names the place."""

from __future__ import annotations

import inspect
import string
import tomllib
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.hold import HoldTime, HoldTimes
from sim.application import parse_application
from sim.arrivals import GENERATORS
from sim.migration import Migration
from sim.setting import tasks
from sim.toml_table import format_document
from tuner.scenario.document import describe_application
from tuner.scenario.layout import DEFAULTS, FLAGS, KINDS, SOURCES
from tuner.scenario.scenario import ANNOTATED, read_scenario

SHORT: dict[str, dict[str, Any]] = {"trace": {"slots": 50}}
NODES = """
[[infrastructure.node]]
name = "small"
speedup = 1.0
price = 1.0
[[infrastructure.node]]
name = "large"
speedup = 2.0
price = 1.5
"""
OPERATORS = """
[[application.operator]]
name = "split"
service_rate = 100
scv = 0.5
[[application.operator]]
name = "count"
service_rate = 200
scv = 0.5
k_max = 4
[[application.edge]]
from = "split"
to = "count"
"""
CSV = "time,rate\n2026-01-01T00:00,1\n2026-01-01T00:01,2\n2026-01-01T00:02,3\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "rates.csv").write_text(CSV)
    (tmp_path / "hole.csv").write_text(CSV + "2026-01-01T00:05,4\n2026-01-01T00:06,4\n")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "scenario.toml"
    path.write_text(text)
    return path


def test_with_nothing_stated_there_is_a_default_for_everything() -> None:
    scenario = read_scenario()
    assert scenario.policies == tuple(DEFAULTS["policy"]["names"])
    assert scenario.seeds == (0,)
    assert scenario.settings[0].trace.rates.size == 20_160
    assert len(scenario.settings[0].infrastructure.types) == 3


def test_a_file_states_everything_and_its_paths_are_relative_to_it(place: Path) -> None:
    text = f"""
    [trace]
    file = "rates.csv"
    slots = 2
    highest_rate = 9.0
    [qos]
    r_max = 0.2
    quantile = 0.95
    bounds = {{ split = 0.15 }}
    [weights]
    perf = 0.5
    rcf = 0.25
    res = 0.25
    [policy]
    names = ["static", "threshold-c"]
    options = {{ threshold = 0.6 }}
    [run]
    seeds = [3, 5]
    plant = "backlog"
    pause_s = 1.0
    levels = 7
    gamma = 0.9
    {OPERATORS}{NODES}
    """
    scenario = read_scenario(write(place, text))
    static, threshold = scenario.settings
    assert (scenario.name, scenario.seeds, scenario.policies) == ("scenario", (3, 5), ("static", "threshold-c"))
    assert (static.options, threshold.options) == ({}, {"threshold": 0.6})
    assert [task.quantile for task in tasks(static)] == [0.95, 0.95]
    assert static.trace.rates.tolist() == [1.0, 2.0]
    assert static.trace.start == datetime(2026, 1, 1, tzinfo=UTC)
    assert [node.name for node in static.infrastructure.types] == ["small", "large"]
    assert [operator.k_max for operator in static.application.operators] == [10, 4]
    assert (static.weights.performance, static.weights.reconfiguration, static.weights.resources) == (0.5, 0.25, 0.25)
    assert (static.plant, static.inertia.pause_s, static.inertia.slot_s) == ("backlog", 1.0, 60.0)
    split, count = tasks(static)
    assert (split.bound, count.bound) == (0.15, 0.1)
    assert (split.highest_rate, split.levels, split.gamma) == (9.0, 7, 0.9)


def test_files_of_an_application_and_an_infrastructure(place: Path) -> None:
    (place / "graph.toml").write_text(OPERATORS.replace("application.", ""))
    (place / "nodes.toml").write_text('name = "mine"' + NODES.replace("infrastructure.", ""))
    text = '[application]\nfile = "graph.toml"\nk_max = 3\n[infrastructure]\nfile = "nodes.toml"\nn_res = 1\n'
    setting = read_scenario(write(place, text), SHORT).settings[0]
    assert [operator.k_max for operator in setting.application.operators] == [3, 3]
    assert [node.name for node in setting.infrastructure.types] == ["small"]


def test_flags_replace_single_keys_and_another_source_replaces_the_table(place: Path) -> None:
    path = write(
        place, '[trace]\nfile = "rates.csv"\nslots = 2\n[policy]\nname = "ql-pds"\noptions.as_published = true'
    )
    shorter = read_scenario(path, {"trace": {"slots": 1}})
    assert shorter.settings[0].trace.rates.tolist() == [1.0]
    assert shorter.settings[0].options == {"as_published": True}
    other = read_scenario(path, {"trace": {"generator": "poisson", "mean_rate": 5.0}, "policy": {"names": ["static"]}})
    assert other.settings[0].trace.rates.size == 20_160
    assert other.policies == ("static",)
    assert other.settings[0].options == {}


def test_the_length_of_a_slot_is_the_trace_s_step_unless_stated(place: Path) -> None:
    five = {"trace": {"slots": 50, "step_s": 300.0}}
    assert read_scenario(None, five).settings[0].inertia.slot_s == 300.0
    assert read_scenario(None, five | {"run": {"slot_s": 30.0}}).settings[0].inertia.slot_s == 30.0


@pytest.mark.parametrize(("seeds", "expected"), [(3, (0, 1, 2)), ([7], (7,)), ([2, 0], (2, 0))])
def test_seeds_are_named_or_counted(seeds: Any, expected: tuple[int, ...]) -> None:
    assert read_scenario(None, SHORT | {"run": {"seeds": seeds}}).seeds == expected


@pytest.mark.parametrize("start", [date(2026, 3, 1), datetime(2026, 3, 1), datetime(2026, 3, 1, tzinfo=UTC)])
def test_a_start_without_an_offset_is_in_utc(start: date) -> None:
    trace = read_scenario(None, {"trace": {"slots": 50, "start": start}}).settings[0].trace
    assert trace.start == datetime(2026, 3, 1, tzinfo=UTC)


BAD_FILES = {
    "[weigths]\nperf = 1": r"scenario.toml, \[weigths\]: .* 'weights'",
    "[weights]\nperv = 1": r"scenario.toml, \[weights\] perv: .* 'perf'",
    "[run]\nlewels = 3": r"\[run\] lewels: .* 'levels'",
    "run = 3": r"\[run\] is 3, and must be a table",
    "[run]\nseeds = 'x'": r"\[run\] seeds is 'x', and must be a whole number or a list",
    "[run]\nlevels = 2.5": r"\[run\] levels is 2.5, and must be a whole number",
    "[run]\nlevels = true": r"\[run\] levels is true",
    "[run]\ngamma = 1.5": r"scenario.toml: gamma is 1.5",
    "[run]\nplant = 'x'": r"scenario.toml: .* plant 'x'; choose one of memoryless, backlog, batches",
    "[run]\nmigration = 'teleport'": r"\[run\]: there is no migration 'teleport'; choose one of none, stop, pause",
    "[run]\nmigration = {kind = 'pause', sped = 1}": r"\[run\]: migration, sped: there is no such key",
    "[run]\nmigration = {bins = 4}": r"\[run\]: migration, kind is missing",
    "[run]\nmigration = 'spark'": r"scenario.toml: the migration is spark, and in the plant memoryless nothing waits",
    OPERATORS.replace("k_max = 4", "k_max = 4\nstate_bytes = 1e6"): r"'count': .* size without partitions",
    OPERATORS.replace("k_max = 4", "k_max = 4\nhold = {out = {each_s = 1}}"): r"hold, out: base_s is missing",
    OPERATORS.replace("k_max = 4", "k_max = 4\nhold = {in = {base_s = -1}}"): r"hold: a reconfiguration holds -1",
    OPERATORS.replace("k_max = 4", "k_max = 4\nstateful = true")
    + "[run]\nplant = 'backlog'\nmigration = 'pause'": r"state of operator 'count', which is stateful; give it",
    "[run]\nslot_s = -1": r"\[run\]: the slot is -1 s long",
    "[run]\nseeds = []": r"\[run\]: there are no seeds",
    "[run]\nseeds = [1, 1]": r"\[run\]: the seeds are 1, 1",
    "[weights]\nperf = 0.9": r"\[weights\]: .* sum to 1.3, and must sum to 1",
    "[weights]\nperf = nan": r"\[weights\] perf is nan",
    "[weights]\nperf = '1'": r"\[weights\] perf is '1', and must be a finite number",
    "[qos]\nr_max = 0": r"R_max is 0",
    "[qos]\nquantile = 1": r"\[qos\]: the quantile is 1, and must be 0.5 to 0.999, as 0.95 is for p95; leave it out",
    "[qos]\nquantile = 95.0": r"\[qos\]: the quantile is 95, and must be 0.5 to 0.999",
    "[qos]\nquantile = 'p95'": r"\[qos\] quantile is 'p95', and must be a finite number",
    "[qos.bounds]\noparator = 0.1": r"'oparator'; did you mean 'operator'",
    "[policy]\nname = 'nope'": r"\[policy\]: there is no policy 'nope'; choose one of static",
    "[policy]\nnames = []": r"\[policy\]: there is no policy",
    "[policy]\nname = 'ql'\nnames = ['ql']": r"\[policy\] has name and names",
    "[policy]\nname = 'static'\noptions.x = 1": r"\[policy\]: static has no option 'x'",
    "[policy]\nnames = ['static', 'threshold-c']\noptions.treshold = 1": r"option 'treshold'; did you mean 'threshold'",
    "[policy]\nname = 'threshold-c'\noptions.threshold = 'x'": r"option 'threshold' is 'x', and must be a number",
    "[application]\nbuiltin = 'nope'": r"\[application\]: there is no application 'nope'",
    "[application]\nk_max = 0": r"\[application\]: operator 'operator': k_max is 0",
    "[application]\nfile = 'nope.toml'": r"\[application\]: .*nope.toml cannot be read",
    "[application]\nbuiltin = 'pipeline'\nservice_rate = 5": r"\[application\]: .*pipeline.*service_rate",
    NODES.replace("large", "small"): r"\[infrastructure\]: node 'small' is named twice",
    NODES.replace("2.0", "0.0"): r"\[infrastructure\]: .*'large': speedup is 0.0",
    NODES.replace("1.5", "0"): r"\[infrastructure\]: .*'large': price is 0",
    NODES.replace("price", "prize"): r"\[infrastructure\]: node 'small': prize: there is no such key here; did you",
    "[infrastructure]\nnode = 3": r"\[infrastructure\] node is 3, and must be a list of tables",
    "[infrastructure]\nn_res = 99": r"\[infrastructure\]: .*n_res is 99",
    "[infrastructure]\nn_res = 9" + NODES: r"\[infrastructure\]: n_res is 9, and must be from 1 to 2",
    "[infrastructure]\nfirst = 'A9'": r"scenario.toml: .*'A9'",
    "[trace]\nfile = 'nope.csv'": r"\[trace\]: .*nope.csv cannot be read",
    "[trace]\nfile = 'hole.csv'": r"\[trace\]: .*hole.csv, line 5: the time is 180 s after",
    "[trace]\nfile = 'rates.csv'\nslots = 4": r"\[trace\]: slots is 4, and must be from 1 to 3",
    "[trace]\nfile = 'rates.csv'\nlow = 4": r"\[trace\] low: there is no such key",
    "[trace]\nfile = 'rates.csv'\ngenerator = 'step'": r"\[trace\] has file and generator",
    "[trace]\nfile = 'rates.csv'\nhighest_rate = -1": r"\[trace\]: highest_rate is -1",
    "[trace]\ngenerator = 'nope'": r"\[trace\]: there is no generator 'nope'",
    "[trace]\ngenerator = 'poisson'": r"\[trace\]: .* needs the parameter 'mean_rate'",
    "[trace]\ngenerator = 'poisson'\nmaen_rate = 1": r"\[trace\] maen_rate: .* 'mean_rate'",
    "[trace]\ngenerator = 'mmpp'\nrates = 3": r"\[trace\] rates is 3, and must be a list",
    "[trace]\nhigh = -1": r"\[trace\]: high is -1",
    "[trace]\nstart = 'x'": r"\[trace\] start is 'x', and must be a date",
    "x = [": "is not TOML",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_bad_file_gets_one_sentence_that_names_the_place(place: Path, text: str) -> None:
    with pytest.raises(BadInput, match=BAD_FILES[text]) as caught:
        read_scenario(write(place, text))
    assert "scenario.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


BAD_FLAGS: list[tuple[dict[str, dict[str, Any]], str]] = [
    ({"weights": {"perf": 0.5, "rcf": 0.2, "res": 0.2}}, "^--weights: .* sum to 0.9"),
    ({"policy": {"names": ["nope"]}}, "^--policy: there is no policy"),
    ({"application": {"k_max": 0}}, "^--k-max: .*k_max is 0"),
    ({"infrastructure": {"name": "C"}}, "^--infrastructure: there is no infrastructure 'C'"),
    ({"trace": {"mean_rate": "x"}}, "^--parameter mean_rate is 'x'"),
    ({"trace": {"meen_rate": 3}}, "^--parameter meen_rate: .* 'mean_rate'"),
    ({"qos": {"r_max": float("nan")}}, "^--r-max is nan"),
    ({"qos": {"quantile": 0.3}}, "^--quantile: the quantile is 0.3"),
]


@pytest.mark.parametrize(("flags", "sentence"), BAD_FLAGS)
def test_a_bad_flag_is_named(flags: dict[str, dict[str, Any]], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_scenario(None, flags)


def test_the_document_of_a_scenario_gives_the_same_scenario_again(place: Path) -> None:
    state = "stateful = true\nstate_bytes = 5e8\nstate_growth = 8\npartitions = 48\n"
    state += "hold = {out = {base_s = 2.5, each_s = 0.5, events = 7}, in = {base_s = 1}}\n"
    run = "[run]\nseeds = 2\nplant = 'backlog'\nmigration = {kind = 'progressive', bins = 64}\n"
    operators = OPERATORS.replace("k_max = 4\n", "k_max = 4\n" + state)
    first = read_scenario(write(place, operators + NODES + '[trace]\nfile = "rates.csv"\n' + run))
    last = first.settings[0].application.operators[-1]
    assert (last.state_bytes, last.partitions, last.state_growth) == (5e8, 48, 8.0)
    assert last.hold == HoldTimes(HoldTime(2.5, 0.5, 7), HoldTime(1.0))
    assert first.settings[0].migration == Migration("progressive", bins=64)
    assert parse_application(describe_application(first.settings[0].application)) == first.settings[0].application
    again = read_scenario(write(place, format_document(first.document)))
    assert again == first
    assert np.array_equal(again.settings[0].trace.rates, first.settings[0].trace.rates)


keys = st.text(string.ascii_letters + "_-. é", min_size=1, max_size=6)
scalars = (
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.dates() | st.text(max_size=8)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=9
)


def has_inline_tables(value: Any, inside_list: bool = False) -> bool:
    """Whether a table stands in a list beside or within others: nothing that a scenario has."""
    if isinstance(value, dict):
        return inside_list or any(has_inline_tables(v) for v in value.values())
    return isinstance(value, list) and any(has_inline_tables(v, True) for v in value)


@given(
    st.dictionaries(
        keys, values | st.lists(st.dictionaries(keys, scalars, max_size=3), min_size=1, max_size=3), max_size=4
    )
)
def test_a_document_written_as_toml_reads_back_the_same(document: dict[str, Any]) -> None:
    def plain(value: Any) -> bool:
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            return not any(has_inline_tables(list(one.values())) for one in value)
        return not has_inline_tables(value)

    document = {key: value for key, value in document.items() if plain(value)}
    assert tomllib.loads(format_document(document)) == document


def test_the_layout_covers_itself_and_every_generator() -> None:
    for table, values in DEFAULTS.items():
        assert values.keys() <= KINDS[table].keys() | {"low", "high"}
    assert all(FLAGS[table].keys() <= KINDS[table].keys() for table in FLAGS)
    assert all(key in KINDS[table] for table, sources in SOURCES.items() for key in sources)
    for generator in GENERATORS.values():
        for parameter in inspect.signature(generator).parameters.values():
            assert parameter.annotation in ANNOTATED
