"""Triggers and signs of one query flow in as they are reported; what is kept of them flows out as one value."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

from scaler.model.spark_progress import Sign, Trigger

KEPT = 8192  # triggers of a query, at some 400 bytes each
SIGNS = 1024
EARLIER = 1000  # triggers before a slot that its reading takes into account
STARTED, TRIGGER, IDLE, ENDED = "started", "trigger", "idle", "ended"
by_time = attrgetter("time")


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of one query, each in order of time."""

    triggers: tuple[Trigger, ...] = ()
    started: tuple[Sign, ...] = ()
    idle: tuple[Sign, ...] = ()
    ended: tuple[Sign, ...] = ()

    def events(self) -> Iterator[tuple[str, Trigger | Sign]]:
        """All that says what came, in order of time: a run's start before its triggers, idleness after them."""
        kinds: tuple[tuple[str, Sequence[Trigger | Sign]], ...]
        kinds = (STARTED, self.started), (TRIGGER, self.triggers), (IDLE, self.idle)
        each = [(kind, event) for kind, events in kinds for event in events]
        yield from sorted(each, key=lambda pair: pair[1].time)  # which keeps the order of kinds at the same time


class History:
    """Not to be used by two threads at a time."""

    def __init__(self, kept: int = KEPT) -> None:
        self.triggers: deque[Trigger] = deque(maxlen=kept)
        self.signs: dict[str, deque[Sign]] = {kind: deque(maxlen=SIGNS) for kind in (STARTED, IDLE, ENDED)}

    def add(self, trigger: Trigger) -> None:
        """One that is there already is not added, one that comes late goes where it belongs."""
        last = self.triggers[-1] if self.triggers else None
        if last is None or trigger.time > last.time:
            self.triggers.append(trigger)
        elif all((t.run, t.batch, t.time) != (trigger.run, trigger.batch, trigger.time) for t in self.triggers):
            whole = list(self.triggers)
            insort(whole, trigger, key=by_time)
            self.triggers.clear()
            self.triggers.extend(whole)

    def note(self, kind: str, sign: Sign) -> None:
        """One that is there already is not added."""
        if sign not in self.signs[kind]:
            self.signs[kind].append(sign)

    def tell(self, start: float = -math.inf) -> Past:
        """All from this moment on, and enough before it to know what is usual and since when tuples wait."""
        triggers = tuple(self.triggers)
        first = max(0, bisect_left(triggers, start, key=by_time) - EARLIER)
        started, idle, ended = (tuple(sorted(self.signs[kind], key=by_time)) for kind in (STARTED, IDLE, ENDED))
        return Past(triggers[first:], started, idle, ended)
