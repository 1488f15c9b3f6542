"""Application graphs of the paper's experiments, by name; any other is read from a file."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput, suggest
from scaler.model.task import Moments
from sim.application import Application, Edge, Operator, read_application


def make_operator(name: str, service_rate: float, scv: float, k_max: int) -> Operator:
    if not 0.0 < service_rate < math.inf:
        raise BadInput(f"operator {name!r}: service_rate is {service_rate}, and must be a positive number")
    mean = 1.0 / service_rate
    return Operator(name, Moments(mean, scv * mean * mean), k_max)


def single(service_rate: float, k_max: int = 10) -> Application:
    """One operator; the variance of its service time is half the squared mean."""
    return Application((make_operator("operator", service_rate, 0.5, k_max),), name="single")


def pipeline(k_max: int = 10) -> Application:
    """Three operators in a row."""
    return connect("pipeline", ((1000, 0.5), (300, 1.0), (300, 0.1)), k_max, (1, 2), (2, 3))


def diamond(k_max: int = 10) -> Application:
    """A splitter that feeds three operators every tuple, and a join of all."""
    rates = ((900, 0.5), (200, 0.01), (300, 0.9), (600, 0.5), (2500, 0.5))
    return connect("diamond", rates, k_max, (1, 2), (1, 3), (1, 4), (2, 5), (3, 5), (4, 5))


def multi_sink(k_max: int = 10) -> Application:
    """Three sinks: two behind a row of two operators, one behind the first alone."""
    rates = ((700, 0.5), (200, 0.5), (300, 0.5), (500, 0.5), (500, 0.5))
    return connect("multi-sink", rates, k_max, (1, 2), (2, 3), (2, 4), (1, 5))


def connect(name: str, services: Sequence[tuple[float, float]], k_max: int, *ends: tuple[int, int]) -> Application:
    """Operators of these service rates and squared coefficients of variation; edges between their numbers from 1."""
    operators = tuple(make_operator(f"op{i}", rate, scv, k_max) for i, (rate, scv) in enumerate(services, 1))
    edges = (Edge(operators[a - 1].name, operators[b - 1].name) for a, b in ends)
    return Application(operators, tuple(edges), name=name)


# the graphs of the paper's experiments, with the service rates of the authors' files
APPLICATIONS: dict[str, Callable[..., Application]] = {
    "single": single,
    "pipeline": pipeline,
    "diamond": diamond,
    "multi-sink": multi_sink,
}


def find_application(name_or_path: str | Path, **parameters: Any) -> Application:
    """The built-in graph of this name with these parameters, else the file at this path."""
    build = APPLICATIONS.get(str(name_or_path))
    if build is None:
        if Path(name_or_path).suffix.lower() != ".toml":
            known = suggest(str(name_or_path), APPLICATIONS, "choose {} or name a .toml file")
            raise BadInput(f"there is no application {str(name_or_path)!r}; {known}")
        build = read_application
        parameters = {"path": name_or_path, **parameters}
    try:
        inspect.signature(build).bind(**parameters)
    except TypeError as error:
        takes = ", ".join(inspect.signature(build).parameters)
        raise BadInput(f"application {str(name_or_path)!r}: {error}; it takes {takes}") from error
    return build(**parameters)
