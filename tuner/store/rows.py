"""Conditions, locks and numbers that statements of both databases need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import ColumnElement, CursorResult, Select, func, select, text
from sqlalchemy.orm import Session


def given(*tests: tuple[Any, Callable[[Any, Any], Any], Any]) -> list[ColumnElement[bool]]:
    """Each (column, comparison, value) as a condition; a value of None asks nothing."""
    return [compare(column, value) for column, compare, value in tests if value is not None]


def dialect(session: Session) -> str:
    return session.get_bind().dialect.name


def lock_turn(session: Session, what: str) -> None:
    """Let one transaction at a time number the next of `what`; SQLite has one writer at a time anyway."""
    if dialect(session) == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:what, 0))"), {"what": what})


def next_number(session: Session, numbers: Select[Any]) -> int:
    return (session.scalar(select(func.max(numbers.subquery().c[0]))) or 0) + 1


def count_changed(result: Any) -> int:
    """How many rows a statement wrote."""
    assert isinstance(result, CursorResult)
    return result.rowcount
