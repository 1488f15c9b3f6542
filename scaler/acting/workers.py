"""Targets flow in; worker processes of a standalone cluster are started and drained, so that executors find room.

It stands before another actuator (that of executors), as machines stand before what runs on them: a node type gets as
many workers as the targets of all operators need, `slots` executors each. Workers go once they are not needed: drained
(SIGPWR: Spark gives it no more executors, and decommissions those that it has), then ended (SIGTERM, then SIGKILL).

After a restart an operator that is content asks for nothing: until it asks, its executors are its target, as `inner`
counts them; where it cannot, no worker is drained. So workers of one that is gone for good stay for as long as Spark
leaves it its executors, which is until its application ends, and no longer. Without `inner` nobody can tell whose
workers they are: all stay until every operator that was ever asked about has asked.

    start = ["/opt/spark/bin/spark-class", "org.apache.spark.deploy.worker.Worker", "--properties-file",
             "/etc/spark/{node_type}.properties", "spark://master:7077"]

Placeholders: {node_type}, {worker}. The properties name a resources file that offers `node_<type>`, and set
spark.decommission.enabled. `shell` takes one command line: ["sh", "-c"] on this machine, ["ssh", "host"] for another.
Only processes that it started are ever signalled; it knows them, also after a restart of the driver, by files in
`folder` that hold a process's number, when it started and the boot that it started in. A folder is one application's.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from scaler.acting.actuator import Actuator
from scaler.acting.worker_fleet import Fleet, Kind
from scaler.model.errors import BadInput, Retry

LOG = logging.getLogger("scaler.agent")


class Workers:
    """`inner` has the executors; without one a replica is a worker, for clusters that fill their workers themselves."""

    def __init__(
        self, kinds: Mapping[str, Kind], folder: str, inner: Actuator | None = None, linger: float = 30.0,
        patience: float = 60.0, period: float = 1.0, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        for name, kind in kinds.items():
            if isinstance(kind.start, str) or isinstance(kind.shell, str) or not kind.start or not kind.shell:
                raise BadInput(f"node type {name!r}: start and shell must be lists of words")
            if kind.slots < 1 or kind.most < 0:
                raise BadInput(f"node type {name!r}: slots must be 1 or more, and most 0 or more")
        self.kinds, self.inner, self.period = dict(kinds), inner, period
        self.fleet = Fleet(kinds, Path(folder), clock, linger, patience)
        self.working = threading.Lock()  # for the fleet
        self.targets: dict[str, dict[str, int]] = {}
        self.known: set[str] = set(getattr(inner, "pinned", ()))  # operators, of which some may never ask
        self.changed = threading.Condition()  # for targets and known
        self.over = False
        self.thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Whatever `inner` does before anything is asked for."""
        getattr(self.inner, "prepare", lambda: None)()

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        """Executors where there is an actuator of them; else workers, of which operators then have the same."""
        if self.inner is not None:
            found = self.inner.deployed(operator)
        else:
            with self.working:
                found = self.fleet.count()
        with self.changed:
            self.known.add(operator)
        return found

    def room(self, operator: str, node_type: str) -> str | None:  # noqa: ARG002
        """What `inner` says of workers that are there now stands against nothing: one more can be started."""
        kind = self.kinds.get(node_type)
        if kind is None:
            return f"no worker of node type {node_type!r} can be started"
        wanted, _ = self.count_wanted()
        if wanted[node_type] + 1 > kind.slots * kind.most:
            return f"all {kind.most} workers of node type {node_type!r} are taken"
        with self.working:
            return self.fleet.problem(node_type)

    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        """Workers come and go on another thread; a target that `inner` refuses changes none."""
        for name, count in target.items():
            if name not in self.kinds:
                raise BadInput(f"no worker of node type {name!r} can be started, only of {', '.join(self.kinds)}")
            if count < 0:
                raise BadInput(f"operator {operator!r} cannot have {count} replicas of {name!r}")
        if self.over:
            raise Retry("the actuator is closed")
        if self.inner is not None:
            self.inner.ask(operator, target)
        with self.changed:
            self.targets[operator] = dict(target)
            if self.thread is None:
                self.thread = threading.Thread(target=self.tend_on, name="scaler-workers", daemon=True)
                self.thread.start()
            self.changed.notify_all()

    def count_wanted(self) -> tuple[dict[str, int], bool]:
        """Replicas by node type, of those that have not asked as they stand; whether all of these could be counted."""
        with self.changed:
            wanted: list[Mapping[str, int]] = list(self.targets.values())
            silent = sorted(self.known - set(self.targets))
        standing = [None if self.inner is None else self.inner.deployed(operator) for operator in silent]
        wanted += [counts for counts in standing if counts is not None]
        return {name: sum(counts.get(name, 0) for counts in wanted) for name in self.kinds}, None not in standing

    def tend(self) -> None:
        wanted, whole = self.count_wanted()
        needed = {name: kind.workers(wanted[name]) for name, kind in self.kinds.items()}
        with self.working:
            self.fleet.tend(needed, hasty=self.inner is None, drains=whole)

    def tend_on(self) -> None:
        """Until closed; nothing may end the thread."""
        while not self.over:
            try:
                self.tend()
            except (BadInput, Retry) as error:
                LOG.warning("%s", error)
            except Exception:
                LOG.exception("workers could not be tended")
            with self.changed:
                self.changed.wait_for(lambda: self.over, self.period)

    def close(self) -> None:
        """Workers stay, and are known again by whoever is started on the same folder."""
        with self.changed:
            self.over = True
            self.changed.notify_all()
        if self.thread is not None:
            self.thread.join(30.0)
        with self.working:
            self.fleet.close()
        if self.inner is not None:
            self.inner.close()
