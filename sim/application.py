"""Applications as directed acyclic graphs of operators: parsing from TOML, topological order, paths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput, suggest
from scaler.model.hold import HoldTimes, parse_hold_times
from scaler.model.micro_batches import MicroBatches, parse_batches
from scaler.model.task import Moments
from sim.migration import check_state
from sim.toml_table import (
    FLAG,
    NUMBER,
    NUMBERS,
    SHARES,
    TABLE,
    TABLES,
    TEXT,
    WHOLE,
    Kind,
    Table,
    check_table,
    name_item,
    read_toml,
)

MAX_PATHS = 10_000
MAX_REPLICAS = 1_000  # of an operator: tables of policies and floors grow with them
OPERATOR: dict[str, Kind] = {
    "name": TEXT,
    "service_time": NUMBER,
    "service_rate": NUMBER,
    "scv": NUMBER,
    "variance": NUMBER,
    "k_min": WHOLE,
    "k_max": WHOLE,
    "selectivity": NUMBER,
    "stateful": FLAG,
    "state_bytes": NUMBER,
    "state_growth": NUMBER,
    "partitions": WHOLE,
    "hold": TABLE,
    "batches": TABLE,
}
HOLD: dict[str, Kind] = {"out": TABLE, "in": TABLE, "load_s": NUMBER}
DIRECTION: dict[str, Kind] = {"base_s": NUMBER, "each_s": NUMBER, "events": WHOLE}
BATCHES: dict[str, Kind] = {
    "trigger_s": NUMBER,
    "overhead_s": NUMBER,
    "work": NUMBER,
    "noise_s": NUMBER,
    "correlation": NUMBER,
    "delay_s": NUMBER,
    "part": NUMBER,
    "partitions": WHOLE,
    "most": NUMBER,
    "merge": FLAG,
    "overhead_curve_s": NUMBERS,
}
EDGE: dict[str, Kind] = {"from": TEXT, "to": TEXT, "selectivity": NUMBER}
APPLICATION: dict[str, Kind] = {"name": TEXT, "operator": TABLES, "edge": TABLES, "sources": SHARES}


@dataclass(frozen=True, slots=True)
class Operator:
    """What one operator does to a tuple; selectivity is tuples out per tuple in."""

    name: str
    moments: Moments
    k_max: int = 10
    selectivity: float = 1.0
    stateful: bool = False
    batches: MicroBatches | None = None  # constants of the plant `batches`
    k_min: int = 1
    state_bytes: float = 0.0
    partitions: int = 0  # that the state lies in
    state_growth: float = 0.0  # bytes per tuple
    hold: HoldTimes | None = None  # of reconfigurations, as measured

    def __post_init__(self) -> None:
        try:
            check_state(self.state_bytes, self.partitions, self.state_growth)
        except BadInput as error:
            raise BadInput(f"operator {self.name!r}: {error}") from error
        if self.k_max < 1:
            raise BadInput(f"operator {self.name!r}: k_max is {self.k_max}, and must be at least 1")
        if self.k_max > MAX_REPLICAS:
            raise BadInput(f"operator {self.name!r}: k_max is {self.k_max:,}, and may be {MAX_REPLICAS:,} at most")
        if not 1 <= self.k_min <= self.k_max:
            raise BadInput(f"operator {self.name!r}: k_min is {self.k_min}, and must be from 1 to k_max, {self.k_max}")
        if not 0.0 <= self.selectivity < math.inf:
            raise BadInput(f"operator {self.name!r}: selectivity is {self.selectivity}, and must be 0 or more")


@dataclass(frozen=True, slots=True)
class Edge:
    """A stream from one operator to the next: of what is put out upstream, `selectivity` times as much arrives."""

    upstream: str
    downstream: str
    selectivity: float = 1.0

    def __post_init__(self) -> None:
        if self.upstream == self.downstream:
            raise BadInput(f"edge {self}: an operator cannot feed itself; name two operators")
        if not 0.0 <= self.selectivity < math.inf:
            raise BadInput(f"edge {self}: selectivity is {self.selectivity}, and must be 0 or more")

    def __str__(self) -> str:
        return f"{self.upstream} -> {self.downstream}"


@dataclass(frozen=True, slots=True)
class Application:
    """Operators and the streams between them; `sources` has the share of the external rate that reaches each source."""

    operators: tuple[Operator, ...]
    edges: tuple[Edge, ...] = ()
    sources: Mapping[str, float] = field(default_factory=dict, hash=False)  # a source left out gets share 1
    name: str = "application"

    def __post_init__(self) -> None:
        check_operators(self.operators)
        check_edges(self)
        order(self)
        object.__setattr__(self, "sources", complete_sources(self))


Neighbours = tuple[tuple[int, ...], ...]


def check_operators(operators: Iterable[Operator]) -> None:
    names = [operator.name for operator in operators]
    if not names:
        raise BadInput("the application has no operator, and must have at least one")
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"operator {name!r} is named twice, and each must have a name of its own")


def check_edges(application: Application) -> None:
    known = [operator.name for operator in application.operators]
    seen = set()
    for edge in application.edges:
        for end in (edge.upstream, edge.downstream):
            if end not in known:
                near = suggest(end, known, "the operators are {}")
                raise BadInput(f"edge {edge}: there is no operator {end!r}; {near}")
        if (edge.upstream, edge.downstream) in seen:
            raise BadInput(f"edge {edge} is there twice, and may be there once")
        seen.add((edge.upstream, edge.downstream))


def complete_sources(application: Application) -> dict[str, float]:
    """Every source's share of the external rate, in the order of the operators."""
    feeds = upstream(application)
    known = [operator.name for i, operator in enumerate(application.operators) if not feeds[i]]
    for name, share in application.sources.items():
        if name not in known:
            raise BadInput(f"sources: {name!r} is no operator without upstream; {suggest(name, known, 'those are {}')}")
        if not 0.0 < share < math.inf:
            raise BadInput(f"sources: the share of {name!r} is {share}, and must be a positive number")
    return {name: float(application.sources.get(name, 1.0)) for name in known}


