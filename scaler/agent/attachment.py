"""Run an agent for every operator of an attached driver, each on a thread and slot clock of its own.

One more thread finds operators as queries start and end. No fault in any of them reaches the driver's own code.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from scaler.acting.actuator import Actuator
from scaler.agent.checkpoint_file import CheckpointMirror, name_file
from scaler.agent.decider import Decider
from scaler.agent.joint_slots import JointSlots
from scaler.agent.order_source import OrderSource
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent
from scaler.guards.deployments import DRY_RUN_GUARD
from scaler.model.decision import Decision
from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType
from scaler.sensing.driver import StreamOperator
from scaler.sensing.reading import Reading, Sensor
from scaler.timing import ServiceTimer

LOG = logging.getLogger("scaler.agent")
FIND_OPERATORS_S = 2.0  # between two searches for operators
WARN_EVERY = 30  # of faults in a row, the first and then each so-many-th are warned of
SLOT_S = 60.0
PAUSE_S = 10.0  # at most, after a slot that failed, so that a fault that lasts does not spin
REPORT_DELAY_S = 1.0  # after a slot's end, in which Spark still reports on it
MAX_ABSENCE_S = 600.0  # without its query, or ten slots where that is longer, after which an agent ends
OnDecision = Callable[[str, Decision, Reading], None]


def find_data_home() -> Path:
    """Where a user's programs keep their data (XDG)."""
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share")


