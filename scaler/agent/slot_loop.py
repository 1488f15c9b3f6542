"""Run one operator slot by slot: read everything, decide purely, apply the targets, record.

    sensor, actuator, orders -> SlotInput -> SlotPlan -> actuator -> decisions -> reports, checkpoint

The policy decides about the deployment that pending replicas will make (see pending.py). A change is carried out in
stages (see staged_change.py): what it removes goes once what it adds serves. A replica that misses its deadline is
cancelled, and the decision that ordered it is reported again, with what was done of it. What is to be applied is in the
checkpoint before it is, so that a driver that is killed at any moment goes on with it when it starts again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scaler.acting.actuator import Actuator
from scaler.agent.checkpoint_file import CheckpointMirror, read_checkpoint, read_target, write_checkpoint
from scaler.agent.decider import Decider
from scaler.agent.first_replicas import Restored, adjust_rest, choose_first
from scaler.agent.open_change import OpenChange, charge, read_unfinished, select_unsettled, write_unfinished
from scaler.agent.order_source import OrderSource
from scaler.agent.pending import (
    WAITING,
    ArrivalTimeouts,
    PendingOutcome,
    PendingReplicas,
    compare,
    find_refusal,
    order,
)
from scaler.agent.record import conclude
from scaler.agent.staged_change import advance, begin_change, continue_change, count_additions, give_up
from scaler.agent.supply_ledger import Starts, SupplyLedger, look, note_given_up, note_refused, note_target
from scaler.guards import is_dry_run
from scaler.model.decision import LIMIT, UNAVAILABLE, Decision, Objection, Step, list_changes
from scaler.model.errors import BadInput, Retry
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration
from scaler.model.orders import Orders
from scaler.model.supply_record import SupplyRecord
from scaler.sensing.observation import SlotReadings, find_scale_in_objection, list_figures, make_samples, observe
from scaler.sensing.reading import NoteCode, Reading, Sensor

LOG = logging.getLogger("scaler.agent")
CHECKPOINT_S = 60.0  # between two checkpoints: nothing learned is lost that is older


@dataclass(frozen=True, slots=True)
class SlotInput:
    """Input of a slot's decision."""

    reading: Reading
    shown: Reading  # what is decided about: the reading, or what stands for it
    deployed: Mapping[str, int] | None  # replicas that serve now by node type
    orders: Orders | None
    first: Mapping[str, int] | None  # the first replicas to order, of an operator for which nothing was ordered yet
    now: float
    supply: tuple[SupplyRecord, ...] = ()  # what became of replicas since the last look


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What is to be done about a slot."""

    step: Step
    outcome: PendingOutcome  # of the replicas ordered before
    pending: PendingReplicas  # once all but the step's change is applied
    failed: tuple[OpenChange, ...]  # that ordered what never arrived
    opened: tuple[OpenChange, ...]  # whose replicas are still to arrive or to go
    base: Mapping[str, int] | None  # the target to apply whatever the step says; None: there is none


class Agent:
    """One operator's manager; not to be used by two threads at a time."""

    def __init__(
        self,
        decider: Decider,
        sensor: Sensor,
        actuator: Actuator,
        source: OrderSource,
        arrival: ArrivalTimeouts | None = None,
        policy: str | None = None,  # instead of the objective's
        checkpoint: Path | None = None,
        on_decision: Callable[[str, Decision, Reading], None] | None = None,
        mirror: CheckpointMirror | None = None,  # of the checkpoint
    ) -> None:
        self.operator, self.nodes = decider.operator, decider.nodes
        self.decider, self.actuator, self.source = decider, actuator, source
        self.arrival, self.policy, self.checkpoint = arrival, policy, checkpoint
        self.on_decision, self.mirror = on_decision, mirror
        self.readings = SlotReadings(self.operator, sensor, decider.complete)
        self.pending = PendingReplicas()
        self.opened: tuple[OpenChange, ...] = ()  # that ordered what has not arrived yet
        self.ledger = SupplyLedger()
        self.saved_at = float("-inf")
        self.served_last: Mapping[str, int] = {}  # replicas
        self.restored = Restored()
        if checkpoint is not None:
            self.restore(checkpoint)

    def restore(self, path: Path) -> None:
        """Load the checkpoint, from the mirror where that is newer."""
        if self.mirror is not None:
            self.mirror.download(path)
        arrays = read_checkpoint(path)
        if arrays is None:
            return
        try:
            rest, opened = read_unfinished(arrays)
            self.decider.load(arrays)
            self.restored, self.opened = Restored(read_target(arrays), rest), opened
            for one in opened:  # whoever was killed while it applied a change did not come to record it
                if self.decider.memory.pending == one.step:
                    self.decider.actuated(one.step, one.done)
            LOG.info("operator %r goes on from checkpoint %s", self.operator, path)
        except BadInput as error:
            LOG.warning("operator %r: checkpoint %s does not fit (%s); it starts anew", self.operator, path, error)

    def slot(self, start: float, end: float, now: float) -> Decision:
        """Decide one slot, apply the decision and record it."""
        slot = self.collect(start, end, now)
        plan = self.plan(slot)
        anew = slot.first is None or not self.restored.target
        done, why, applied = self.apply(plan, slot)
        self.ledger = note_given_up(self.ledger, plan.outcome.late if applied else {})
        self.ledger = note_target(self.ledger, self.pending.target, now, anew)
        self.decider.actuated(plan.step, done)
        decision = conclude(plan.step, done, why, self.decider.names)
        message = plan.outcome.message
        failed = [conclude(one.step, one.done, message, self.decider.names) for one in plan.failed if applied]
        self.record(slot, (*failed, decision))
        self.save(now)
        return decision

    def collect(self, start: float, end: float, now: float) -> SlotInput:
        """Read sensor, orders and actuator."""
        reading, shown = self.readings.read(start, end)
        orders = self.read_orders()
        deployed = self.count_deployed(reading, orders)
        if deployed is not None and any(deployed.values()):
            self.served_last = dict(deployed)
        starts = self.find_starts()
        there = deployed if starts is None else {name: len(some) for name, some in starts.items()}
        self.ledger, supply = look(self.ledger, there, now, starts)
        first = self.choose_bootstrap(reading, deployed, orders)
        return SlotInput(reading, shown, deployed, orders, first, now, supply)

    def find_starts(self) -> Starts | None:
        """When each replica started, by node type; None where the actuator cannot tell."""
        try:
            return self.actuator.find_starts(self.operator)
        except Exception as error:
            self.warn("the actuator cannot tell when replicas started", error)
            return None

    def read_orders(self) -> Orders | None:
        """Read the newest orders, with this driver's policy in place of the objective's."""
        orders = self.source.orders()
        if orders is None or self.policy is None or orders.objective is None:
            return orders
        model = orders.objective.model
        model = replace(model, policy=self.policy, options=model.options if model.policy == self.policy else {})
        return replace(orders, objective=replace(orders.objective, model=model))

    def count_deployed(self, reading: Reading, orders: Orders | None) -> Mapping[str, int] | None:
        """Count replicas by the actuator; in a dry run whose actuator cannot count, by the sensor."""
        try:
            found = self.actuator.deployed(self.operator)
        except Exception as error:
            self.warn("the actuator cannot count replicas", error)
            return None
        if found is not None or reading.replicas is None or not self.is_dry_run(orders):
            return found
        return {name: round(n) for name, n in reading.replicas.items()}

    def is_dry_run(self, orders: Orders | None) -> bool:
        """Whether this driver or the orders switch actuation off."""
        guards = {} if orders is None else orders.guards
        return any(
            is_dry_run(table) for table in (self.decider.guards, guards.get("", {}), guards.get(self.operator, {}))
        )

    def plan(self, slot: SlotInput) -> SlotPlan:
        """Compare earlier orders with what serves and let the policy decide; nothing is applied."""
        outcome = self.order_rest(compare(self.pending, slot.deployed, slot.now, self.arrival), slot)
        opened, failed = charge(self.opened, outcome.failed, self.decider.names)
        for one in failed:
            self.decider.actuated(one.step, one.done)
        pending, base = outcome.pending, outcome.new_target
        if slot.first is not None:
            pending, base = order(pending, slot.first, slot.now), slot.first
            pending = replace(pending, rest=adjust_rest(self.restored.target, self.restored.rest, slot.first))
        if slot.deployed is not None:
            opened = select_unsettled(opened, pending.count_unsettled(slot.deployed), self.decider.names)
        step = self.decider.step(
            observe(slot.shown, slot.deployed, self.nodes, None if slot.orders is None else slot.orders.quantile),
            slot.orders,
            slot.now,
            None if slot.deployed is None else self.expect(pending, opened),
            replace(list_figures(slot.shown), supply=slot.supply),
            find_scale_in_objection(slot.shown),
            self.find_barred(pending, slot.now),
        )
        return SlotPlan(step, outcome, pending, failed, opened, base)

    def order_rest(self, outcome: PendingOutcome, slot: SlotInput) -> PendingOutcome:
        """Order the next stage of the changes under way, or give up what a guard objects to by now."""
        pending = outcome.pending
        if not pending.rest or slot.deployed is None or outcome.state != WAITING:
            return outcome
        try:
            limits = self.decider.find_limits(slot.orders, slot.reading.start)
            objection = self.object_to_removal(pending, slot)
        except BadInput as error:  # what a person has set is not passed over because it cannot be read
            LOG.warning("operator %r: a change under way waits (%s)", self.operator, error)
            return outcome
        if objection is not None:
            return give_up(pending, str(objection))
        may_remove = find_scale_in_objection(slot.shown) is None
        return continue_change(outcome, slot.deployed, limits, slot.now, may_remove)

    def object_to_removal(self, pending: PendingReplicas, slot: SlotInput) -> Objection | None:
        """A guard's objection to what the changes under way still have to remove."""
        target = Deployment(tuple(pending.target.get(name, 0) for name in self.decider.names))
        removal = Reconfiguration(
            tuple((i, pending.rest[name]) for i, name in enumerate(self.decider.names) if pending.rest.get(name, 0) < 0)
        )
        if removal == NOTHING:
            return None
        return self.decider.find_removal_objection(slot.orders, slot.reading.start, target, removal)

    def choose_bootstrap(
        self, reading: Reading, deployed: Mapping[str, int] | None, orders: Orders | None
    ) -> Mapping[str, int] | None:
        """The target of an operator for which nothing was ordered yet, as far as there is room."""
        if deployed is None or any(self.pending.target.values()):
            return None
        if reading.has(NoteCode.STOPPED) or self.is_dry_run(orders):
            return None
        try:
            limits = self.decider.find_limits(orders, reading.start)
        except BadInput as error:
            LOG.warning("operator %r: no first replicas are ordered (%s)", self.operator, error)
            return None
        there = {node.name: deployed.get(node.name, 0) for node in self.nodes}
        return choose_first(there, self.served_last, self.restored, limits, self.find_places)

    def find_places(self, more: Mapping[str, int]) -> Mapping[str, int]:
        """How many first replicas may be ordered by node type, as far as the actuator knows."""
        try:
            room = self.actuator.check_room(self.operator, more)
        except Exception as error:
            self.warn("the actuator cannot tell whether there is room", error)
            return more
        if not room.is_enough(more):
            LOG.warning("operator %r: not all first replicas are ordered: %s", self.operator, room.why)
            self.ledger = note_refused(self.ledger, more, room.places)
        return room.places

    def find_barred(self, pending: PendingReplicas, now: float) -> dict[str, Objection]:
        """Node types that are backed off, and why."""
        said = ((node.name, find_refusal(pending, node.name, now)) for node in self.nodes)
        return {name: Objection(LIMIT, UNAVAILABLE, why, {"node_type": name}) for name, why in said if why is not None}

    def expect(self, pending: PendingReplicas, opened: Sequence[OpenChange]) -> Deployment | None:
        """The deployment once all that was ordered has arrived; None where nothing is pending."""
        if not pending.target or not (opened or pending.short or pending.rest):
            return None
        return Deployment(tuple(pending.goal.get(node.name, 0) for node in self.nodes))

    def apply(self, plan: SlotPlan, slot: SlotInput) -> tuple[Reconfiguration, str, bool]:
        """Send targets to the actuator: what earlier orders and first replicas call for, then the decided change.

        Returns what was done of the change, why where that is not all of it, and whether earlier orders are settled;
        where they are not, the next slot finds the same and tries again.
        """
        if plan.base is not None:
            try:
                self.send(plan.pending, plan.opened, slot.now)
            except Exception as error:
                self.warn("the target of earlier orders or first replicas was not accepted", error)
                return NOTHING, str(error), False
            if slot.first is not None:
                self.restored = Restored()
        if plan.outcome.failed:
            LOG.warning("operator %r: %s", self.operator, plan.outcome.message)
        self.pending, self.opened = plan.pending, plan.opened
        done, why = self.apply_change(plan.step, slot)
        return done, why, True

    def send(self, pending: PendingReplicas, opened: tuple[OpenChange, ...], now: float) -> None:
        """Have a target applied that is in the checkpoint by then; what is not accepted is forgotten."""
        before, changed = (self.pending, self.opened), pending.target != self.pending.target
        self.pending, self.opened = pending, opened
        self.saved_at = float("-inf") if changed else self.saved_at
        self.save(now)
        try:
            self.actuator.apply(self.operator, pending.target)
        except BaseException:
            self.pending, self.opened = before
            self.saved_at = float("-inf")
            raise

    def apply_change(self, step: Step, slot: SlotInput) -> tuple[Reconfiguration, str]:
        """What was done of the decided change, and why where that is not all of it."""
        change = step.change
        if change == NOTHING:
            return NOTHING, ""
        if slot.deployed is None:
            return NOTHING, "how many replicas serve cannot be told"
        pending = self.pending
        if self.expect(pending, self.opened) is None:
            pending = order(pending, {node.name: slot.deployed.get(node.name, 0) for node in self.nodes}, slot.now)
        try:
            change, why = self.fit(pending, change)
            if change == NOTHING:
                return NOTHING, why
            limits = self.decider.find_limits(slot.orders, slot.reading.start)
            begun = begin_change(pending, list_changes(change, self.decider.names))
            after = advance(begun, slot.deployed, limits, slot.now, find_scale_in_objection(slot.shown) is None)
            if after == begun and not pending.short and not pending.rest:
                return NOTHING, f"from {limits.least} to {limits.most} replicas are allowed, and none is to spare"
            self.send(after, (*self.opened, OpenChange(step, change)), slot.now)
        except (BadInput, Retry) as error:
            return NOTHING, str(error)
        except Exception as error:
            self.warn("the actuator failed", error)
            return NOTHING, f"the actuator failed ({type(error).__name__}: {error})"
        return change, why

    def fit(self, pending: PendingReplicas, change: Reconfiguration) -> tuple[Reconfiguration, str]:
        """The part of a change that the cluster has room for; nothing is removed where less can be added."""
        named = list_changes(change, self.decider.names)
        more = count_additions(pending, named)
        if not more:
            return change, ""
        room = self.actuator.check_room(self.operator, more)
        if room.is_enough(more):
            return change, ""
        self.ledger = note_refused(self.ledger, more, room.places)
        fitting = {
            name: delta - more.get(name, 0) + min(more.get(name, 0), room.places.get(name, 0))
            for name, delta in named.items()
            if delta > 0
        }
        return Reconfiguration(
            tuple((i, fitting[name]) for i, name in enumerate(self.decider.names) if fitting.get(name, 0) > 0)
        ), room.why

    def record(self, slot: SlotInput, decisions: Sequence[Decision]) -> None:
        """Report the slot's decision, and before it those that came to nothing."""
        self.source.report(self.operator, [one.to_json() for one in decisions], make_samples(slot.reading))
        try:
            if self.on_decision is not None:
                self.on_decision(self.operator, decisions[-1], slot.reading)
        except Exception as error:  # the user's own
            self.warn("on_decision failed", error)

    def save(self, now: float) -> None:
        if self.checkpoint is None or now - self.saved_at < CHECKPOINT_S:
            return
        try:
            wanted = self.pending.target or self.restored.target or self.served_last
            rest = self.pending.rest if self.pending.target else self.restored.rest
            arrays = self.decider.save() | write_unfinished(rest, self.opened)
            write_checkpoint(self.checkpoint, arrays, wanted)
            self.saved_at = now
            if self.mirror is not None:
                self.mirror.upload(self.checkpoint)
        except Exception as error:
            self.warn("the checkpoint could not be written", error)

    def close(self, now: float, timeout: float = 10.0) -> None:
        """Write the last checkpoint, and have it copied."""
        if self.mirror is not None:
            self.mirror.close(0.5 * timeout)  # so that no copy under way is in the way of the last
        self.saved_at = float("-inf")
        self.save(now)
        if self.mirror is not None:
            self.mirror.close(0.5 * timeout)

    def warn(self, what: str, error: Exception) -> None:
        LOG.warning("operator %r: %s (%s: %s)", self.operator, what, type(error).__name__, error, exc_info=error)
