"""List an application's decisions page by page, filtered by the query string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scaler.model.decision import KINDS
from scaler.model.errors import BadInput
from tuner.service.page.links import link_application
from tuner.service.page.time_range import TimeRange
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.records import DecisionRecord

PAGE = 50
PART = "decisions"


@dataclass(frozen=True, slots=True)
class Filters:
    """Which decisions, besides when; after which one the page begins."""

    kinds: tuple[str, ...] = ()
    operator: str = ""
    version: int | None = None
    after: tuple[float, str] | None = None

    @property
    def query(self) -> dict[str, str | tuple[str, ...]]:
        return {
            "kind": self.kinds,
            "operator": self.operator,
            "version": "" if self.version is None else f"{self.version}",
        }


@dataclass(frozen=True, slots=True)
class DecisionList:
    filters: Filters
    rows: Sequence[DecisionRecord]
    newest: str | None  # link to the first page, where this is another one
    older: str | None


def read_filters(query: Mapping[str, str], kinds: Sequence[str]) -> Filters:
    for kind in kinds:
        if kind not in KINDS:
            raise BadInput(f"kind is {kind[:40]!r}, and must be one of {', '.join(KINDS)}")
    version = query.get("version", "").strip()
    if version and not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise BadInput(f"version is {version[:40]!r}, and must be the number of an objective")
    after = read_cursor(query["after"]) if query.get("after") else None
    return Filters(tuple(kinds), query.get("operator", ""), int(version) if version else None, after)


def read_cursor(text: str) -> tuple[float, str]:
    """Time and operator of the last decision on the page before."""
    time, _, operator = text.partition("~")
    try:
        return float(time), operator
    except ValueError:
        raise BadInput(f"after is {text[:40]!r}, which no link of this page says") from None


def find_decisions(session: Session, app: str, window: TimeRange, filters: Filters) -> DecisionList:
    """One page; one decision more is read than shown, to find out whether there are older ones."""
    rows = list_decisions(
        session, app, [filters.operator] if filters.operator else None, filters.kinds or None, window.since,
        window.until, PAGE + 1, filters.after, filters.version,
    )  # fmt: skip
    shown, same = rows[:PAGE], {**window.query, **filters.query}
    older = None
    if len(rows) > PAGE:
        last = shown[-1]
        older = link_application(app, {**same, "after": f"{last.time!r}~{last.operator}"}, PART)
    newest = None if filters.after is None else link_application(app, same, PART)
    return DecisionList(filters, shown, newest, older)
