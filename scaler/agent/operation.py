"""One operator's manager: slot after slot, what its sensor read in; a decision made, acted on, told and kept, out.

What was asked for and has not come stands in a ledger (see outcome.py). While it is awaited the pilot decides about the
replicas that were asked for. What never comes is given back, and each decision that asked for it is told once more, as
one whose actuation failed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from scaler.acting.actuator import Actuator
from scaler.agent import Decision, Pilot, Step
from scaler.agent.bootstrap import choose_first, find_most, raise_to
from scaler.agent.checkpoint_file import put_target, read_checkpoint, read_target, write_checkpoint
from scaler.agent.checkpoint_mirror import CheckpointCopy
from scaler.agent.pending import FAILED, REACHED, ArrivalTimeouts, PendingReplicas, ask, compare, refuse
from scaler.guards import is_dry_run
from scaler.guards.dry_run import GUARD_NAME as DRY_RUN_GUARD
from scaler.model.decision import LIMIT, UNAVAILABLE, Objection
from scaler.model.errors import BadInput, Retry
from scaler.model.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.model.orders import Orders
from scaler.sensing.observation import (
    MAX_AGE_SLOTS,
    fill_from_previous,
    find_scale_in_objection,
    is_whole,
    list_figures,
    make_samples,
    observe,
)
from scaler.sensing.reading import NoteCode, Reading, Sensor

LOG = logging.getLogger("scaler.agent")
CHECKPOINT_S = 60.0  # nothing learned is lost that is older


class OrderSource(Protocol):
    """Where orders come from and reports go: a `scaler.link.Link`, or a file."""

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def orders(self) -> Orders | None: ...

    def report(
        self,
        operator: str,
        decisions: Sequence[Mapping[str, Any]] = (),
        samples: Sequence[Mapping[str, Any]] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None: ...


class Operation:
    """Not for two threads at a time. Without `enforce` the pilot has the guard `dry_run`, and nothing is changed."""

    def __init__(
        self,
        operator: str,
        nodes: Sequence[NodeType],
        pilot: Pilot,
        sensor: Sensor,
        actuator: Actuator,
        office: OrderSource,
        enforce: bool = False,
        policy: str | None = None,
        patience: ArrivalTimeouts | None = None,
        checkpoint: Path | None = None,
        on_decision: Callable[[str, Decision, Reading], None] | None = None,
        copies: CheckpointCopy | None = None,  # of the checkpoint
    ) -> None:
        self.operator, self.nodes = operator, tuple(nodes)
        self.pilot, self.sensor, self.actuator, self.office = pilot, sensor, actuator, office
        self.policy, self.patience, self.checkpoint = policy, patience, checkpoint
        pilot.guards |= {} if enforce else {DRY_RUN_GUARD: True}
        self.on_decision, self.copies = on_decision, copies
        self.ledger = PendingReplicas()
        self.awaited: tuple[Step, ...] = ()  # that asked for what has not come yet
        self.kept_at = float("-inf")
        self.had: Mapping[str, int] = {}  # replicas that served last
        self.restored: Mapping[str, int] = {}  # that the driver before this one wanted, until they are asked for
        self.known: Reading | None = None  # the last one that was whole
        self.decided = float("-inf")  # the end of the last slot that was decided about as a whole
        self.dark = deque[tuple[float, float]](
            maxlen=int(MAX_AGE_SLOTS)
        )  # slots after it, of which too little is known
        self.fault = ""  # what went wrong in the last slot that something did
        if checkpoint is not None:
            self.restore(checkpoint)

    def restore(self, path: Path) -> None:
        """Go on where the driver was before."""
        if self.copies is not None:
            self.copies.fetch(path)
        arrays = read_checkpoint(path)
        if arrays is None:
            return
        try:
            self.pilot.load(arrays)
            self.restored = read_target(arrays)
            LOG.info("operator %r goes on from checkpoint %s", self.operator, path)
        except BadInput as error:
            LOG.warning("operator %r: checkpoint %s does not fit (%s); it starts anew", self.operator, path, error)

    def slot(self, start: float, end: float, now: float) -> Decision:
        """See, decide, act and tell, once."""
        reading = self.read(start, end)
        for lost in (note for note in reading.notes if note.code == NoteCode.REPLICA_LOST):
            LOG.warning("operator %r %s", self.operator, lost.message)
        self.remember(reading)
        shown = fill_from_previous(reading, self.known, self.pilot.complete, self.decided)
        if self.known is not None and (shown.has(NoteCode.REPORTED_LATE) or shown is self.known):
            self.decided = self.known.end
        came = self.count(reading)
        if came is not None and any(came.values()):
            self.had = dict(came)
        told = self.settle(came, now)
        self.ask_first(came, reading, now)
        seen, expected, barred = observe(shown, came, self.nodes), self.expect(came), self.find_barred(now)
        step = self.pilot.step(
            seen, self.take_orders(), now, expected, list_figures(shown), find_scale_in_objection(shown), barred
        )
        decision = self.pilot.acted(step, *self.act(step, came, now))
        self.office.report(self.operator, [one.to_json() for one in (*told, decision)], make_samples(reading))
        self.tell(decision, reading)
        self.keep(now)
        return decision

    def read(self, start: float, end: float) -> Reading:
        try:
            return self.sensor.read(self.operator, start, end)
        except Exception as error:  # nothing is known of the slot, and the stream goes on
            self.note("the sensor failed", error)
            return Reading(self.operator, start, end, completeness=0.0)

    def remember(self, reading: Reading) -> None:
        """Keep the newest slot that is known as a whole: of one that was dark, the reports may have come by now."""
        if is_whole(reading, self.pilot.complete):
            self.known = reading
            self.dark.clear()
            return
        for slot in reversed(self.dark):
            again = self.read(*slot)
            if is_whole(again, self.pilot.complete):
                self.known = again
                while self.dark and self.dark[0] <= slot:
                    self.dark.popleft()
                break
        self.dark.append((reading.start, reading.end))

    def count(self, reading: Reading) -> Mapping[str, int] | None:
        """By the actuator; where nothing is to be changed and none can tell, as the sensor has seen them."""
        try:
            found = self.actuator.deployed(self.operator)
        except Exception as error:
            self.note("the actuator cannot count replicas", error)
            return None
        if found is not None or reading.replicas is None or not self.is_dry_run():
            return found
        return {name: round(n) for name, n in reading.replicas.items()}

    def take_orders(self) -> Orders | None:
        """As they came, but for the policy that this driver was started with."""
        orders = self.office.orders()
        if orders is None:
            return None
        if self.policy is not None and orders.objective is not None:
            model = orders.objective.model
            model = replace(model, policy=self.policy, options=model.options if model.policy == self.policy else {})
            orders = replace(orders, objective=replace(orders.objective, model=model))
        return orders

    def is_dry_run(self) -> bool:
        """Whether this driver or the orders of now say that nothing is to be changed."""
        orders = self.office.orders()
        stated = [] if orders is None else [orders.guards.get(whose, {}) for whose in ("", self.operator)]
        return any(map(is_dry_run, (self.pilot.guards, *stated)))

    def settle(self, came: Mapping[str, int] | None, now: float) -> list[Decision]:
        """Hold what came against what was asked for; the decisions that came to nothing, if any did."""
        outcome = compare(self.ledger, came, now, self.patience)
        if outcome.state == FAILED and outcome.give_back is not None:
            try:
                self.actuator.ask(self.operator, outcome.give_back)
            except Exception as error:  # the next slot finds the same, and tries again
                self.note("what did not come could not be given back", error)
                return []
        if outcome.failed:
            LOG.warning("operator %r: %s", self.operator, outcome.says)
        told = [step for name, count in outcome.failed.items() for step in self.find_steps(name, count)]
        settled = set(outcome.failed) if outcome.state != REACHED else {node.name for node in self.nodes}
        self.awaited = tuple(step for step in self.awaited if self.name_type(step) not in settled)
        self.ledger = outcome.ledger
        return [self.pilot.acted(step, NOTHING, outcome.says) for step in told]

    def find_steps(self, node_type: str, count: int) -> list[Step]:
        """The latest that asked for so many replicas of a type more, or less than 0: fewer."""
        same = [one for one in self.awaited if self.name_type(one) == node_type and one.change.delta * count > 0]
        return same[-abs(count) :]

    def name_type(self, step: Step) -> str:
        return self.nodes[step.change.node_type].name

    def find_barred(self, now: float) -> dict[str, Objection]:
        """Node types of which none came lately, and why they are not asked for."""
        said = ((node.name, refuse(self.ledger, node.name, now)) for node in self.nodes)
        return {name: Objection(LIMIT, UNAVAILABLE, why, {"node_type": name}) for name, why in said if why is not None}

    def ask_first(self, came: Mapping[str, int] | None, reading: Reading, now: float) -> None:
        """Before anything else was asked for: what a stream needs to begin with (see first.py)."""
        if came is None or any(self.ledger.target().values()) or reading.has(NoteCode.STOPPED) or self.is_dry_run():
            return
        orders = self.office.orders()
        there = {node.name: came.get(node.name, 0) for node in self.nodes}
        wanted = choose_first(there, self.had, self.restored)
        free = {name: n for name, n in wanted.items() if n <= there.get(name, 0) or self.is_free(name)}
        target = raise_to(there, free, find_most(orders, self.operator, self.pilot.k_max))
        if target == there:
            return
        try:
            self.actuator.ask(self.operator, target)
        except Exception as error:  # the next slot tries again
            self.note("first replicas could not be asked for", error)
            return
        self.restored = {}
        self.ledger = ask(self.ledger, target, now)

    def is_free(self, node_type: str) -> bool:
        """Whether there is room for replicas, as far as the actuator can tell."""
        try:
            why = self.actuator.room(self.operator, node_type)
        except Exception as error:
            self.note("the actuator cannot tell whether there is room", error)
            return True
        if why is not None:
            LOG.warning("operator %r: no first replica on %s is asked for: %s", self.operator, node_type, why)
        return why is None

    def expect(self, came: Mapping[str, int] | None) -> Deployment | None:
        """The deployment once all that was asked for has come; None where nothing is awaited."""
        if came is None or not (self.awaited or self.ledger.short):
            return None
        return Deployment(tuple(self.ledger.target().get(node.name, 0) for node in self.nodes))

    def act(self, step: Step, came: Mapping[str, int] | None, now: float) -> tuple[Reconfiguration, str]:
        """What was done about a decision, and why where that is not what was decided."""
        change = step.change
        if change.delta == 0:
            return NOTHING, ""
        node_type = self.nodes[change.node_type].name
        if came is None:
            return NOTHING, "how many replicas serve cannot be told"
        try:
            why = self.actuator.room(self.operator, node_type) if change.delta > 0 else None
            if why is not None:
                return NOTHING, why
            base = came if self.expect(came) is None else self.ledger.target()
            target = {node.name: base.get(node.name, 0) for node in self.nodes}
            target[node_type] += change.delta
            self.actuator.ask(self.operator, target)
        except (BadInput, Retry) as error:
            return NOTHING, str(error)
        except Exception as error:
            self.note("the actuator failed", error)
            return NOTHING, f"the actuator failed ({type(error).__name__}: {error})"
        self.ledger = ask(self.ledger, target, now)
        self.awaited = (*self.awaited, step)
        return change, ""

    def keep(self, now: float) -> None:
        if self.checkpoint is None or now - self.kept_at < CHECKPOINT_S:
            return
        try:
            wanted = self.ledger.target() or self.restored or self.had
            write_checkpoint(self.checkpoint, put_target(self.pilot.save(), wanted))
            self.kept_at = now
            if self.copies is not None:
                self.copies.put(self.checkpoint)
        except Exception as error:
            self.note("what was learned could not be kept", error)

    def close(self, now: float, patience: float = 10.0) -> None:
        """Keep what is known by now, and have it copied."""
        if self.copies is not None:
            self.copies.close(0.5 * patience)  # so that no copy under way is in the way of the last
        self.kept_at = float("-inf")
        self.keep(now)
        if self.copies is not None:
            self.copies.close(0.5 * patience)

    def tell(self, decision: Decision, reading: Reading) -> None:
        try:
            if self.on_decision is not None:
                self.on_decision(self.operator, decision, reading)
        except Exception as error:  # the user's own
            self.note("on_decision failed", error)

    def note(self, what: str, error: Exception) -> None:
        self.fault = f"{what} ({type(error).__name__}: {error})"
        LOG.warning("operator %r: %s", self.operator, self.fault, exc_info=error)
