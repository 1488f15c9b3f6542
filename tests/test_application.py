"""Applications: laws of any acyclic graph against brute force, TOML files, and the sentence each bad one gets."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.task import Moments
from sim.application import (
    Application,
    Edge,
    Operator,
    equal_shares,
    order,
    parse_application,
    paths,
    read_application,
    upstream,
)
from sim.graphs import APPLICATIONS, find_application

MOMENTS = Moments(0.01, 0.0)
PARAMETERS: dict[str, dict[str, Any]] = {"single": {"service_rate": 180.0}}
WORDS = """
name = "words"
[[operator]]
name = "split"
service_rate = 200
scv = 0.5
selectivity = 5.0
[[operator]]
name = "count"
service_time = 0.01
variance = 0.0003
k_max = 20
stateful = true
[[edge]]
from = "split"
to = "count"
selectivity = 0.4
"""


def build(names: str, *ends: str, sources: dict[str, float] | None = None) -> Application:
    """One operator a letter, one edge a pair of letters."""
    return Application(tuple(Operator(n, MOMENTS) for n in names), tuple(Edge(*pair) for pair in ends), sources or {})


def put(folder: Path, text: str) -> Path:
    path = folder / "app.toml"
    path.write_text(text)
    return path


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Application, list[int]]:
    """Any acyclic graph of up to seven operators, and the hidden order that its edges follow."""
    hidden = draw(st.permutations(range(draw(st.integers(1, 7)))))
    pairs = list(itertools.combinations(hidden, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    letters = "abcdefg"[: len(hidden)]
    return build(letters, *(letters[i] + letters[j] for i, j in chosen)), list(hidden)


def index_edges(application: Application) -> set[tuple[int, int]]:
    names = [operator.name for operator in application.operators]
    return {(names.index(edge.upstream), names.index(edge.downstream)) for edge in application.edges}


def enumerate_paths(application: Application, hidden: list[int]) -> Iterator[tuple[int, ...]]:
    """Of all sets of operators, those that a chain of edges runs through from a source to a sink."""
    edges = index_edges(application)
    for size in range(1, len(hidden) + 1):
        for path in itertools.combinations(hidden, size):
            joined = all(pair in edges for pair in itertools.pairwise(path))
            begins = not any(j == path[0] for _, j in edges)
            ends = not any(i == path[-1] for i, _ in edges)
            if joined and begins and ends:
                yield path


@given(graphs())
def test_an_order_puts_upstream_first(graph: tuple[Application, list[int]]) -> None:
    application, _ = graph
    sequence = order(application)
    assert sorted(sequence) == list(range(len(application.operators)))
    assert all(sequence.index(i) < sequence.index(j) for i, j in index_edges(application))


@given(graphs())
def test_an_order_keeps_what_is_stated_where_it_may(graph: tuple[Application, list[int]]) -> None:
    application, _ = graph
    edges, done = index_edges(application), []
    for i in order(application):
        ready = [j for j in range(len(application.operators)) if j not in done]
        ready = [j for j in ready if all(up in done for up, down in edges if down == j)]
        assert i == min(ready)
        done.append(i)


@given(graphs())
def test_paths_are_all_from_source_to_sink(graph: tuple[Application, list[int]]) -> None:
    application, hidden = graph
    found = paths(application)
    assert len(set(found)) == len(found)
    assert set(found) == set(enumerate_paths(application, hidden))


@given(graphs(), st.floats(1e-3, 10.0))
def test_equal_shares_fill_the_longest_path_and_overrun_none(
    graph: tuple[Application, list[int]], r_max: float
) -> None:
    application, hidden = graph
    routes = list(enumerate_paths(application, hidden))
    shares = equal_shares(application, r_max)
    for i, operator in enumerate(application.operators):
        assert shares[operator.name] == pytest.approx(r_max / max(len(route) for route in routes if i in route))
    sums = [sum(shares[application.operators[i].name] for i in route) for route in routes]
    assert max(sums) == pytest.approx(r_max)


@given(graphs())
def test_every_source_gets_the_external_rate(graph: tuple[Application, list[int]]) -> None:
    application, _ = graph
    fed = {j for _, j in index_edges(application)}
    assert application.sources == {o.name: 1.0 for i, o in enumerate(application.operators) if i not in fed}
    assert [i for i, feeds in enumerate(upstream(application)) if not feeds] == [
        i for i in range(len(application.operators)) if i not in fed
    ]


@given(graphs(), st.data())
def test_any_edge_backwards_is_a_cycle_and_named(graph: tuple[Application, list[int]], data: st.DataObject) -> None:
    application, hidden = graph
    long = [path for path in enumerate_paths(application, hidden) if len(path) > 1]
    if not long:
        return
    path = data.draw(st.sampled_from(long))
    first, last = sorted(data.draw(st.lists(st.integers(0, len(path) - 1), min_size=2, max_size=2, unique=True)))
    names = [operator.name for operator in application.operators]
    back = Edge(names[path[last]], names[path[first]])
    with pytest.raises(BadInput, match=r"the edges form a cycle, .*, and must not; take one of them out") as refused:
        Application(application.operators, (*application.edges, back))
    named = str(refused.value).split(", ")[1].split(" -> ")
    pairs = {(edge.upstream, edge.downstream) for edge in (*application.edges, back)}
    assert all(pair in pairs for pair in itertools.pairwise(named))
    assert named[0] == named[-1] == min(named)
    assert len(set(named)) == len(named) - 1


def test_upstream_weighs_by_both_selectivities() -> None:
    split, rest = Operator("split", MOMENTS, selectivity=5.0), Operator("rest", MOMENTS)
    application = Application((split, rest), (Edge("split", "rest", 0.4),))
    assert upstream(application) == ((), ((0, 2.0),))


def test_sources_share_the_external_rate() -> None:
    application = build("abcd", "ac", "bc", "cd", sources={"a": 0.3})
    assert application.sources == {"a": 0.3, "b": 1.0}


def test_an_application_is_a_value() -> None:
    application = build("abc", "ab", "ac")
    assert application == build("abc", "ab", "ac")
    assert hash(application) == hash(build("abc", "ab", "ac"))
    assert pickle.loads(pickle.dumps(application)) == application


def test_a_long_chain_is_walked() -> None:
    names = [f"o{i}" for i in range(1500)]
    edges = tuple(Edge(a, b) for a, b in itertools.pairwise(names))
    chain = Application(tuple(Operator(name, MOMENTS) for name in names), edges)
    assert paths(chain) == (tuple(range(1500)),)
    assert set(equal_shares(chain, 1.5).values()) == {0.001}


@pytest.mark.parametrize(("layers", "refused"), [(13, False), (14, True), (60, True)])
def test_more_than_ten_thousand_paths_are_refused(layers: int, refused: bool) -> None:
    edges = []
    for i in range(layers):
        for side in "lr":
            edges += [Edge(f"s{i}", f"{side}{i}"), Edge(f"{side}{i}", f"s{i + 1}")]
    names = [f"{side}{i}" for i in range(layers) for side in "slr"] + [f"s{layers}"]
    application = Application(tuple(Operator(name, MOMENTS) for name in names), tuple(edges))
    if refused:
        with pytest.raises(BadInput, match=f"has {2**layers} paths from source to sink, and may have 10000"):
            paths(application)
    else:
        assert len(paths(application)) == 2**layers


@pytest.mark.parametrize(
    ("names", "ends", "said"),
    [
        ("", [], "the application has no operator, and must have at least one"),
        ("aba", [], "operator 'a' is named twice, and each must have a name of its own"),
        ("ab", ["ax"], "edge a -> x: there is no operator 'x'; the operators are a, b"),
        ("ab", ["xb"], "edge x -> b: there is no operator 'x'; the operators are a, b"),
        ("ab", ["aa"], "edge a -> a: an operator cannot feed itself; name two operators"),
        ("ab", ["ab", "ab"], "edge a -> b is there twice, and may be there once"),
        ("abcd", ["ab", "bc", "ca", "cd"], "the edges form a cycle, a -> b -> c -> a, and must not"),
        ("xba", ["xb", "ba", "ab"], "the edges form a cycle, b -> a -> b, and must not"),
    ],
)
def test_a_wrong_graph_is_named(names: str, ends: list[str], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        build(names, *ends)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"b": 1.0}, "sources: 'b' is no operator without upstream; those are a, c"),
        ({"x": 1.0}, "sources: 'x' is no operator without upstream; those are a, c"),
        ({"a": 0.0}, "sources: the share of 'a' is 0.0, and must be a positive number"),
        ({"a": float("nan")}, "sources: the share of 'a' is nan, and must be a positive number"),
        ({"a": float("inf")}, "sources: the share of 'a' is inf, and must be a positive number"),
    ],
)
def test_a_wrong_source_is_named(sources: dict[str, float], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        build("abc", "ab", sources=sources)


@pytest.mark.parametrize("r_max", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bound_that_cannot_be_shared_is_refused(r_max: float) -> None:
    with pytest.raises(BadInput, match=f"R_max is {r_max} s, and must be a positive number"):
        equal_shares(build("a"), r_max)


def test_a_file_gives_its_graph(tmp_path: Path) -> None:
    path = put(tmp_path, WORDS)
    words = read_application(path)
    split, count = words.operators
    assert (split.moments.mean, split.moments.variance) == pytest.approx((0.005, 0.0000125))
    assert (split.k_max, split.selectivity, split.stateful) == (10, 5.0, False)
    assert count == Operator("count", Moments(0.01, 0.0003), 20, 1.0, True)
    assert words.edges == (Edge("split", "count", 0.4),)
    assert (words.name, words.sources) == ("words", {"split": 1.0})
    assert find_application(path) == find_application(str(path)) == words


def test_a_file_may_leave_out_its_name_and_give_shares(tmp_path: Path) -> None:
    path = put(tmp_path, WORDS.replace('name = "words"', "") + "[sources]\nsplit = 0.5\n")
    words = read_application(path)
    assert (words.name, words.sources) == ("app", {"split": 0.5})


def test_a_table_is_enough() -> None:
    application = parse_application({"operator": [{"name": "a", "service_time": 1, "scv": 0}]})
    assert application.operators == (Operator("a", Moments(1.0, 0.0)),)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("scv = 0.5", "", "operator 'split': neither of scv and variance is given; give one of them"),
        ("scv = 0.5", "scv = 0.5\nvariance = 1", "operator 'split': both of scv and variance is given"),
        ("scv = 0.5", "scv = -1", "operator 'split': scv is -1, and must be 0 or more"),
        ("scv = 0.5", "scv = 'a'", "operator 'split': scv is 'a', and must be a finite number"),
        ("service_rate = 200", "", "operator 'split': neither of service_time and service_rate is given"),
        ("service_rate = 200", "service_rate = 0", "operator 'split': service_rate is 0, and must be positive"),
        (
            "service_rate = 200",
            "service_rate = inf",
            "operator 'split': service_rate is inf, and must be a finite",
        ),
        ("service_rate = 200", "rate = 200", "operator 'split': rate: there is no such key here; the keys are name, "),
        ("service_time = 0.01", "service_time = -0.01", "operator 'count': service_time is -0.01, and must be"),
        ("variance = 0.0003", "variance = nan", "operator 'count': variance is nan, and must be a finite number"),
        ("k_max = 20", "k_max = 0", "operator 'count': k_max is 0, and must be at least 1"),
        ("k_max = 20", "k_max = 2.5", "operator 'count': k_max is 2.5, and must be a whole number"),
        ("stateful = true", "stateful = 1", "operator 'count': stateful is 1, and must be true or false"),
        ("selectivity = 5.0", "selectivity = -5", "operator 'split': selectivity is -5.0, and must be 0 or more"),
        ("selectivity = 0.4", "selectivity = -5", "edge split -> count: selectivity is -5.0, and must be 0 or more"),
        ("selectivity = 0.4", "selectivity = ''", "edge 1: selectivity is '', and must be a finite number"),
        (
            "selectivity = 0.4",
            "weight = 1",
            "edge 1: weight: there is no such key here; the keys are from, to",
        ),
        ('from = "split"', "", "edge 1: from is missing, and must be a text"),
        (
            'from = "split"',
            'from = "spilt"',
            "edge spilt -> count: there is no operator 'spilt'; did you mean 'split'?",
        ),
        ('name = "count"', 'name = "split"', "operator 'split' is named twice, and each must have a name of its own"),
        ('name = "count"', "", "operator 2: name is missing, and must be a text"),
        (
            'name = "words"',
            'title = "words"',
            "the application: title: there is no such key here; the keys are name",
        ),
        ('name = "words"', "name = 1", "the application: name is 1, and must be a text"),
        ('name = "words"', "sources = 1", "the application: sources is 1, and must be a table of numbers"),
        (
            'name = "words"',
            "sources = {split = ''}",
            "the application: sources is {'split': ''}, and must be a table of",
        ),
        ('name = "words"', "sources = {count = 1}", "sources: 'count' is no operator without upstream; those are"),
        (
            WORDS,
            "operator = 1",
            "the application: operator is 1, and must be a list of tables; head each one with",
        ),
        (WORDS, "", "the application has no operator, and must have at least one"),
    ],
)
def test_a_wrong_file_gets_a_sentence_that_names_it(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in WORDS
    path = put(tmp_path, WORDS.replace(old, new))
    with pytest.raises(BadInput) as refused:
        read_application(path)
    assert str(refused.value).startswith(f"{path}: {said}")
    assert "\n" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"app\.toml cannot be read \(No such file or directory\); name a TOML file"):
        find_application(tmp_path / "app.toml")
    with pytest.raises(BadInput, match=r"app\.toml is not TOML: .*line 1.*; correct it there"):
        read_application(put(tmp_path, "[[operator]"))


@pytest.mark.parametrize("name", APPLICATIONS)
def test_built_in_graphs_stand_as_the_paper_has_them(name: str) -> None:
    application = find_application(name, **PARAMETERS.get(name, {}), k_max=7)
    assert application.name == name
    for operator in application.operators:
        assert (operator.k_max, operator.selectivity) == (7, 1.0)


@pytest.mark.parametrize(
    ("name", "rates", "routes"),
    [
        ("single", [180.0], {(0,)}),
        ("pipeline", [1000.0, 300.0, 300.0], {(0, 1, 2)}),
        ("diamond", [900.0, 200.0, 300.0, 600.0, 2500.0], {(0, 1, 4), (0, 2, 4), (0, 3, 4)}),
        ("multi-sink", [700.0, 200.0, 300.0, 500.0, 500.0], {(0, 1, 2), (0, 1, 3), (0, 4)}),
    ],
)
def test_built_in_graphs_run_as_drawn(name: str, rates: list[float], routes: set[tuple[int, ...]]) -> None:
    application = find_application(name, **PARAMETERS.get(name, {}))
    assert [1.0 / operator.moments.mean for operator in application.operators] == pytest.approx(rates)
    assert set(paths(application)) == routes


def test_an_unknown_graph_or_parameter_is_named() -> None:
    known = ", ".join(APPLICATIONS)
    with pytest.raises(BadInput, match=rf"no application 'ring'; choose {known} or name a \.toml file"):
        find_application("ring")
    with pytest.raises(BadInput, match="application 'single': missing a required argument: 'service_rate'; it takes"):
        find_application("single")
    with pytest.raises(BadInput, match=r"application 'pipeline': .* 'service_rate'; it takes k_max"):
        find_application("pipeline", service_rate=4.0)
    with pytest.raises(BadInput, match=r"operator 'operator': service_rate is 0\.0, and must be a positive number"):
        find_application("single", service_rate=0.0)
