"""Make and check tokens; the secret is shown once and stored nowhere.

A secret has 256 random bits, so one round of SHA-256 is enough to store it by: there is nothing to guess.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable
from hashlib import sha256

from scaler.model.errors import BadInput
from tuner.store.connection import Session
from tuner.store.records import Token
from tuner.store.tokens import add_token

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


PREFIX = "ts_"
PAGE_PREFIX = "tp_"  # of what a page session's cookie holds
SECRET = re.compile(r"t[sp]_[A-Za-z0-9_-]{43}")
MAX_TOKEN_NAME = 100


def make_secret(prefix: str = PREFIX) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, token: Token) -> bool:
    """In the same time, however much of it is right."""
    return hmac.compare_digest(digest(secret), token.digest)


def is_live(token: Token, now: float) -> bool:
    return token.revoked is None and (token.expires is None or now < token.expires)


def make_token(
    session: Session, name: str, scopes: Iterable[str], made_by: str, now: float, expires: float | None = None
) -> tuple[Token, str]:
    """Keep a new token; it and its secret."""
    check_name(name)
    secret = make_secret()
    token = Token(name, digest(secret), join_scopes(scopes), made_by, now, expires)
    return add_token(session, token), secret


def check_name(name: str) -> None:
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > MAX_TOKEN_NAME:
        raise BadInput(
            f"the token's name is {name[:MAX_TOKEN_NAME]!r}, and must be 1 to {MAX_TOKEN_NAME} visible characters "
            "that neither begin nor end with a space"
        )
