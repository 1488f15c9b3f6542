"""The last good orders, on disk: written whole or not at all; a file that is damaged holds none."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaler.model.orders import Orders, parse_orders

ORDERS_FILE = "orders.json"


@dataclass(frozen=True, slots=True)
class SavedOrders:
    orders: Orders
    document: Any  # that they were read from
    heard: float  # when the manager said so


def save_orders(folder: Path, kept: SavedOrders) -> None:
    """Write them so that a crash at any moment leaves these orders or those before."""
    text = json.dumps(kept.document, sort_keys=True)
    replace_file(
        folder / ORDERS_FILE, json.dumps({"digest": digest(text), "heard": kept.heard, "orders": text}).encode()
    )


def load_orders(folder: Path, application: str) -> SavedOrders | None:
    """The orders of this application, or None where there are none that can be trusted."""
    try:
        outer = json.loads((folder / ORDERS_FILE).read_bytes())
        text, heard = outer["orders"], float(outer["heard"])
        if digest(text) != outer["digest"]:
            return None
        document = json.loads(text)
        orders = parse_orders(document)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError):
        return None
    return SavedOrders(orders, document, heard) if orders.application == application else None


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def replace_file(path: Path, content: bytes, sync: bool = True) -> None:
    """Put a whole file in the place of another."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    fresh.replace(path)
    if sync:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names last, where the system can open a folder at all."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