def upstream(application: Application) -> tuple[tuple[tuple[int, float], ...], ...]:
    """What feeds each operator: an operator's index, and how many tuples arrive for each that one gets through."""
    index = {operator.name: i for i, operator in enumerate(application.operators)}
    feeds: list[list[tuple[int, float]]] = [[] for _ in index]
    for edge in application.edges:
        i = index[edge.upstream]
        feeds[index[edge.downstream]].append((i, application.operators[i].selectivity * edge.selectivity))
    return tuple(map(tuple, feeds))


def neighbours(application: Application) -> tuple[Neighbours, Neighbours]:
    """Indices of the operators before and of those after each operator."""
    before = tuple(tuple(i for i, _ in feeds) for feeds in upstream(application))
    after: list[list[int]] = [[] for _ in before]
    for j, feeds in enumerate(before):
        for i in feeds:
            after[i].append(j)
    return before, tuple(map(tuple, after))


def order(application: Application) -> tuple[int, ...]:
    """Indices of the operators, upstream first; among those that could come next, the one stated first."""
    sorter = TopologicalSorter(dict(enumerate(neighbours(application)[0])))
    try:
        sorter.prepare()
    except CycleError as error:
        cycle = error.args[1][1:]
        first = cycle.index(min(cycle))
        names = " -> ".join(application.operators[i].name for i in (*cycle[first:], *cycle[: first + 1]))
        raise BadInput(f"the edges form a cycle, {names}, and must not; take one of them out") from error
    ready = sorted(sorter.get_ready())
    sequence: list[int] = []
    while ready:
        i = heappop(ready)
        sequence.append(i)
        sorter.done(i)
        for j in sorter.get_ready():
            heappush(ready, j)
    return tuple(sequence)


def check_paths(application: Application) -> None:
    """Refuse an application with more paths than can be gone through."""
    before, after = neighbours(application)
    count: dict[int, int] = {}
    for i in order(application)[::-1]:
        count[i] = sum(count[j] for j in after[i]) or 1
    total = sum(count[i] for i in count if not before[i])
    if total > MAX_PATHS:
        raise BadInput(f"the application has {total} paths from source to sink, and may have {MAX_PATHS}; merge some")


def paths(application: Application) -> tuple[tuple[int, ...], ...]:
    """Every path from a source to a sink, as indices of operators."""
    check_paths(application)
    before, after = neighbours(application)
    backwards = order(application)[::-1]
    onward: dict[int, list[tuple[int, ...]]] = {}
    for i in backwards:
        onward[i] = [(i, *rest) for j in after[i] for rest in onward[j]] or [(i,)]
    return tuple(path for i in range(len(before)) if not before[i] for path in onward[i])


