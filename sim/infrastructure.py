"""Node types and their prices: the published tables by name, others from a TOML file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType
from sim.toml_table import NUMBER, TABLES, TEXT, Kind, Table, check_table, name_item, read_toml

SPEEDUPS_A = (1.0, 0.7, 1.3, 0.9, 1.7, 0.8, 1.8, 2.0, 1.65, 1.5)
SPEEDUPS_B = (1.0, 0.05, 30.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 7.0)
SPEEDUPS_B_EARLIER = (1.0, 0.05, 7.0, 0.1, 0.2, 0.4, 0.8, 2.0, 5.0, 10.0)

NODE: dict[str, Kind] = {"name": TEXT, "speedup": NUMBER, "price": NUMBER}
INFRASTRUCTURE: dict[str, Kind] = {"name": TEXT, "normaliser_price": NUMBER, "node": TABLES}


@dataclass(frozen=True, slots=True)
class Infrastructure:
    """Node types, and the price per replica that the dearest deployment (C_max) is made of."""

    name: str
    types: tuple[NodeType, ...]
    normaliser_price: float

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
            known = ", ".join(INFRASTRUCTURES)
            raise BadInput(f"there is no infrastructure {str(name_or_path)!r}; choose {known} or name a .toml file")
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
        return parse_infrastructure(document)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from error


def parse_infrastructure(document: Mapping[str, Any]) -> Infrastructure:
    """`name`, `[[node]]` tables and, where C_max is not to come from the dearest node, `normaliser_price`."""
    check_table(document, INFRASTRUCTURE, lambda key: f"the file: {key}", required=("name",))
    types = tuple(parse_node(table, i) for i, table in enumerate(document.get("node", []), 1))
    dearest = max((node.price for node in types), default=1.0)
    return Infrastructure(document["name"], types, float(document.get("normaliser_price", dearest)))


def parse_node(table: Table, number: int) -> NodeType:
    place = name_item("node", table, number)
    check_table(table, NODE, lambda key: f"{place}: {key}", required=NODE)
    return NodeType(table["name"], float(table["speedup"]), float(table["price"]))
