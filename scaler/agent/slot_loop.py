"""Run one operator slot by slot: read everything, decide purely, apply the targets, record.

    sensor, actuator, orders -> SlotInput -> SlotPlan -> actuator -> decisions -> reports, checkpoint

The policy decides about the deployment that pending replicas will make (see pending.py). A replica that misses its
deadline is cancelled, and the decision that ordered it is reported again, as ACTUATION_FAILED.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scaler.acting.actuator import Actuator
from scaler.agent.checkpoint_file import CheckpointMirror, read_checkpoint, read_target, write_checkpoint
from scaler.agent.decider import Decider
from scaler.agent.order_source import OrderSource
from scaler.agent.pending import (
    REACHED,
    ArrivalTimeouts,
    PendingOutcome,
    PendingReplicas,
    choose_initial,
    compare,
    find_refusal,
    find_replica_limit,
    order,
    raise_target,
)
from scaler.agent.record import conclude
from scaler.guards import is_dry_run
from scaler.model.decision import LIMIT, UNAVAILABLE, Decision, Objection, Step
from scaler.model.errors import BadInput, Retry
from scaler.model.nodes import NOTHING, Deployment, Reconfiguration
from scaler.model.orders import Orders
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


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """What is to be done about a slot."""

    step: Step
    outcome: PendingOutcome  # of the replicas ordered before
    pending: PendingReplicas  # once all but the step's change is applied
    failed: tuple[Step, ...]  # that ordered what never arrived
    open_steps: tuple[Step, ...]  # whose replicas are still to arrive
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
        self.open_steps: tuple[Step, ...] = ()  # that ordered what has not arrived yet
        self.saved_at = float("-inf")
        self.served_last: Mapping[str, int] = {}  # replicas
        self.restored: Mapping[str, int] = {}  # ordered by the driver before this one, until they are ordered again
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
            self.decider.load(arrays)
            self.restored = read_target(arrays)
            LOG.info("operator %r goes on from checkpoint %s", self.operator, path)
        except BadInput as error:
            LOG.warning("operator %r: checkpoint %s does not fit (%s); it starts anew", self.operator, path, error)

    def slot(self, start: float, end: float, now: float) -> Decision:
        """Decide one slot, apply the decision and record it."""
        slot = self.collect(start, end, now)
        plan = self.plan(slot)
        done, why, applied = self.apply(plan, slot)
        self.decider.actuated(plan.step, done)
        decision = conclude(plan.step, done, why, self.decider.names)
        failed = [conclude(step, NOTHING, plan.outcome.message, self.decider.names) for step in plan.failed if applied]
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
        return SlotInput(reading, shown, deployed, orders, self.choose_bootstrap(reading, deployed, orders), now)

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
        outcome = compare(self.pending, slot.deployed, slot.now, self.arrival)
        failed = tuple(step for name, count in outcome.failed.items() for step in self.find_steps(name, count))
        for step in failed:
            self.decider.actuated(step, NOTHING)
        over = set(outcome.failed) if outcome.state != REACHED else {node.name for node in self.nodes}
        open_steps = tuple(step for step in self.open_steps if self.name_type(step) not in over)
        pending, base = outcome.pending, outcome.new_target
        if slot.first is not None:
            pending, base = order(pending, slot.first, slot.now), slot.first
        step = self.decider.step(
            observe(slot.shown, slot.deployed, self.nodes),
            slot.orders,
            slot.now,
            None if slot.deployed is None else self.expect(pending, open_steps),
            list_figures(slot.shown),
            find_scale_in_objection(slot.shown),
            self.find_barred(pending, slot.now),
        )
        return SlotPlan(step, outcome, pending, failed, open_steps, base)

    def choose_bootstrap(
        self, reading: Reading, deployed: Mapping[str, int] | None, orders: Orders | None
    ) -> Mapping[str, int] | None:
        """The target of an operator for which nothing was ordered yet, as far as there is room."""
        if deployed is None or any(self.pending.target.values()):
            return None
        if reading.has(NoteCode.STOPPED) or self.is_dry_run(orders):
            return None
        there = {node.name: deployed.get(node.name, 0) for node in self.nodes}
        wanted = choose_initial(there, self.served_last, self.restored)
        free = {name: n for name, n in wanted.items() if n <= there.get(name, 0) or self.has_room(name)}
        target = raise_target(there, free, find_replica_limit(orders, self.operator, self.decider.k_max))
        return None if target == there else target

    def has_room(self, node_type: str) -> bool:
        """Whether one more replica may be ordered, as far as the actuator knows."""
        try:
            why = self.actuator.check_room(self.operator, node_type)
        except Exception as error:
            self.warn("the actuator cannot tell whether there is room", error)
            return True
        if why is not None:
            LOG.warning("operator %r: no first replica on %s is ordered: %s", self.operator, node_type, why)
        return why is None

    def find_steps(self, node_type: str, count: int) -> list[Step]:
        """The latest steps that ordered `count` more replicas of a type, or fewer where it is below 0."""
        same = [one for one in self.open_steps if self.name_type(one) == node_type and one.change.delta * count > 0]
        return same[-abs(count) :]

    def name_type(self, step: Step) -> str:
        return self.nodes[step.change.node_type].name

    def find_barred(self, pending: PendingReplicas, now: float) -> dict[str, Objection]:
        """Node types that are backed off, and why."""
        said = ((node.name, find_refusal(pending, node.name, now)) for node in self.nodes)
        return {name: Objection(LIMIT, UNAVAILABLE, why, {"node_type": name}) for name, why in said if why is not None}

    def expect(self, pending: PendingReplicas, open_steps: Sequence[Step]) -> Deployment | None:
        """The deployment once all that was ordered has arrived; None where nothing is pending."""
        if not (open_steps or pending.short):
            return None
        return Deployment(tuple(pending.target.get(node.name, 0) for node in self.nodes))

    def apply(self, plan: SlotPlan, slot: SlotInput) -> tuple[Reconfiguration, str, bool]:
        """Send targets to the actuator: what earlier orders and first replicas call for, then the decided change.

        Returns what was done of the change, why where that is not all of it, and whether earlier orders are settled;
        where they are not, the next slot finds the same and tries again.
        """
        if plan.base is not None:
            try:
                self.actuator.apply(self.operator, plan.base)
            except Exception as error:
                self.warn("the target of earlier orders or first replicas was not accepted", error)
                return NOTHING, str(error), False
            if slot.first is not None:
                self.restored = {}
        if plan.outcome.failed:
            LOG.warning("operator %r: %s", self.operator, plan.outcome.message)
        self.pending, self.open_steps = plan.pending, plan.open_steps
        done, why = self.apply_change(plan.step, slot)
        return done, why, True

    def apply_change(self, step: Step, slot: SlotInput) -> tuple[Reconfiguration, str]:
        """What was done of the decided change, and why where that is not all of it."""
        change = step.change
        if change.delta == 0:
            return NOTHING, ""
        if slot.deployed is None:
            return NOTHING, "how many replicas serve cannot be told"
        node_type = self.nodes[change.node_type].name
        base = slot.deployed if self.expect(self.pending, self.open_steps) is None else self.pending.target
        target = {node.name: base.get(node.name, 0) for node in self.nodes}
        target[node_type] += change.delta
        try:
            why = self.actuator.check_room(self.operator, node_type) if change.delta > 0 else None
            if why is not None:
                return NOTHING, why
            self.actuator.apply(self.operator, target)
        except (BadInput, Retry) as error:
            return NOTHING, str(error)
        except Exception as error:
            self.warn("the actuator failed", error)
            return NOTHING, f"the actuator failed ({type(error).__name__}: {error})"
        self.pending = order(self.pending, target, slot.now)
        self.open_steps = (*self.open_steps, step)
        return change, ""

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
            wanted = self.pending.target or self.restored or self.served_last
            write_checkpoint(self.checkpoint, self.decider.save(), wanted)
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
