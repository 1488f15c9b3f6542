"""Make and check tokens; the secret is shown once and stored nowhere.

A secret has 256 random bits, so one round of SHA-256 is enough to store it by: there is nothing to guess.
"""

from __future__ import annotations

import hmac
import re
import secrets
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from ipaddress import ip_network

from scaler.model.errors import BadInput
from scaler.model.units import format_moment, join_words
from tuner.store.audit_log import PROGRAMS, add_event
from tuner.store.connection import Session
from tuner.store.records import EventRecord, Token
from tuner.store.tokens import add_token, list_tokens, load_token, replace_name, revoke_token

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
LIFE_S = 90 * 86_400.0  # of a token that was made without another
SOON_S = 14 * 86_400.0  # before a token expires, when to say so
IN_USE_S = 7 * 86_400.0  # since its last use, for which a token counts as used
REPLACED_IN_USE_S = 3600.0  # the same, of a secret that was replaced: whoever has it should have the next one
BY_LOGIN = "log-in by "  # who made the entry of a person who logs in at a provider, whose name follows
REPLACED = re.compile(r".* until .* #\d+")  # as `rotate_token` names it


def make_secret(prefix: str = PREFIX) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()


def matches(secret: str, token: Token) -> bool:
    """In the same time, however much of it is right."""
    return hmac.compare_digest(digest(secret), token.digest)


def is_live(token: Token, now: float) -> bool:
    return token.revoked is None and (token.expires is None or now < token.expires)


def expires_soon(expires: float | None, now: float) -> bool:
    return expires is not None and now < expires <= now + SOON_S


def is_person(token: Token) -> bool:
    """Whether it stands for a person who logs in at a provider; it has no secret, and carries the sessions."""
    return token.made_by.startswith(BY_LOGIN)


def list_expiring(session: Session, now: float) -> list[Token]:
    """Tokens in use that expire, the first one first."""
    spans = ((one, REPLACED_IN_USE_S if REPLACED.fullmatch(one.name) else IN_USE_S) for one in list_tokens(session))
    used = (one for one, span in spans if one.used is not None and now - one.used <= span and is_live(one, now))
    return sorted((one for one in used if one.expires is not None), key=lambda one: one.expires or 0.0)


def describe_expiry(name: str, expires: float | None) -> str:
    """A sentence with what to do."""
    if REPLACED.fullmatch(name):
        return f"the token {name!r} was rotated and is still in use; give who uses it the secret that replaced it"
    return (
        f"the token {name!r} expires at {format_moment(expires)}; make its next secret with: tuner token rotate {name}"
    )


def make_token(
    session: Session, name: str, scopes: Iterable[str], made_by: str, now: float, expires: float | None = None,
    applications: Iterable[str] | None = None,
) -> tuple[Token, str]:  # fmt: skip
    """Keep a new token, for these applications or for all; it and its secret."""
    check_name(name)
    named = None if applications is None else sorted(set(applications))
    made, secret = add_secret(session, Token(name, "", join_scopes(scopes), made_by, now, expires, applications=named))
    record_act(session, made, made_by, "made", now)
    return made, secret


def add_secret(session: Session, token: Token) -> tuple[Token, str]:
    """Keep the token with a new secret."""
    secret = make_secret()
    return add_token(session, replace(token, digest=digest(secret))), secret


def record_act(session: Session, token: Token, who: str, act: str, now: float) -> None:
    """A row of the audit log: who did what to the token, and what it may."""
    rights = {"scopes": token.scopes.split(), "applications": token.applications, "expires": token.expires}
    of = "all applications" if token.applications is None else join_words(token.applications)
    message = f"{who} {act} the token {token.name!r}: {token.scopes.replace(' ', ', ')} of {of}"
    add_event(session, EventRecord("", now, who, f"token {act}", message, {"token": token.name, **rights}))


def end_token(session: Session, name: str, who: str, now: float) -> Token:
    """Revoke a token, its sessions and the secrets that it was rotated from; what was revoked before stays as it is."""
    before = load_token(session, name)
    earlier = [one for one in list_tokens(session) if one.name.startswith(f"{name} until ")]
    for token in (*(one for one in earlier if REPLACED.fullmatch(one.name)), before):
        revoked = revoke_token(session, token.name, now)
        if token.revoked is None:
            record_act(session, revoked, who, "revoked", now)
    return revoked


def rotate_token(session: Session, name: str, made_by: str, now: float, grace_s: float) -> tuple[Token, str]:
    """Give a token's name and rights to a new secret, for as long again; the one before ends after the grace."""
    before = load_token(session, name)
    if REPLACED.fullmatch(name):
        raise BadInput(f"{name!r} was replaced already; rotate the token of its first name, or let it expire")
    if is_person(before):
        raise BadInput(f"{name!r} is a person who logs in at a provider, and has no secret; name another one")
    if before.parent_id is not None or not is_live(before, now):
        raise BadInput(f"token {name!r} is revoked or expired; make another one with: tuner token make")
    end = now + grace_s if before.expires is None else min(before.expires, now + grace_s)
    replace_name(session, before, f"{name[:MAX_TOKEN_NAME]} until {format_moment(end)} #{before.id}", end)
    expires = None if before.expires is None else now + before.expires - before.created
    after = Token(name, "", before.scopes, made_by, now, expires, applications=before.applications)
    made, secret = add_secret(session, after)
    record_act(session, made, made_by, "rotated", now)
    return made, secret


def is_reserved(name: str) -> bool:
    """Whether the audit log names a program or an address so; spelled in another way too."""
    plain = re.sub(r"[\W_]", "", unicodedata.normalize("NFKC", name)).casefold()
    if plain in {program.replace(" ", "") for program in PROGRAMS}:
        return True
    try:
        return bool(ip_network(name.strip(), strict=False))
    except ValueError:
        return False


def check_name(name: str) -> None:
    if is_reserved(name):
        raise BadInput(f"{name[:MAX_TOKEN_NAME]!r} is how the audit log names a program or an address; choose another")
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > MAX_TOKEN_NAME:
        raise BadInput(
            f"the token's name is {name[:MAX_TOKEN_NAME]!r}, and must be 1 to {MAX_TOKEN_NAME} visible characters "
            "that neither begin nor end with a space"
        )
