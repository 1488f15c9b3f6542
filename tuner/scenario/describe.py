"""Convert an Application to the tables that `sim.application` reads, and to TOML text."""

from __future__ import annotations

from typing import Any

from sim.application import Application, Operator
from tuner.scenario.toml_table import format_document


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


def format_operator(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "service_time": operator.moments.mean,
        "variance": operator.moments.variance,
        "k_max": operator.k_max,
        "selectivity": operator.selectivity,
        "stateful": operator.stateful,
    }
