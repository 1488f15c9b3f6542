"""Record refused tokens and log-ins in the audit log: a row an hour of each address, for anybody can send them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from scaler.model.errors import Retry
from tuner.service.access.token import SECRET, digest
from tuner.store.audit_log import add_event
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.records import EventRecord
from tuner.store.tokens import find_token

LOGGER = logging.getLogger(__name__)
RECORDED_S = 3600.0  # between two rows of the same address
MAX_ADDRESSES = 60  # with a row of their own in that time; a flood of many addresses fills no disk


@dataclass(slots=True)
class Refusals:
    """How many each address had since its last row."""

    counts: dict[str, tuple[float, int]] = field(default_factory=dict)  # by address; until when no row is due

    def count(self, address: str, now: float) -> int:
        """How many refusals a row is due for: this one and those since the last row; 0 where none is."""
        until, count = self.counts.get(address, (now, 0))
        if now < until:
            self.counts[address] = (until, count + 1)
            return 0
        if address not in self.counts and len(self.counts) >= MAX_ADDRESSES:
            self.counts = {one: held for one, held in self.counts.items() if now < held[0]}
            if len(self.counts) >= MAX_ADDRESSES:
                return 0
        self.counts[address] = (now + RECORDED_S, 0)
        return count + 1


def record_refusal(
    store: Store, address: str, what: str, sentence: str, count: int, now: float, token: str = ""
) -> None:
    """Write the row; that the database takes none changes nothing for who was refused."""
    more = f"; {count - 1} more refused since its last row" if count > 1 else ""
    about = {"refused": count, **({"token": token} if token else {})}
    event = EventRecord("", now, address, what, f"{sentence}{more}", about)
    try:
        store.write(lambda session: add_event(session, event))
    except (Retry, DatabaseFault) as error:
        LOGGER.warning("%d refusals of %s could not be recorded: %s", count, address, error)


def record_token_refusal(store: Store, address: str, secret: str, count: int, now: float) -> None:
    """The row names the token where there was one of this secret."""
    name = find_name(store, secret)
    brought = f"the token {name!r}, which is revoked or expired" if name else "a wrong token"
    record_refusal(store, address, "token refused", f"{address} brought {brought}", count, now, name)


def find_name(store: Store, secret: str) -> str:
    """Of the token of this secret, live or not; "" where there never was one, or the database does not say."""
    if not SECRET.fullmatch(secret):
        return ""
    try:
        with store.read() as session:
            token = find_token(session, digest(secret))
    except (Retry, DatabaseFault):
        return ""
    return "" if token is None else token.name
