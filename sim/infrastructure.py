"""Node types and their prices: the published tables by name, others from a TOML file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.errors import BadInput, suggest
from scaler.model.kernel import Floats
from scaler.model.nodes import NodeType, Supply
from sim.toml_table import NUMBER, NUMBERS, TABLES, TEXT, WHOLE, Kind, Table, check_table, name_item, read_toml
from sim.trace import EPOCH, Trace
from sim.trace_file import read_trace

SPEEDUPS_A = (1.0, 0.7, 1.3, 0.9, 1.7, 0.8, 1.8, 2.0, 1.65, 1.5)
SPEEDUPS_B = (1.0, 0.05, 30.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 7.0)
SPEEDUPS_B_EARLIER = (1.0, 0.05, 7.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 10.0)

SECONDS = Kind("a number or a list of numbers", lambda value: NUMBER.fits(value) or NUMBERS.fits(value))
SCHEDULE: dict[str, Kind] = {"start": TEXT, "step_s": NUMBER, "prices": NUMBERS}
PRICES = Kind(
    "a list of prices, one an hour, or a trace's file",
    lambda value: NUMBERS.fits(value) or TEXT.fits(value) or isinstance(value, dict),
)
NODE: dict[str, Kind] = {
    "name": TEXT,
    "speedup": NUMBER,
    "price": NUMBER,
    "prices": PRICES,
    "capacity": WHOLE,
    "lost_per_hour": NUMBER,
    "start_s": SECONDS,
}
INFRASTRUCTURE: dict[str, Kind] = {"name": TEXT, "normaliser_price": NUMBER, "node": TABLES}


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """Node types, and the price per replica that the dearest deployment (C_max) is made of."""

    name: str
    types: tuple[NodeType, ...]
    normaliser_price: float
    prices: Mapping[str, Trace] = field(default_factory=dict, hash=False)  # over time, by node type; others keep theirs

    def __post_init__(self) -> None:
        if not self.types:
            raise BadInput(f"infrastructure {self.name!r} has no node, and must have at least one")
        names = [node.name for node in self.types]
        for name in names:
            if names.count(name) > 1:
                raise BadInput(f"node {name!r} is named twice, and each must have a name of its own")
        if not 0.0 < self.normaliser_price < math.inf:
            raise BadInput(f"normaliser_price is {self.normaliser_price}, and must be a positive number")


def tabulate(name: str, prefix: str, speedups: Sequence[float], exponent: float = 1.0) -> Infrastructure:
    """A published table: price = speedup ^ exponent, C_max from the highest speedup whatever the exponent."""
    types = tuple(NodeType(f"{prefix}{i}", s, s**exponent) for i, s in enumerate(speedups, 1))
    return Infrastructure(name, types, max(speedups))


INFRASTRUCTURES: dict[str, Infrastructure] = {
    "A": tabulate("A", "A", SPEEDUPS_A),
    "B": tabulate("B", "B", SPEEDUPS_B),
    "B2": tabulate("B2", "B2-", SPEEDUPS_B, exponent=1.1),
    "B-earlier": tabulate("B-earlier", "B", SPEEDUPS_B_EARLIER),  # what the published N_res 10 column of B ran on
}


def find_infrastructure(name_or_path: str | Path, n_res: int | None = None) -> Infrastructure:
    """The published table of this name, else the file at this path; of it the first `n_res` node types."""
    found = INFRASTRUCTURES.get(str(name_or_path))
    if found is None:
        if Path(name_or_path).suffix.lower() != ".toml":
            known = suggest(str(name_or_path), INFRASTRUCTURES, "choose {} or name a .toml file")
            raise BadInput(f"there is no infrastructure {str(name_or_path)!r}; {known}")
        found = read_infrastructure(name_or_path)
    if n_res is None:
        return found
    if not 1 <= n_res <= len(found.types):
        raise BadInput(f"infrastructure {name_or_path}: n_res is {n_res}, and must be from 1 to {len(found.types)}")
    return replace(found, types=found.types[:n_res])


def read_infrastructure(path: Path | str) -> Infrastructure:
    """The infrastructure that a TOML file describes."""
    document = read_toml(path)
    try:
        return parse_infrastructure(document, Path(path).parent)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def parse_infrastructure(document: Mapping[str, Any], folder: Path = Path()) -> Infrastructure:
    """`name`, `[[node]]` tables and, where C_max is not to come from the dearest node, `normaliser_price`."""
    check_table(document, INFRASTRUCTURE, lambda key: f"the file: {key}", required=("name",))
    nodes = document.get("node", [])
    types = tuple(parse_node(table, i) for i, table in enumerate(nodes, 1))
    prices = {table["name"]: parse_prices(table, i, folder) for i, table in enumerate(nodes, 1) if "prices" in table}
    dearest = max((node.price for node in types), default=1.0)
    return Infrastructure(document["name"], types, float(document.get("normaliser_price", dearest)), prices)


def parse_node(table: Table, number: int) -> NodeType:
    place = name_item("node", table, number)
    check_table(table, NODE, lambda key: f"{place}: {key}", required=("name", "speedup", "price"))
    start_s = table.get("start_s")
    if start_s == []:
        raise BadInput(f"{place}: start_s is empty; state seconds, or leave it out where the run says how long")
    stated = () if start_s is None else start_s if isinstance(start_s, list) else [start_s]
    try:
        supply = Supply(
            capacity=table.get("capacity"),
            lost_per_hour=float(table.get("lost_per_hour", 0.0)),
            start_s=tuple(map(float, stated)),
        )
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from error
    return NodeType(table["name"], float(table["speedup"]), float(table["price"]), supply)


def parse_prices(table: Table, number: int, folder: Path) -> Trace:
    """Prices over time: one an hour from midnight (UTC) on, or a trace of them; either is repeated."""
    stated, place = table["prices"], name_item("node", table, number)
    if isinstance(stated, str):
        prices = read_trace(folder / stated, 3600.0)
    elif stated == []:
        raise BadInput(f"{place}: prices is empty; state one price an hour, or a trace's file")
    elif isinstance(stated, list):
        prices = Trace(np.array(stated), 3600.0)
    else:  # as `describe_nodes` keeps a file
        check_table(stated, SCHEDULE, lambda key: f"{place}, prices: {key}", required=SCHEDULE)
        prices = Trace(np.array(stated["prices"]), stated["step_s"], datetime.fromisoformat(stated["start"]))
    if not prices.rates.min() > 0.0:
        raise BadInput(f"{place}: a price is {prices.rates.min():g}, and each must be positive")
    return prices


def describe_nodes(infrastructure: Infrastructure) -> list[dict[str, Any]]:
    """The `[[node]]` tables that are read back as the same, without the files that they named."""

    def describe(node: NodeType) -> dict[str, Any]:
        prices = infrastructure.prices.get(node.name)
        if prices is None:
            return node.to_json()
        schedule = {"start": prices.start.isoformat(), "step_s": prices.step_s, "prices": prices.rates.tolist()}
        return node.to_json() | {"prices": schedule}

    return [describe(node) for node in infrastructure.types]


def price_slots(infrastructure: Infrastructure, trace: Trace) -> Floats:
    """Prices in every slot of a trace [T, N]; [0, N] where they stay as they are."""
    slots = np.arange(trace.rates.size if infrastructure.prices else 0)
    columns = []
    for node in infrastructure.types:
        over_time = infrastructure.prices.get(node.name)
        if over_time is None:
            columns.append(np.full(slots.size, node.price))
            continue
        dated = over_time.start != EPOCH
        began = (trace.start - over_time.start).total_seconds() if dated else since_monday(trace)
        seconds = began + slots * trace.step_s
        columns.append(over_time.rates[(seconds // over_time.step_s).astype(np.int64) % over_time.rates.size])
    return np.ascontiguousarray(np.array(columns).T.reshape(slots.size, len(infrastructure.types)))


def since_monday(trace: Trace) -> float:
    """Seconds from the midnight before the Monday of a trace's start, UTC."""
    start = trace.start.astimezone(UTC)
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=start.weekday())
    return (start - midnight).total_seconds()
