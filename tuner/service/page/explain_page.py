"""Explain what each operator's scaler decided in a slot, for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scaler.model.errors import BadInput
from tuner.history.explanation import Account, Explanation, explain
from tuner.service.page.links import link_explanation
from tuner.store.connection import Session
from tuner.store.decisions import find_decision_time
from tuner.store.faults import NotFound
from tuner.views.explanation_lines import head, list_parts

TABLED = ("worth",)  # of the parts, what has a table of its own
LATEST = 4_102_444_800.0


@dataclass(frozen=True, slots=True)
class OperatorSection:
    """One operator: the head of its answer, its parts, and links to the slots beside."""

    account: Account
    head: str
    parts: Sequence[tuple[str, str]]  # label and sentence
    earlier: str | None
    later: str | None


@dataclass(frozen=True, slots=True)
class ExplanationView:
    explanation: Explanation
    operators: Sequence[OperatorSection]


def gather_explanation(session: Session, app: str, at: float | None, operator: str, now: float) -> ExplanationView:
    """The explanation of the slot at this time, or of the newest ones."""
    if at is not None and not 0.0 <= at <= LATEST:
        raise BadInput(f"at is {at:g}, and must be a time like 2026-03-12T14:20")
    found = explain(session, app, at, operator or None, now)
    if not found.operators:
        raise NotFound(f"{found.says} {found.do}")
    described: set[int] = set()
    sections = []
    for account in found.operators:
        parts = [(label, text) for label, text in list_parts(account, described) if label not in TABLED]
        earlier, later = find_slots_beside(session, app, account)
        links = (link_beside(app, account.operator, earlier), link_beside(app, account.operator, later))
        sections.append(OperatorSection(account, head(found, account), parts, *links))
    return ExplanationView(found, sections)


def find_slots_beside(session: Session, app: str, account: Account) -> tuple[float | None, float | None]:
    """The operator's slots before and after this one."""
    if account.decision is None:
        return None, None
    start = account.decision.time
    return (
        find_decision_time(session, app, account.operator, before=start),
        find_decision_time(session, app, account.operator, after=start),
    )


def link_beside(app: str, operator: str, time: float | None) -> str | None:
    """To the operator's slot at this time."""
    return None if time is None else link_explanation(app, operator, time)