@dataclass(frozen=True, slots=True)
class AttachSettings:
    """What `attach` can be given beyond its own parameters."""

    timers: Mapping[str, ServiceTimer | Sequence[ServiceTimer]] = field(default_factory=dict)  # by operator
    nodes: Sequence[NodeType] | None = None  # None: the types of `pinned`, at the objective's speeds and prices
    actuator: Actuator | None = None  # None: executors by resource profile
    master_url: str | None = None  # of a standalone master's page, to check that a worker has room
    policy: str | None = None  # instead of the objective's
    k_max: int | None = None  # replicas of one operator, whatever the objective allows
    arrival: ArrivalTimeouts = field(default_factory=ArrivalTimeouts)  # of ordered replicas
    slot_s: float = SLOT_S  # until orders come
    seed: int = 0  # of policies
    ca_file: str | Path | None = None  # certificates to trust instead of the system's
    folder: str | Path | None = None  # of checkpoints and unsent reports; None: beside the stream's checkpoint
    data_home: Path = field(default_factory=find_data_home)  # where `folder` is None: of what is not sent yet
    on_decision: OnDecision | None = None  # called after every slot of every operator
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        if not 0.0 < self.slot_s < math.inf:
            raise BadInput(f"slot_s is {self.slot_s}, and must be a positive number of seconds")
        if self.k_max is not None and not self.k_max >= 1:
            raise BadInput(f"k_max is {self.k_max}; say 1 or more, or None for as many as the objective allows")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What every agent of an application is made with."""

    nodes: tuple[NodeType, ...]
    types: Mapping[str, Collection[str]]  # node types that an operator may be on; those left out may be on any
    enforce: bool
    folder: Path
    attach: AttachSettings = field(default_factory=AttachSettings)
    mirror: Callable[[str], CheckpointMirror] | None = None  # of checkpoints, by query


class Attachment:
    """Running agents; `detach` leaves the cluster as it stands."""

    def __init__(
        self,
        settings: AgentSettings,
        sensor: Sensor,
        actuator: Actuator,
        source: OrderSource,
        find: Callable[[], Sequence[StreamOperator]],
    ) -> None:
        self.settings, self.sensor, self.actuator, self.source = settings, sensor, actuator, source
        self.find, self.clock = find, settings.attach.clock
        self.ended, self.board = threading.Event(), JointSlots()
        self.threads: dict[str, threading.Thread] = {}
        self.agents: dict[str, Agent] = {}
        self.stops: dict[str, threading.Event] = {}  # by operator
        self.last_found: dict[str, float] = {}
        self.failures = Counter[str]()  # in a row, by what failed
        self.attempt("orders cannot be received", source.start)
        self.finder = threading.Thread(target=self.find_until_ended, name="scaler", daemon=True)
        self.finder.start()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.detach()

    def detach(self, timeout: float = 10.0) -> None:
        """End all scaling, send the last reports, and leave executors as they are."""
        self.ended.set()
        for stop in list(self.stops.values()):
            stop.set()
        until = time.monotonic() + timeout
        for thread in (self.finder, *self.threads.values()):
            thread.join(max(0.0, until - time.monotonic()))
        for agent in list(self.agents.values()):
            agent.close(self.clock(), max(0.0, until - time.monotonic()))
        self.attempt("the last reports could not be sent", self.source.stop)
        self.attempt("the sensor could not be closed", self.sensor.close)
        self.attempt("the actuator could not be closed", self.actuator.close)

    def attempt(self, fault: str, step: Callable[[], None]) -> None:
        """Run a step that may fail while Spark is stopping or busy; faults that last are warned of."""
        try:
            step()
            del self.failures[fault]
        except Exception:
            self.failures[fault] += 1
            loud = self.failures[fault] % WARN_EVERY == 1
            LOG.log(logging.WARNING if loud else logging.DEBUG, "%s", fault, exc_info=True)

    def find_until_ended(self) -> None:
        """Start an agent for every operator that appears; one whose query ended waits for it to come back."""
        if self.settings.enforce:
            self.attempt("the actuator could not be prepared", self.actuator.prepare)
        while not self.ended.is_set():
            self.attempt("operators cannot be looked for", self.update_agents)
            self.ended.wait(FIND_OPERATORS_S)

    def update_agents(self) -> None:
        for operator in self.find():
            self.last_found[operator.name] = self.clock()
            self.attempt(f"operator {operator.name!r} cannot be begun", partial(self.add_operator, operator))
        for name, found in list(self.last_found.items()):
            if self.clock() - found > max(MAX_ABSENCE_S, 10.0 * self.find_slot_s()):
                self.stop_agent(name)

    def stop_agent(self, name: str) -> None:
        """End the agent of an operator that is gone for long; it starts from its checkpoint should that come back."""
        del self.last_found[name]
        if name in self.threads:
            LOG.info("operator %r is gone, and watched no longer", name)
            self.stops.pop(name).set()
            self.board.leave(name)
            self.threads.pop(name).join()
            self.agents.pop(name).close(self.clock())

    def add_operator(self, operator: StreamOperator) -> None:
        self.sensor.watch(operator)
        if operator.name not in self.threads:
            self.start_agent(operator.name, operator.query)

    def start_agent(self, name: str, query: str) -> None:
        settings, own = self.settings, self.settings.attach
        nodes = tuple(node for node in settings.nodes if node.name in settings.types.get(name, {node.name}))
        guards = {} if settings.enforce else {DRY_RUN_GUARD: True}
        agent = Agent(
            Decider(name, nodes, own.k_max, own.seed, own.slot_s, guards=guards, board=self.board),
            self.sensor, self.actuator, self.source, own.arrival, own.policy, name_file(settings.folder, name),
            own.on_decision, None if settings.mirror is None else settings.mirror(query),
        )  # fmt: skip
        self.board.join(name)
        stop = threading.Event()
        thread = threading.Thread(target=self.run, args=(agent, stop), name=f"scaler-{name}"[:60], daemon=True)
        self.agents[name], self.threads[name], self.stops[name] = agent, thread, stop
        if self.ended.is_set():  # meanwhile
            stop.set()
        thread.start()
        what = "scaled" if settings.enforce else "not touched (enforce=False)"
        LOG.info("operator %r is watched, and %s", name, what)

    def find_slot_s(self) -> float:
        orders = self.source.orders()
        return self.settings.attach.slot_s if orders is None else orders.slot_s

    def run(self, agent: Agent, stop: threading.Event) -> None:
        """Run slot after slot on a grid that all operators share, so that their reports lie side by side."""
        while not stop.is_set():
            try:
                slot_s = self.find_slot_s()
                end = (self.clock() // slot_s + 1.0) * slot_s
                if stop.wait(max(0.0, end + min(REPORT_DELAY_S, 0.1 * slot_s) - self.clock())):
                    return
                agent.slot(end - slot_s, end, self.clock())
            except Exception:  # the stream goes on, and so does the scaler
                LOG.exception("operator %r: a slot could not be decided", agent.operator)
                stop.wait(min(PAUSE_S, 0.5 * self.settings.attach.slot_s))
