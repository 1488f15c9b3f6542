"""An application's own mark in the database flows in; which parts its history has, and who feeds whom, flow out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tuner.store.marks import load_marks
from tuner.store.records import SourceMark

if TYPE_CHECKING:
    from tuner.store.connection import Session

HISTORY = "history"  # the source under which an application's own mark stands
Edge = tuple[str, str]  # upstream, downstream


@dataclass(frozen=True, slots=True)
class HistoryPart:
    """What one reading added."""

    id: str
    rows: int
    first: float  # the earliest start
    last: float  # the latest end
    longest: float  # seconds from start to end of one sample


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the database knows of an application's history."""

    window_s: float
    parts: tuple[HistoryPart, ...] = ()
    begun: tuple[str, ...] = ()  # named before they were written, and not counted on yet
    links: tuple[Edge, ...] = ()  # between operators, of all that was read


def read_ledger(mark: SourceMark) -> Ledger:
    detail: Any = mark.detail
    parts = tuple(HistoryPart(**part) for part in detail["parts"])
    links = tuple((upstream, downstream) for upstream, downstream in detail["links"])
    return Ledger(detail["window_s"], parts, tuple(detail["begun"]), links)


def load_links(session: Session, application: str) -> tuple[Edge, ...]:
    """The streams between an application's operators, as far as its monitoring tells."""
    mark = load_marks(session, application).get(HISTORY)
    return read_ledger(mark).links if mark is not None else ()
