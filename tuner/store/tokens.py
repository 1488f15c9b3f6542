"""Tokens by the digest of their secret, with their scopes."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import insert, or_, select, update
from sqlalchemy.orm import Session

from scaler.model.errors import BadInput
from tuner.store.faults import NotFound
from tuner.store.models import TokenRow
from tuner.store.records import Token
from tuner.store.rows import columns_of, to_columns

COLUMNS = columns_of(TokenRow, Token)


def add_token(session: Session, token: Token) -> Token:
    """Keep it; the same with its id."""
    if session.scalar(select(TokenRow.id).where(TokenRow.name == token.name)) is not None:
        raise BadInput(f"there is a token {token.name!r} already; choose another name, or revoke it and choose another")
    return replace(token, id=session.scalar(insert(TokenRow).values(to_columns(token)).returning(TokenRow.id)))


def find_token(session: Session, digest: str) -> Token | None:
    """The token of this digest, valid or not; compare the digests again in constant time."""
    row = session.execute(select(*COLUMNS).where(TokenRow.digest == digest)).first()
    return None if row is None else Token(**row._mapping)


def list_tokens(session: Session, sessions: bool = False) -> list[Token]:
    """The oldest first; those of the page's sessions too if asked for."""
    query = select(*COLUMNS).order_by(TokenRow.id)
    if not sessions:
        query = query.where(TokenRow.parent_id.is_(None))
    return [Token(**row._mapping) for row in session.execute(query)]


def revoke_token(session: Session, name: str, now: float) -> Token:
    """Refuse it from now on, and the sessions that it opened; it stays on record."""
    row = session.execute(select(*COLUMNS).where(TokenRow.name == name)).first()
    if row is None:
        raise NotFound(f"there is no token {name!r}; see them with: tuner token list")
    token = Token(**row._mapping)
    both = or_(TokenRow.id == token.id, TokenRow.parent_id == token.id)
    session.execute(update(TokenRow).where(both, TokenRow.revoked.is_(None)).values(revoked=now))
    return replace(token, revoked=now if token.revoked is None else token.revoked)


def record_token_use(session: Session, token_id: int, now: float) -> None:
    session.execute(update(TokenRow).where(TokenRow.id == token_id).values(used=now))