def name_path(application: Application, path: tuple[int, ...]) -> str:
    """A path as people write it: "parse -> enrich -> count"."""
    return " -> ".join(application.operators[i].name for i in path)


def equal_shares(application: Application, r_max: float) -> dict[str, float]:
    """Each operator's latency bound when the operators of its longest path share R_max alike."""
    if not 0.0 < r_max < math.inf:
        raise BadInput(f"R_max is {r_max} s, and must be a positive number")
    before, after = neighbours(application)
    sequence = order(application)
    reach: dict[int, int] = {}
    for i in sequence:
        reach[i] = 1 + max((reach[j] for j in before[i]), default=0)
    remain: dict[int, int] = {}
    for i in reversed(sequence):
        remain[i] = 1 + max((remain[j] for j in after[i]), default=0)
    return {operator.name: r_max / (reach[i] + remain[i] - 1) for i, operator in enumerate(application.operators)}


def read_application(path: Path | str) -> Application:
    """The application that a TOML file describes, named like the file where it names itself nothing."""
    document = read_toml(path)
    try:
        application = parse_application(document)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error
    return application if "name" in document else replace(application, name=Path(path).stem)


def parse_application(document: Mapping[str, Any]) -> Application:
    """`[[operator]]` and `[[edge]]` tables and, where not every source gets the whole rate, a table `[sources]`."""
    check_table(document, APPLICATION, lambda key: f"the application: {key}")
    return Application(
        operators=tuple(parse_operator(table, i) for i, table in enumerate(document.get("operator", []), 1)),
        edges=tuple(parse_edge(table, i) for i, table in enumerate(document.get("edge", []), 1)),
        sources={name: float(share) for name, share in document.get("sources", {}).items()},
        name=document.get("name", "application"),
    )


def parse_operator(table: Table, number: int) -> Operator:
    place = name_item("operator", table, number)
    check_table(table, OPERATOR, lambda key: f"{place}: {key}", required=("name",))
    figures = table.get("k_max", 10), float(table.get("selectivity", 1.0)), table.get("stateful", False)
    batches = parse_operator_batches(table.get("batches"), place)
    return Operator(
        table["name"],
        parse_moments(table, place),
        *figures,
        batches,
        table.get("k_min", 1),
        float(table.get("state_bytes", 0.0)),
        table.get("partitions", 0),
        float(table.get("state_growth", 0.0)),
        parse_hold(table.get("hold"), place),
    )


def parse_hold(table: Table | None, place: str) -> HoldTimes | None:
    if table is None:
        return None
    check_table(table, HOLD, lambda key: f"{place}, hold: {key}")
    for name in table.keys() & {"out", "in"}:
        check_table(table[name], DIRECTION, partial("{}, hold, {}: {}".format, place, name), required=("base_s",))
    try:
        return parse_hold_times(table)
    except BadInput as error:
        raise BadInput(f"{place}, hold: {error}") from error


def parse_operator_batches(table: Table | None, place: str) -> MicroBatches | None:
    if table is None:
        return None
    check_table(table, BATCHES, lambda key: f"{place}, batches: {key}")
    try:
        return parse_batches(table)
    except BadInput as error:
        raise BadInput(f"{place}, batches: {error}") from error


def parse_moments(table: Table, place: str) -> Moments:
    """The service time, stated as a time or a rate, and its variance, stated as such or over the squared mean."""
    mean_key = choose_key(table, ("service_time", "service_rate"), place)
    stated = float(table[mean_key])
    if not stated > 0.0:
        raise BadInput(f"{place}: {mean_key} is {table[mean_key]!r}, and must be positive")
    mean = stated if mean_key == "service_time" else 1.0 / stated
    spread_key = choose_key(table, ("scv", "variance"), place)
    spread = float(table[spread_key])
    if not spread >= 0.0:
        raise BadInput(f"{place}: {spread_key} is {table[spread_key]!r}, and must be 0 or more")
    return Moments(mean, spread if spread_key == "variance" else spread * mean * mean)


def choose_key(table: Table, keys: tuple[str, str], place: str) -> str:
    given = [key for key in keys if key in table]
    if len(given) != 1:
        raise BadInput(f"{place}: {'both' if given else 'neither'} of {' and '.join(keys)} is given; give one of them")
    return given[0]


def parse_edge(table: Table, number: int) -> Edge:
    check_table(table, EDGE, lambda key: f"edge {number}: {key}", required=("from", "to"))
    return Edge(table["from"], table["to"], float(table.get("selectivity", 1.0)))
