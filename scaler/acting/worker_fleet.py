"""How many workers of each node type are needed flows in; worker processes, started, watched and drained, flow out."""

from __future__ import annotations

import fcntl
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scaler.acting.worker_processes import (
    Found,
    Process,
    find_processes,
    forget,
    recall,
    signal_process,
    start_process,
)
from scaler.model.errors import BadInput, Retry

LOG = logging.getLogger("scaler.agent")
SHORT_LIFE_S = 20.0  # a worker that ends sooner by itself was started wrongly
FIRST_PAUSE_S, LONGEST_PAUSE_S = 2.0, 120.0
GRACE_S = 10.0  # from SIGTERM to SIGKILL


@dataclass(frozen=True, slots=True)
class Kind:
    """How workers of a node type are started; `environment` is added to theirs."""

    start: Sequence[str]
    slots: int = 1  # executors that one worker has room for
    most: int = 1  # workers
    shell: Sequence[str] = ("sh", "-c")
    environment: Mapping[str, str] = field(default_factory=dict)

    def workers(self, replicas: int) -> int:
        return min(self.most, math.ceil(replicas / self.slots))


@dataclass(slots=True)
class Fate:
    """What is known of a worker since we run: when it was started, told to go, asked to end."""

    started: float | None = None
    drained: float | None = None
    ended: float | None = None


@dataclass(slots=True)
class Pause:
    """Workers of a type that did not stay up: how many in a row, and until when no other is started."""

    times: int
    until: float
    says: str


class Fleet:
    """The workers that we started and that still run; for one thread at a time."""

    def __init__(
        self, kinds: Mapping[str, Kind], folder: Path, clock: Callable[[], float], linger: float, patience: float
    ) -> None:  # fmt: skip
        """`linger`: seconds that a worker stays though it is not needed; `patience`: for which executors may go on."""
        self.kinds, self.folder, self.clock, self.linger, self.patience = dict(kinds), folder, clock, linger, patience
        self.lock = take_folder(folder)
        self.owned: list[Process] = recall(folder)
        self.fates = {one.name: Fate() for one in self.owned}
        for one in self.owned:
            if self.mark(one).exists():
                self.fates[one.name].drained = clock()
        self.pauses: dict[str, Pause] = {}
        self.spare_since: dict[str, float] = {}

    def mark(self, one: Process) -> Path:
        """A file that tells those who come after us that the worker was told to go."""
        return self.folder / f"{one.name}.drained"

    def staying(self, node_type: str) -> list[Process]:
        return [one for one in self.owned if one.node_type == node_type and self.fates[one.name].drained is None]

    def count(self) -> dict[str, int] | None:
        """Workers that run and are to stay; None where a machine cannot be asked."""
        found = self.look_around()
        if len(found) < len({one.shell for one in self.owned}):
            return None
        self.forget_ended(found)
        return {name: len(self.staying(name)) for name in self.kinds}

    def look_around(self) -> dict[tuple[str, ...], Found]:
        """What runs on each machine on which we have workers, without those that do not answer."""
        found = {}
        for shell in {one.shell for one in self.owned}:
            try:
                found[shell] = find_processes(shell)
            except Retry as error:
                LOG.warning("workers cannot be looked for: %s", error)
        return found

    def tend(self, needed: Mapping[str, int], hasty: bool, drains: bool = True) -> None:
        """Once: forget those that ended, start what is missing, drain what is too much, go on with draining.

        Workers with executors are drained only after `patience`, unless `hasty`: whoever has the executors takes away
        those to go, and what remains would have to move for nothing. Without `drains` it is not known what is too much.
        """
        found = self.look_around()
        self.forget_ended(found)
        now = self.clock()
        for name in self.kinds:
            spare = len(self.staying(name)) - needed.get(name, 0)
            if spare <= 0 or not drains:
                self.spare_since.pop(name, None)
                if name not in self.pauses or now >= self.pauses[name].until:
                    for _ in range(-spare):
                        self.start(name)
                continue
            since = now - self.spare_since.setdefault(name, now)
            if since >= self.linger:
                self.drain(name, spare, found, hasty or since >= self.linger + self.patience)
        for one in self.owned:
            if one.shell in found and self.fates[one.name].drained is not None:
                self.go_on_draining(one, found[one.shell].children(one))

    def forget_ended(self, found: Mapping[tuple[str, ...], Found]) -> None:
        for one in [one for one in self.owned if one.shell in found and one not in found[one.shell]]:
            self.owned.remove(one)
            fate, now = self.fates.pop(one.name), self.clock()
            forget(self.folder, one)
            self.mark(one).unlink(missing_ok=True)
            LOG.info("worker %s (%d) has ended", one.name, one.number)
            if fate.drained is None and fate.started is not None and now - fate.started < SHORT_LIFE_S:
                times = self.pauses[one.node_type].times + 1 if one.node_type in self.pauses else 1
                says = f"a worker of node type {one.node_type!r} ended as soon as it ran; see {one.name}.log"
                pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(times - 1, 20))
                self.pauses[one.node_type] = Pause(times, now + pause, says)
            elif fate.drained is None:
                self.pauses.pop(one.node_type, None)

    def problem(self, node_type: str) -> str | None:
        """Why no worker of this type stays up, until one has."""
        pause = self.pauses.get(node_type)
        grown = any(
            (self.fates[one.name].started or 0.0) + SHORT_LIFE_S < self.clock() for one in self.staying(node_type)
        )
        return None if pause is None or grown else pause.says

    def start(self, node_type: str) -> None:
        kind = self.kinds[node_type]
        taken = {one.name for one in self.owned}
        name = next(f"{node_type}-{i}" for i in range(1, len(taken) + 2) if f"{node_type}-{i}" not in taken)
        words = [word.replace("{node_type}", node_type).replace("{worker}", name) for word in kind.start]
        one = start_process(self.folder, name, node_type, words, tuple(kind.shell), kind.environment)
        self.owned.append(one)
        self.fates[name] = Fate(started=self.clock())
        LOG.info("worker %s (%d) was started", name, one.number)

    def drain(self, node_type: str, spare: int, found: Mapping[tuple[str, ...], Found], busy_too: bool) -> None:
        """Tell so many to go, those with the fewest executors first."""
        mine = [one for one in self.staying(node_type) if one.shell in found]
        mine.sort(key=lambda one: (found[one.shell].children(one), one.name))
        for one in mine[:spare]:
            if busy_too or not found[one.shell].children(one):
                LOG.info("worker %s (%d) is drained", one.name, one.number)
                self.mark(one).touch()
                self.fates[one.name].drained = self.clock()
                signal_process(one, "PWR")

    def go_on_draining(self, one: Process, executors: int) -> None:
        fate, now = self.fates[one.name], self.clock()
        drained = now if fate.drained is None else fate.drained
        if fate.ended is None and now > drained and (not executors or now >= drained + self.patience):
            fate.ended = now
            signal_process(one, "TERM")
        elif fate.ended is not None and now >= fate.ended + GRACE_S:
            signal_process(one, "KILL")

    def close(self) -> None:
        os.close(self.lock)


def take_folder(folder: Path) -> int:
    """Held until it is closed, or we end; two of us would start and end each other's workers."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise BadInput(
            f"the workers of {folder} are somebody else's now; end that driver, or name another folder"
        ) from None
    return lock
