"""Tokens by the digest of their secret, with their scopes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, bindparam, or_, update
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from tuner.store.faults import require
from tuner.store.records import Token
from tuner.store.tables import BATCH, TOKENS


def add_token(session: Session, token: Token) -> Token:
    """Keep it; the same with its id."""
    if has_name(session, token.name):
        raise BadInput(f"there is a token {token.name!r} already; choose another name, or revoke it and choose another")
    return TOKENS.add(session, token)


def find_token(session: Session, digest: str) -> Token | None:
    """The token of this digest, valid or not; compare the digests again in constant time."""
    return TOKENS.find(session, TOKENS.c.digest == digest)


def find_tokens(session: Session, digests: Iterable[str]) -> dict[str, Token]:
    """Tokens of these digests, valid or not, by digest."""
    return {token.digest: token for token in load_among(session, TOKENS.c.digest, digests)}


def find_openers(session: Session, tokens: Iterable[Token]) -> dict[int, Token]:
    """The tokens that opened those of these that are page sessions, by id."""
    wanted = {token.parent_id for token in tokens if token.parent_id is not None}
    return {token.id: token for token in load_among(session, TOKENS.c.id, wanted) if token.id is not None}


def load_among(session: Session, column: ColumnElement[Any], values: Iterable[Any]) -> Iterator[Token]:
    ordered = sorted(values)
    for first in range(0, len(ordered), BATCH):
        yield from TOKENS.load(session, TOKENS.select(column.in_(ordered[first : first + BATCH])))


def has_name(session: Session, name: str) -> bool:
    return TOKENS.find(session, TOKENS.c.name == name) is not None


def load_token(session: Session, name: str) -> Token:
    missing = f"there is no token {name!r}; see them with: tuner token list"
    return require(TOKENS.find(session, TOKENS.c.name == name), missing)


def replace_name(session: Session, token: Token, name: str, expires: float) -> None:
    """Let a token go on under another name until it expires, so that its own can be given anew."""
    session.execute(update(TOKENS.table).where(TOKENS.c.id == token.id).values(name=name, expires=expires))


def replace_rights(
    session: Session, token: Token, scopes: str, applications: list[str] | None, expires: float, now: float
) -> None:
    """Give a token other rights until another time; sessions with the rights before end where these differ."""
    values = {"scopes": scopes, "applications": applications, "expires": expires}
    session.execute(update(TOKENS.table).where(TOKENS.c.id == token.id).values(values))
    if (token.scopes, token.applications) != (scopes, applications):
        end_sessions(session, token, now)


def end_sessions(session: Session, token: Token, now: float) -> None:
    live = (TOKENS.c.parent_id == token.id, TOKENS.c.revoked.is_(None))
    session.execute(update(TOKENS.table).where(*live).values(revoked=now))


def readmit_token(session: Session, token: Token) -> None:
    """Take back that it was revoked."""
    session.execute(update(TOKENS.table).where(TOKENS.c.id == token.id).values(revoked=None))


def list_tokens(session: Session, sessions: bool = False) -> list[Token]:
    """The oldest first; those of the page's sessions too if asked for."""
    query = TOKENS.select() if sessions else TOKENS.select(TOKENS.c.parent_id.is_(None))
    return TOKENS.load(session, query.order_by(TOKENS.c.id))


def revoke_token(session: Session, name: str, now: float) -> Token:
    """Refuse it from now on, and the sessions that it opened; it stays on record."""
    token = load_token(session, name)
    both = or_(TOKENS.c.id == token.id, TOKENS.c.parent_id == token.id)
    session.execute(update(TOKENS.table).where(both, TOKENS.c.revoked.is_(None)).values(revoked=now))
    return replace(token, revoked=now if token.revoked is None else token.revoked)


def record_token_uses(session: Session, uses: Mapping[int, float]) -> None:
    """When each was used, by id."""
    statement = update(TOKENS.table).where(TOKENS.c.id == bindparam("token")).values(used=bindparam("at"))
    session.connection().execute(statement, [{"token": one, "at": at} for one, at in sorted(uses.items())])
