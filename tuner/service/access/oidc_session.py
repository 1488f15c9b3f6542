"""Open sessions of the page for people who logged in at a provider.

A person has an entry among the tokens, found by issuer and subject. It has no secret, so that it lets nobody in by
itself, and the rights of the last log-in. `tuner token list` shows it; `tuner token revoke` ends its sessions, and bars
the person until `tuner token readmit`.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import replace

from scaler.model.errors import BadInput
from tuner.service.access.gate import Forbidden, Quotas
from tuner.service.access.logs import say
from tuner.service.access.oidc_settings import OidcSettings, Person
from tuner.service.access.page_session import SESSION_S, add_session, record_log_in
from tuner.service.access.token import BY_LOGIN, digest, is_reserved
from tuner.store.connection import Session, Store
from tuner.store.faults import IntegrityError
from tuner.store.records import Token
from tuner.store.tokens import add_token, end_sessions, find_token, has_name, replace_rights

LOGGER = logging.getLogger(__name__)
ENDED = "this log-in has ended already; begin it again"


def open_for_person(
    store: Store, settings: OidcSettings, person: Person, state: str, now: float, address: str = "",
    quotas: Quotas | None = None,
) -> str:  # fmt: skip
    """The session's secret; Forbidden for who may not, and for a state that opened one before, on any service."""
    if quotas is not None:
        quotas.charge_session(identify(person), person.name)
    opened: tuple[str, str] | None = None
    try:
        with store.begin() as session:
            entry = find_token(session, identify(person))
            if entry is not None and person.group is None:
                end_sessions(session, entry, now)
            elif person.group is not None and (entry is None or entry.revoked is None):
                admitted = admit_person(session, settings, person, entry, now)
                opened = admitted.name, add_session(session, admitted, now, state)
                record_log_in(session, admitted, now, address, f"by {settings.name}")
    except (BadInput, IntegrityError):  # its name is of the state, and stands already
        raise Forbidden(ENDED) from None
    if opened is not None:
        name, secret = opened
        say(LOGGER, logging.INFO, "logged in", f"{name} opened a session by {settings.name}", who=name)
        return secret
    if person.group is None:
        raise Forbidden(f"{person.name} is in none of the groups that may use this service; ask who runs it for one")
    raise Forbidden(f"{person.name} was revoked here; who runs this service readmits people: tuner token readmit")


def identify(person: Person) -> str:
    """What stands for a digest: no secret has it, for secrets begin otherwise."""
    return digest(f"{person.issuer} {person.subject}")


def admit_person(session: Session, settings: OidcSettings, person: Person, entry: Token | None, now: float) -> Token:
    """The person's entry, with the rights of the group from now on."""
    assert person.group is not None
    scopes, named, expires = person.group.scopes, person.group.applications, now + SESSION_S
    applications = None if named is None else list(named)
    if entry is not None:
        replace_rights(session, entry, scopes, applications, expires, now)
        return replace(entry, scopes=scopes, applications=applications, expires=expires)
    known = identify(person)
    is_taken = has_name(session, person.name) or is_reserved(person.name) or is_account(person.name)
    name = f"{person.name} #{known[:8]}" if is_taken else person.name
    return add_token(
        session, Token(name, known, scopes, f"{BY_LOGIN}{settings.name}", now, expires, applications=applications)
    )


def is_account(name: str) -> bool:
    """Whether the audit log may name so who ran a command (`anna@build7`); mail addresses have a dot in their host."""
    _, at, host = name.rpartition("@")
    return bool(at) and ("." not in host or host.casefold() == socket.gethostname().casefold())
