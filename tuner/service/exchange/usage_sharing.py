"""Share the quotas of report bytes among the managers of one database: each tells the others what it let through.

It tells of an application or a token once a second, when that has used a second's worth, so that most are never told
of, and N managers let through N seconds' worth too much at most. Requests and wrong tokens are limited by each manager
for itself: these limits guard its processor, while quotas guard the database that all share.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections import Counter
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scaler.model.errors import Retry
from tuner.service.access.gate import APPLICATION, MAX_BUCKETS, Buckets, Quotas
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.runs import name_owner
from tuner.store.wakeups import USAGE, send_wakeup

log = logging.getLogger(__name__)
SHARE_S = 1.0


@dataclass(slots=True)
class UsageSharing:
    """One manager's part in it."""

    store: Store
    quotas: Quotas
    manager: str = field(default_factory=name_owner)

    async def run(self) -> None:
        """Tell the others every second, until cancelled; on SQLite there are none."""
        if self.store.address.path is not None:
            return
        self.quotas.untold = Counter()
        while True:
            await asyncio.sleep(SHARE_S)
            await self.tell()

    async def tell(self) -> None:
        """Tell of who used a second's worth since it was told of; what cannot be told is forgotten."""
        untold: Counter[tuple[str, Hashable]] = self.quotas.untold or Counter()
        told = {one: size for one, size in untold.items() if size >= SHARE_S * self.buckets_of(one[0]).rate}
        for one in untold.copy() if len(untold) > MAX_BUCKETS else told:
            del untold[one]
        if told:
            try:
                await asyncio.to_thread(self.send, told)
            except (Retry, DatabaseFault) as error:
                log.debug("usage could not be told: %s", error)

    def send(self, told: dict[tuple[str, Hashable], int]) -> None:
        with self.store.begin() as session:
            for (kind, key), size in told.items():
                send_wakeup(session, USAGE, json.dumps([self.manager, kind, key, size]))

    def receive(self, said: str) -> None:
        """Charge what another manager let through; another release may say it otherwise, and anybody nonsense."""
        with suppress(ValueError, TypeError, OverflowError, RecursionError):
            manager, kind, key, size = json.loads(said)
            if manager != self.manager and 0.0 < float(size) < math.inf:
                self.buckets_of(kind).drain(key, float(size))

    def buckets_of(self, kind: Any) -> Buckets:
        return self.quotas.applications if kind == APPLICATION else self.quotas.tokens
