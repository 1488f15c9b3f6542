"""A link to a manager of the tests, on a clock of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from scaler.link import Link, LinkSettings
from scaler.link.link_state import Pacer
from tests.link.manager import TOKEN, Manager, serve

OWN = {field.name for field in fields(LinkSettings)}


class Hurry(Pacer):
    """Waits pass at once, and are added up; a little real time passes, so that others get their turn."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.waits: list[float] = []

    def now(self) -> float:
        return time.monotonic() + self.passed

    def wait(self, event: threading.Event, seconds: float) -> None:
        time.sleep(0.0002)
        if not event.is_set():
            self.passed += seconds
            self.waits.append(seconds)


@pytest.fixture
def manager() -> Iterator[Manager]:
    with serve(Manager()) as served:
        yield served


@pytest.fixture
def pace() -> Hurry:
    return Hurry()


@pytest.fixture
def join(manager: Manager, tmp_path: Path, pace: Hurry) -> Iterator[Callable[..., Link]]:
    """Makes links, and stops them in the end."""
    links: list[Link] = []

    def make(**changes: Any) -> Link:
        own_fields: dict[str, Any] = {
            "url": manager.url,
            "app": "shop",
            "operators": ("parse", "count"),
            "token": TOKEN,
            "folder": tmp_path / "link",
            "instance": "driver-1",
        }
        own = {"wait_s": 5.0, "pacer": pace} | {key: changes.pop(key) for key in list(changes) if key in OWN}
        link = Link(**(own_fields | changes), settings=LinkSettings(**own))
        links.append(link)
        link.start()
        return link

    yield make
    for link in links:
        link.stop()
        assert not any(thread.is_alive() for thread in link.threads)
