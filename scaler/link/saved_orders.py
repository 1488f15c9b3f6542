"""The last good orders on disk; a file that is damaged holds none."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.model.files import write_durably
from scaler.model.orders import Orders, parse_orders

ORDERS_FILE = "orders.json"


@dataclass(frozen=True, slots=True)
class SavedOrders:
    orders: Orders
    document: Any  # that they were read from
    received_at: float  # when the manager last confirmed them


def save_orders(folder: Path, saved: SavedOrders) -> None:
    """Save orders so that a crash at any moment leaves these or those before."""
    text = json.dumps(saved.document, sort_keys=True)
    content = {"digest": digest(text), "heard": saved.received_at, "orders": text}
    write_durably(folder / ORDERS_FILE, json.dumps(content).encode())


def load_orders(folder: Path, app: str) -> SavedOrders | None:
    """Load the orders of this application; None where there are none that can be trusted."""
    try:
        outer = json.loads((folder / ORDERS_FILE).read_bytes())
        text, received_at = outer["orders"], float(outer["heard"])
        if digest(text) != outer["digest"]:
            return None
        document = json.loads(text)
        orders = parse_orders(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError):
        return None
    return SavedOrders(orders, document, received_at) if orders.application == app else None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
