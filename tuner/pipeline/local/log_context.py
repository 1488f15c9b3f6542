"""Queries, stages and executors of event logs, of the few events that tell of them; rules as in `sources.log_samples`.

These events are a thousandth of a log's text, and are plain dicts here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]  # an event; None is unknown
Place = tuple[str, Any]  # a log, and what is meant in it


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A streaming query of a log."""

    operator: str
    several: bool  # operators, one a profile
    entry_operator: str
    leaving_operator: str
    application: str
    app: str  # the identity of the log's application


@dataclass(frozen=True, slots=True)
class LoggedStage:
    """A stage, as the first job has it that names it."""

    submitted: int | None
    profile: int | None
    entry: bool
    leaving: bool
    operator: str
    query: LoggedQuery


@dataclass(frozen=True, slots=True)
class LoggedExecutor:
    """Life of an executor, in ms since 1970, and how many tasks it runs at a time."""

    profile: int
    since: int | None
    until: int | None
    node_type: str | None
    slots: int


@dataclass(frozen=True, slots=True)
class LogFacts:
    queries: dict[Place, LoggedQuery]  # by query
    stages: dict[Place, LoggedStage]  # by number
    executors: dict[Place, LoggedExecutor]  # by name


def find_facts(rows: Iterable[Row], application: str | None) -> LogFacts:
    kinds: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row["kind"]].append(row)
    queries = find_queries(kinds, application)
    return LogFacts(queries, find_stages(kinds["stage"], queries), find_executors(kinds))


def group(rows: Iterable[Row], *names: str) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in names)].append(row)
    return groups


def most(values: Iterable[Any], choose: Callable[..., Any] = max) -> Any:
    """The greatest that is known; None where none is."""
    return choose((value for value in values if value is not None), default=None)


def find_queries(kinds: dict[str, list[Row]], application: str | None) -> dict[Place, LoggedQuery]:
    """Queries of each log; a name is that of the query's start, else of its progress, else of its jobs."""
    logs = group(kinds["application"], "log")
    rows = (row for kind in ("stage", "query", "progress") for row in kinds[kind] if row["query"] is not None)
    found: dict[Place, LoggedQuery] = {}
    for (log, query), of in group(rows, "log", "query").items():
        names = (most(row["name"] for row in of if row["kind"] == kind) for kind in ("query", "progress", "stage"))
        operator = next((name for name in names if name is not None), query[:8])
        stages = sorted((row for row in of if row["kind"] == "stage"), key=lambda row: row["stage"])
        several = (most(row["number"] for row in stages) or 0) > 1
        first, last = (name_part(operator, stages[i]["profile"]) if several else operator for i in (0, -1))
        told = logs.get((log,), ())
        base = log.split("/")[-1]
        named = application or most(row["name"] for row in told) or base
        found[log, query] = LoggedQuery(operator, several, first, last, named, most(row["run"] for row in told) or base)
    return found


def name_part(operator: str, profile: object) -> str:
    """The operator that the stages of one profile are, of a query that is several."""
    return f"{operator}/profile{profile}"


def find_stages(rows: Iterable[Row], queries: dict[Place, LoggedQuery]) -> dict[Place, LoggedStage]:
    facts = ("time", "query", "profile", "entry", "leaving")
    found: dict[Place, LoggedStage] = {}
    for (log, number), of in group(rows, "log", "stage").items():
        first = min(of, key=lambda row: [(row[name] is not None, row[name]) for name in facts])
        query = queries.get((log, first["query"]))
        if query is not None:
            operator = name_part(query.operator, first["profile"]) if query.several else query.operator
            found[log, number] = LoggedStage(
                first["time"], first["profile"], first["entry"], first["leaving"], operator, query
            )
    return found


def find_executors(kinds: dict[str, list[Row]]) -> dict[Place, LoggedExecutor]:
    wanted = group(kinds["profile"], "log", "profile")
    found: dict[Place, LoggedExecutor] = {}
    for (log, name), of in group((*kinds["executor"], *kinds["removed"]), "log", "executor").items():
        profile = most((row["profile"] for row in of), min) or 0
        asked = wanted.get((log, profile), ())
        types = (most((row["name"] for row in rows), min) for rows in (of, asked))
        numbered = f"profile {profile}" if profile > 0 else None
        cores = most((row["number"] for row in of), min)
        cpus = most((row["number"] for row in asked), min)
        found[log, name] = LoggedExecutor(
            profile,
            most((row["time"] for row in of if row["kind"] == "executor"), min),
            most(row["time"] for row in of if row["kind"] == "removed"),
            next((name for name in types if name is not None), numbered),
            math.floor((1 if cores is None else cores) / (cpus or 1)),
        )
    return found


def make_links(rows: Iterable[Row], queries: dict[Place, LoggedQuery]) -> set[tuple[str, str]]:
    """Links between operators by a path or topic that sink and source share; inside a query, by its stages."""
    writers: dict[tuple[str, str], set[str]] = defaultdict(set)
    readers: dict[tuple[str, str], set[str]] = defaultdict(set)
    links = set()
    for row in rows:
        query = queries.get((row["log"], row["query"]))
        if query is None:
            continue
        if row["kind"] == "progress":
            if row["writes"] is not None:
                writers[query.application, row["writes"]].add(query.leaving_operator)
            for place in row["reads"] or ():
                readers[query.application, place].add(query.entry_operator)
        elif row["kind"] == "stage" and query.several:
            here = name_part(query.operator, row["profile"])
            links |= {(f"{query.operator}/{read}", here) for read in row["reads"] or ()}
    pairs = {(up, down) for place, ups in writers.items() for up in ups for down in readers.get(place, ())}
    return links | {(up, down) for up, down in pairs if up != down}
