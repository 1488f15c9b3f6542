"""Convert applications and a scenario's tables to the JSON document in the database, and back.

A document is a scenario's tables, those that were stated, in values that JSON knows: the application as operators and
edges, node types of a file as `node` tables, dates as ISO 8601 texts. Older ones are an application alone.
Nothing here loads numpy: commands that list things start quickly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import date, datetime
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.micro_batches import MicroBatches
from sim.application import Application, Operator, parse_application
from sim.graphs import find_application
from sim.toml_table import MOMENT, Table, format_document
from tuner.scenario.layout import KINDS, SOURCES

Document = Mapping[str, Table]


def make_application(table: Table) -> Application:
    if "operator" in table:
        application = parse_application(
            {k: v for k, v in table.items() if k in ("operator", "edge", "sources", "name")}
        )
    else:
        given = {"service_rate": table["service_rate"]} if "service_rate" in table else {}
        application = find_application(table.get("builtin", table.get("file")), **given)
    if "k_max" not in table:
        return application
    return replace(application, operators=tuple(replace(o, k_max=table["k_max"]) for o in application.operators))


def format_application(application: Application) -> str:
    """The TOML text that `sim.application.read_application` reads back as the same application."""
    return format_document(describe_application(application))


def describe_application(application: Application) -> dict[str, Any]:
    """The table that `sim.application.parse_application` reads."""
    document: dict[str, Any] = {
        "name": application.name,
        "operator": [format_operator(operator) for operator in application.operators],
        "edge": [{"from": e.upstream, "to": e.downstream, "selectivity": e.selectivity} for e in application.edges],
        "sources": dict(application.sources),
    }
    return {key: value for key, value in document.items() if value}


STATE = ("state_bytes", "partitions", "state_growth")


def format_operator(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "service_time": operator.moments.mean,
        "variance": operator.moments.variance,
        **({} if operator.k_min == 1 else {"k_min": operator.k_min}),
        "k_max": operator.k_max,
        "selectivity": operator.selectivity,
        "stateful": operator.stateful,
        **{name: getattr(operator, name) for name in STATE if getattr(operator, name)},
        **({} if operator.hold is None else {"hold": operator.hold.to_json()}),
        **({} if operator.batches is None else {"batches": format_batches(operator.batches)}),
    }


def format_batches(batches: MicroBatches) -> dict[str, Any]:
    curve = list(batches.overhead_curve_s)
    constants = {name: value for name, value in asdict(batches).items() if name != "overhead_curve_s"}
    return constants | ({"overhead_curve_s": curve} if curve else {})


Stored = Mapping[str, Any]  # of an ApplicationVersion, or under "document" of a tuning run's settings


def is_alone(document: Stored) -> bool:
    """Whether operators stand at the top, where a scenario has its tables."""
    return "operator" in document or "edge" in document or "sources" in document


def freeze(table: Table) -> dict[str, Any]:
    """The table in values that JSON knows."""
    return {key: value.isoformat() if isinstance(value, date) else value for key, value in table.items()}


def thaw(document: Stored) -> Document:
    """The tables as a file would have stated them."""
    if is_alone(document):
        return {"application": document}
    return {
        name: {**table, **dict(thaw_moments(name, table))} if isinstance(table, Mapping) else table
        for name, table in document.items()
    }


def thaw_moments(name: str, table: Table) -> Iterator[tuple[str, date]]:
    for key, value in table.items():
        if isinstance(value, str) and KINDS.get(name, {}).get(key) is MOMENT:
            yield key, date.fromisoformat(value) if len(value) == len("2026-01-05") else datetime.fromisoformat(value)


def shape_of(document: Stored) -> Application:
    """The operators and their edges."""
    if is_alone(document):
        return parse_application(document)
    table = document.get("application", {})
    if not any(key in table for key in SOURCES["application"]):
        raise BadInput("nothing is said of the application's operators; describe it with: tuner app add NAME FILE.toml")
    return make_application(table)


def format_description(document: Stored) -> str:
    """The TOML text that `tuner app add` and `tuner simulate` read."""
    return format_document(thaw(document))
