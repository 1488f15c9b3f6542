"""Run an agent for every operator of an attached driver, each on a thread and a slot clock of its own.

One more thread finds operators as queries start and end. No fault in any of them reaches the driver's own code.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

from scaler.acting.actuator import Actuator
from scaler.agent.checkpoint_file import name_file
from scaler.agent.checkpoint_mirror import CheckpointCopy
from scaler.agent.decider import Decider
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent, OrderSource
from scaler.guards.deployments import DRY_RUN_GUARD
from scaler.model.decision import Decision
from scaler.model.nodes import NodeType
from scaler.sensing.driver import StreamOperator
from scaler.sensing.reading import Reading, Sensor

LOG = logging.getLogger("scaler.agent")
FIND_OPERATORS_S = 2.0  # between two looks for operators
WARN_EVERY = 30  # of faults in a row, the first and then each so-many-th are warned of
SLOT_S = 60.0
PAUSE_S = 10.0  # at most, after a slot that failed, so that a fault that lasts does not spin
REPORT_DELAY_S = 1.0  # after a slot's end, in which Spark still tells of it
MAX_ABSENCE_S = 600.0  # without its query, or ten slots where that is longer, after which an operator is let go
OnDecision = Callable[[str, Decision, Reading], None]


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What every agent of an application is made with."""

    nodes: tuple[NodeType, ...]
    types: Mapping[str, Collection[str]]  # of nodes that an operator may be on; those left out may be on any
    enforce: bool
    policy: str | None
    k_max: int | None
    seed: int
    slot_s: float
    folder: Path
    arrival: ArrivalTimeouts
    on_decision: OnDecision | None
    mirror: Callable[[str], CheckpointCopy] | None = None  # of checkpoints, by query


class Attachment:
    """Scalers at work; `detach` leaves the cluster as it stands."""

    def __init__(
        self,
        settings: AgentSettings,
        sensor: Sensor,
        actuator: Actuator,
        source: OrderSource,
        find: Callable[[], Sequence[StreamOperator]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings, self.sensor, self.actuator, self.source = settings, sensor, actuator, source
        self.find, self.clock = find, clock
        self.ended = threading.Event()
        self.threads: dict[str, threading.Thread] = {}
        self.agents: dict[str, Agent] = {}
        self.over: dict[str, threading.Event] = {}  # by operator
        self.seen: dict[str, float] = {}  # when each was last found
        self.failures = Counter[str]()  # in a row, by what failed
        self.attempt("orders cannot be received", source.start)
        self.overseer = threading.Thread(target=self.oversee, name="scaler", daemon=True)
        self.overseer.start()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def detach(self, timeout: float = 10.0) -> None:
        """End all scaling, say what is still to be said, and leave executors as they are."""
        self.ended.set()
        for over in list(self.over.values()):
            over.set()
        until = time.monotonic() + timeout
        for thread in (self.overseer, *self.threads.values()):
            thread.join(max(0.0, until - time.monotonic()))
        for agent in list(self.agents.values()):
            agent.close(self.clock(), max(0.0, until - time.monotonic()))
        self.attempt("the last reports could not be sent", self.source.stop)
        self.attempt("the sensor could not be closed", self.sensor.close)
        self.attempt("the actuator could not be closed", self.actuator.close)

    def oversee(self) -> None:
        """Start a manager for every operator that appears; those of queries that ended wait for them to come back."""
        if self.settings.enforce:
            self.attempt("the actuator could not be prepared", self.actuator.prepare)
        while not self.ended.is_set():
            self.attempt("operators cannot be looked for", self.look)
            self.ended.wait(FIND_OPERATORS_S)

    def attempt(self, fault: str, step: Callable[[], None]) -> None:
        """Spark may be stopping, or busy: the next look may find it well, and what lasts is heard of."""
        try:
            step()
            del self.failures[fault]
        except Exception:
            self.failures[fault] += 1
            loud = self.failures[fault] % WARN_EVERY == 1
            LOG.log(logging.WARNING if loud else logging.DEBUG, "%s", fault, exc_info=True)

    def look(self) -> None:
        for operator in self.find():
            self.seen[operator.name] = self.clock()
            self.attempt(f"operator {operator.name!r} cannot be begun", partial(self.take_up, operator))
        for name, seen in list(self.seen.items()):
            if self.clock() - seen > max(MAX_ABSENCE_S, 10.0 * self.find_length()):
                self.let_go(name)

    def let_go(self, name: str) -> None:
        """Of an operator that is gone for long; it is begun again, from its checkpoint, should it come back."""
        del self.seen[name]
        if name in self.threads:
            LOG.info("operator %r is gone, and watched no longer", name)
            self.over.pop(name).set()
            self.threads.pop(name).join()
            self.agents.pop(name).close(self.clock())

    def take_up(self, operator: StreamOperator) -> None:
        self.sensor.watch(operator)
        if operator.name not in self.threads:
            self.begin(operator.name, operator.query)

    def begin(self, name: str, query: str) -> None:
        settings = self.settings
        nodes = tuple(node for node in settings.nodes if node.name in settings.types.get(name, {node.name}))
        guards = {} if settings.enforce else {DRY_RUN_GUARD: True}
        agent = Agent(
            Decider(name, nodes, settings.k_max, settings.seed, settings.slot_s, guards=guards),
            self.sensor,
            self.actuator,
            self.source,
            settings.arrival,
            settings.policy,
            name_file(settings.folder, name),
            settings.on_decision,
            None if settings.mirror is None else settings.mirror(query),
        )
        over = threading.Event()
        thread = threading.Thread(target=self.run, args=(agent, over), name=f"scaler-{name}"[:60], daemon=True)
        self.agents[name], self.threads[name], self.over[name] = agent, thread, over
        if self.ended.is_set():  # meanwhile
            over.set()
        thread.start()
        LOG.info(
            "operator %r is watched, and %s", name, "scaled" if settings.enforce else "not touched (enforce=False)"
        )

    def find_length(self) -> float:
        """Of a slot."""
        orders = self.source.orders()
        return self.settings.slot_s if orders is None else orders.slot_s

    def run(self, agent: Agent, over: threading.Event) -> None:
        """Slot after slot on a grid that all operators share, so that what they tell lies side by side."""
        while not over.is_set():
            try:
                length = self.find_length()
                end = (self.clock() // length + 1.0) * length
                if over.wait(max(0.0, end + min(REPORT_DELAY_S, 0.1 * length) - self.clock())):
                    return
                agent.slot(end - length, end, self.clock())
            except Exception:  # the stream goes on, and so does the scaler
                LOG.exception("operator %r: a slot could not be decided", agent.operator)
                over.wait(min(PAUSE_S, 0.5 * self.settings.slot_s))
