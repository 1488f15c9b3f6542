"""Orders from a file, for agents without a manager: an objective, or whole orders.

Decisions are appended to lines of JSON beside it. The file is read again when it changes; a damaged one is ignored.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from scaler.model.errors import BadInput
from scaler.model.files import open_private
from scaler.model.orders import Orders, parse_objective, parse_orders
from scaler.model.wire import check_depth, write_line

LOG = logging.getLogger("scaler.agent")
Rows = Sequence[Mapping[str, Any]]
MAX_LOG_BYTES = 64 << 20  # of decisions, beyond which the log is rotated


class OrderSource(Protocol):
    """Where orders come from and reports go: a `scaler.link.Link`, or a file."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def orders(self) -> Orders | None: ...

    def report(self, operator: str, decisions: Rows = (), samples: Rows = ()) -> None: ...


class OrdersFile:
    """Orders from a file; decisions are appended to `log`."""

    def __init__(self, path: Path, app: str, slot_s: float, log: Path | None = None) -> None:
        self.path, self.app, self.slot_s, self.log = path, app, slot_s, log
        self.lock = threading.Lock()
        self.stamp = stamp(path)
        self.latest = read_file(path, app, slot_s)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def orders(self) -> Orders | None:
        with self.lock:
            now = stamp(self.path)
            if now != self.stamp and now is not None:
                self.stamp = now
                try:
                    self.latest = read_file(self.path, self.app, self.slot_s)
                except BadInput as error:
                    LOG.warning("%s; the objective that was read before stands", error)
            return self.latest

    def report(self, operator: str, decisions: Rows = (), samples: Rows = ()) -> None:  # noqa: ARG002  nobody reads them
        if self.log is None:
            return
        try:
            with self.lock:
                if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
                    self.log.replace(self.log.with_suffix(".earlier.jsonl"))
                with open_private(self.log, "ab") as file:
                    file.writelines(write_line({"operator": operator, **one}) + b"\n" for one in decisions)
        except OSError as error:
            LOG.warning("decisions cannot be written to %s (%s)", self.log, error)


def stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def read_file(path: Path, app: str, slot_s: float) -> Orders:
    """Whole orders, or an objective alone."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"the objective {path} cannot be read ({error.strerror}); name a file that is there") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the objective {path} is no JSON ({error}); write it with: tuner orders {app}") from error
    try:
        if isinstance(document, dict) and "revision" in document:
            return parse_orders(document)
        check_depth(document)
        return Orders(app, 0, slot_s, parse_objective(document))
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise BadInput(f"the objective {path} is not whole ({error}); write it with: tuner orders {app}") from error
