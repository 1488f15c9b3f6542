"""Scopes of tokens, and the text that the database stores of them."""

from __future__ import annotations

from collections.abc import Iterable

from scaler.model.errors import BadInput

SCOPES: dict[str, str] = {
    "report": "What a scaler does: send samples and decisions, fetch its orders and acknowledge them.",
    "read": "Look at everything: the page, the lists, the metrics.",
    "tune": "Describe applications, and start, pause and stop their tuning.",
    "push": "Change what scalers do: push an objective, roll it back, pin, lock or block them.",
}


def join_scopes(names: Iterable[str]) -> str:
    """Each once, in the order of `SCOPES`."""
    given = set(names)
    wrong = sorted(given - SCOPES.keys())
    if wrong:
        raise BadInput(f"{wrong[0]!r} is no scope; it must be one of {', '.join(SCOPES)}")
    return " ".join(name for name in SCOPES if name in given)


def split_scopes(text: str) -> frozenset[str]:
    return frozenset(text.split())
