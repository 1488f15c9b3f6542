"""What became of the replicas of one node type between two looks of an agent, as data with one codec.

It travels in the figures of a decision. A slot without such a record tells nothing; within a record, what is left
out of its document is zero. Seconds of start-up lie within a span, as far apart as the looks where only these tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.wire import read_number, read_table, read_text

Span = tuple[float, float]  # least and most
MOST_ARRIVALS = 200  # in one record
COUNTS = ("count", "ordered", "given_up", "lost", "refused")


@dataclass(frozen=True, slots=True)
class SupplyRecord:
    """One operator's replicas of one node type since the look before."""

    node_type: str
    count: int = 0  # replicas that are there now
    watched_s: float = 0.0  # replica-seconds in which a loss would have shown; 0 where nobody ordered any
    ordered: int = 0  # what was lost and is to be replaced counts as ordered anew
    came: tuple[Span, ...] = ()  # seconds from the order until it served, of each whose order is known
    given_up: int = 0  # missed their deadline
    lost: int = 0  # gone, and nobody had removed them
    refused: int = 0  # wanted, and not ordered for want of room

    def to_json(self) -> dict[str, Any]:
        """What is not zero."""
        document: dict[str, Any] = {name: getattr(self, name) for name in (*COUNTS, "watched_s")}
        document["came"] = [[round(second, 3) for second in span] for span in self.came]
        return {"node_type": self.node_type} | {name: value for name, value in document.items() if value}


def parse_supply(value: Any) -> tuple[SupplyRecord, ...]:
    """The records of a document; those that cannot be read are passed over."""
    records = map(parse_record, value) if isinstance(value, list | tuple) else ()
    return tuple(one for one in records if one is not None)


def parse_record(value: Any) -> SupplyRecord | None:
    table = read_table(value)
    node_type, came = read_text(table.get("node_type")), table.get("came")
    if node_type is None:
        return None
    spans = [read_span(one) for one in came[:MOST_ARRIVALS]] if isinstance(came, list | tuple) else []
    return SupplyRecord(
        node_type,
        **{name: int(read_amount(table, name)) for name in COUNTS},
        watched_s=read_amount(table, "watched_s"),
        came=tuple(one for one in spans if one is not None),
    )


def read_amount(table: Mapping[str, Any], name: str) -> float:
    value = read_number(table.get(name))
    return value if value is not None and 0.0 <= value < math.inf else 0.0


def read_span(value: Any) -> Span | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    least, most = map(read_number, value)
    return None if least is None or most is None or not 0.0 <= least <= most < math.inf else (least, most)
