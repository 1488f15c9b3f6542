"""Tokens by the digest of their secret, with their scopes."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import or_, update
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from tuner.store.faults import require
from tuner.store.records import Token
from tuner.store.tables import TOKENS


def add_token(session: Session, token: Token) -> Token:
    """Keep it; the same with its id."""
    if TOKENS.find(session, TOKENS.c.name == token.name) is not None:
        raise BadInput(f"there is a token {token.name!r} already; choose another name, or revoke it and choose another")
    return TOKENS.add(session, token)


def find_token(session: Session, digest: str) -> Token | None:
    """The token of this digest, valid or not; compare the digests again in constant time."""
    return TOKENS.find(session, TOKENS.c.digest == digest)


def list_tokens(session: Session, sessions: bool = False) -> list[Token]:
    """The oldest first; those of the page's sessions too if asked for."""
    query = TOKENS.select() if sessions else TOKENS.select(TOKENS.c.parent_id.is_(None))
    return TOKENS.load(session, query.order_by(TOKENS.c.id))


def revoke_token(session: Session, name: str, now: float) -> Token:
    """Refuse it from now on, and the sessions that it opened; it stays on record."""
    missing = f"there is no token {name!r}; see them with: tuner token list"
    token = require(TOKENS.find(session, TOKENS.c.name == name), missing)
    both = or_(TOKENS.c.id == token.id, TOKENS.c.parent_id == token.id)
    session.execute(update(TOKENS.table).where(both, TOKENS.c.revoked.is_(None)).values(revoked=now))
    return replace(token, revoked=now if token.revoked is None else token.revoked)


def record_token_use(session: Session, token_id: int, now: float) -> None:
    session.execute(update(TOKENS.table).where(TOKENS.c.id == token_id).values(used=now))
