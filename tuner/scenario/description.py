"""Convert application descriptions (TOML) to the JSON document in the database, and back.

A document is a scenario's tables, those that were stated, in values that JSON knows: the application as operators and
edges, node types of a file as `node` tables, dates as ISO 8601 texts. Older ones are an application alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput
from sim.application import Application, parse_application, read_application
from sim.checks import read_toml
from sim.infrastructure import read_infrastructure
from tuner.scenario.describe import describe_application
from tuner.scenario.layout import KINDS, SOURCES
from tuner.scenario.scenario import (
    Document,
    Scenario,
    anchor,
    build_scenario,
    check_layer,
    complete,
    lay_over,
    make_application,
    read_document,
)
from tuner.scenario.toml_table import MOMENT, TABLE, Table, check_table, format_document

Stored = Mapping[str, Any]  # of an ApplicationVersion, or under "document" of a tuning run's settings


def read_description(path: Path, name: str, flags: Document) -> dict[str, Any]:
    """The document of a file with flags over it; refused unless it can be simulated."""
    stated = read_tables(path)
    application = build_scenario(path.stem, stated, flags, str(path)).settings[0].application
    laid = lay_over(stated, flags)
    inlined = {"application": describe_application(replace(application, name=name))}
    if "file" in laid.get("infrastructure", {}):
        inlined["infrastructure"] = put_inline(laid["infrastructure"])
    return {key: freeze(table) for key, table in {**laid, **inlined}.items()}


def read_tables(path: Path) -> Document:
    """A scenario's tables, or those of an application alone under `application`."""
    if is_alone(read_toml(path)):
        return {"application": describe_application(read_application(path))}
    stated = anchor(read_document(path), path.parent)
    if not any(key in stated.get("application", {}) for key in SOURCES["application"]):
        raise BadInput(
            f"{path} describes no operators; head each one with [[application.operator]], or name a built-in graph "
            "or a file of operators as `builtin` or `file` in [application]"
        )
    return stated


def is_alone(document: Stored) -> bool:
    """Whether operators stand at the top, where a scenario has its tables."""
    return "operator" in document or "edge" in document or "sources" in document


def put_inline(table: Table) -> dict[str, Any]:
    found = read_infrastructure(table["file"])
    rest = {key: value for key, value in table.items() if key != "file"}
    return {**rest, "node": [asdict(node) for node in found.types], "normaliser_price": found.normaliser_price}


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


def tables_of(document: Stored, flags: Document | None = None) -> Document:
    """Every table of a scenario: as stated, with flags over it and defaults under it."""
    return complete(thaw(document), flags or {})


def scenario_of(document: Stored, flags: Document | None = None, name: str = "application") -> Scenario:
    """The scenario of a document, with flags over it and defaults under both."""
    shape_of(document)
    place = f"the description of {name!r}"
    stated = thaw(document)
    check_table(stated, dict.fromkeys(KINDS, TABLE), lambda table: f"{place}, [{table}]")
    check_layer(stated, lambda table, key: f"{place}, [{table}] {key}")
    return build_scenario(name, stated, flags or {}, place)


def format_description(document: Stored) -> str:
    """The TOML text that `tuner app add` and `tuner simulate` read."""
    return format_document(thaw(document))
