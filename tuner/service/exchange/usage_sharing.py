"""Share quotas among the managers of one database: each writes what it let through, and charges what the others did.

That is written once a second, of whoever used a second's worth, so that of most nothing is ever written, and N managers
let through N seconds' worth too much at most. Requests, log-ins and wrong tokens each manager limits for itself: these
limits guard its processor, while quotas guard the database that all share.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from scaler.model.errors import Retry
from tuner.service.access.gate import MAX_BUCKETS, Quotas
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.quota_uses import DEAD_S, Quota, delete_old_uses, list_uses, save_uses
from tuner.store.runs import name_owner

log = logging.getLogger(__name__)
SHARE_S = 1.0
MAX_SEEN = 10 * MAX_BUCKETS
Uses = Mapping[tuple[str, Quota], float]  # other managers' sums


@dataclass(slots=True)
class UsageSharing:
    """One manager's part in it."""

    store: Store
    quotas: Quotas
    manager: str = field(default_factory=name_owner)
    sums: Counter[Quota] = field(default_factory=Counter)  # of what this one wrote
    seen: dict[tuple[str, Quota], float] | None = None  # None: not read yet
    rounds: int = 0

    async def run(self) -> None:
        """Write and read every second, until cancelled; on SQLite there are no others."""
        if self.store.address.path is not None:
            return
        self.quotas.untold = Counter()
        while True:
            try:
                self.charge(await asyncio.to_thread(self.exchange, self.take_due()))
            except (Retry, DatabaseFault) as error:
                log.debug("usage could not be shared: %s", error)
            except Exception:
                log.exception("usage could not be shared")
            await asyncio.sleep(SHARE_S)

    def take_due(self) -> dict[Quota, float]:
        """The sums of those who used a second's worth since they were written last."""
        untold: Counter[Quota] = self.quotas.untold or Counter()
        shared = self.quotas.shared
        due = [one for one, size in untold.items() if size >= SHARE_S * shared[one[0]].rate]
        for one in due:
            self.sums[one] += untold.pop(one)
        while len(self.sums) > MAX_BUCKETS:
            del self.sums[next(iter(self.sums))]
        if len(untold) > MAX_BUCKETS:
            untold.clear()
        return {one: float(self.sums[one]) for one in due}

    def exchange(self, due: Mapping[Quota, float]) -> Uses:
        """Write these, and read what the others wrote."""
        self.rounds += 1
        ages = self.rounds % int(DEAD_S / SHARE_S) == 0
        if due or ages:
            with self.store.begin() as session:
                save_uses(session, self.manager, due)
                if ages:
                    delete_old_uses(session)
        with self.store.read() as session:
            return {(manager, quota): used for manager, quota, used in list_uses(session, self.manager)}

    def charge(self, found: Uses) -> None:
        """Charge what others let through since they were read last; nothing at the first reading."""
        is_first = self.seen is None
        seen = self.seen = self.seen or {}
        for one, used in found.items():
            kind, key = one[1]
            before = seen.pop(one, 0.0)
            seen[one] = used
            buckets = self.quotas.shared.get(kind)  # another release may have other kinds
            if buckets is not None and not is_first:
                buckets.drain(key, used - before if used >= before else used)  # less: it began to count anew
        while len(seen) > MAX_SEEN:
            del seen[next(iter(seen))]
