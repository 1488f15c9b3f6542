"""List an application's decisions page by page, filtered by the query string, and explain those of a slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scaler.model.decision import ACTUATION_FAILED, BLOCKED, DRY_RUN, KINDS, SCALED
from scaler.model.errors import BadInput
from tuner.history.explanation import Account, explain
from tuner.service.page.address import LATEST, TimeRange, check_choice, link_application, link_explanation, read_version
from tuner.store.connection import Session
from tuner.store.decisions import find_decision_time, list_decisions
from tuner.store.faults import NotFound
from tuner.store.records import DecisionRecord
from tuner.views.explanation_lines import list_parts, name_change

DECISIONS_PER_PAGE = 50
TAB = "decisions"
CHANGES = (SCALED, BLOCKED, ACTUATION_FAILED, DRY_RUN)  # and what stood in their way
EVERY = "all"
TABLED = ("costs",)  # of an explanation's parts, what has a table of its own
LINKED = ": --at "  # in advice for the command line, where the page has links to the slots beside


@dataclass(frozen=True, slots=True)
class Filters:
    """Which decisions, besides when: changes and blocks by default; after which one the page begins."""

    kinds: tuple[str, ...] = CHANGES
    operator: str = ""
    version: int | None = None
    after: tuple[float, str] | None = None

    @property
    def every(self) -> bool:
        return set(self.kinds) == set(KINDS)

    @property
    def query(self) -> dict[str, str | tuple[str, ...]]:
        kinds = () if self.kinds == CHANGES else (EVERY,) if self.every else self.kinds
        return {
            "kind": kinds,
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
    version = query.get("version", "").strip()
    named = tuple(check_choice("kind", kind, (*KINDS, EVERY)) for kind in kinds)
    return Filters(
        KINDS if EVERY in named else tuple(kind for kind in KINDS if kind in named) or CHANGES,
        query.get("operator", ""),
        read_version(version) if version else None,
        read_cursor(query["after"]) if query.get("after") else None,
    )


def read_cursor(text: str) -> tuple[float, str]:
    """Time and operator of the last decision on the page before."""
    time, _, operator = text.partition("~")
    try:
        return float(time), operator
    except ValueError:
        raise BadInput(f"after is {text[:40]!r}, which no link of this page says") from None


def find_decisions(session: Session, app: str, window: TimeRange, filters: Filters) -> DecisionList:
    """One page; one decision more is read than shown, to find out whether there are older ones."""
    operators = [filters.operator] if filters.operator else None
    kinds = None if filters.every else filters.kinds
    rows = list_decisions(
        session, app, operators, kinds, window.since, window.until, DECISIONS_PER_PAGE + 1, filters.after,
        filters.version,
    )  # fmt: skip
    shown, same = rows[:DECISIONS_PER_PAGE], {**window.query, **filters.query}
    older = None
    if len(rows) > DECISIONS_PER_PAGE:
        last = shown[-1]
        older = link_application(app, {**same, "after": f"{last.time!r}~{last.operator}"}, TAB)
    newest = None if filters.after is None else link_application(app, same, TAB)
    return DecisionList(filters, shown, newest, older)


@dataclass(frozen=True, slots=True)
class OperatorSection:
    """One operator: the change that its decision is about, its parts, and links to the slots beside."""

    account: Account
    change: str
    parts: Sequence[tuple[str, str]]  # label and sentence
    earlier: str | None
    later: str | None


def gather_explanation(session: Session, app: str, at: float | None, operator: str, now: float) -> dict[str, Any]:
    """The explanation of the slot at this time, or of the newest ones, by operator."""
    if at is not None and not 0.0 <= at <= LATEST:
        raise BadInput(f"at is {at:g}, and must be a time like 2026-03-12T14:20")
    found = explain(session, app, at, operator or None, now)
    if not found.operators:
        raise NotFound(f"{found.message} {found.advice}")
    described: set[int] = set()
    sections = []
    for account in found.operators:
        parts = [part for part in list_parts(account, described) if part[0] not in TABLED and LINKED not in part[1]]
        change = "" if account.decision is None else name_change(account.decision).partition(" ")[2]
        sections.append(OperatorSection(account, change, parts, *link_slots_beside(session, app, account, at)))
    return {"explanation": found, "operators": sections, "alone": bool(operator)}


def link_slots_beside(session: Session, app: str, account: Account, at: float | None) -> tuple[str | None, str | None]:
    """Links to the operator's slots before and after this one, or before and after a time without one."""
    name, start = account.operator, at if account.decision is None else account.decision.time
    if start is None:
        return None, None
    times = (find_decision_time(session, app, name, **side) for side in ({"before": start}, {"after": start}))
    earlier, later = (None if time is None else link_explanation(app, name, time) for time in times)
    return earlier, later
