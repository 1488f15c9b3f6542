"""One operator's manager: slot after slot, what its sensor read in; a decision made, acted on, told and kept, out.

What was asked for and has not come stands in a ledger (see outcome.py). While it is awaited the pilot decides about the
replicas that were asked for. What never comes is given back, and each decision that asked for it is told once more, as
one whose actuation failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from scaler.errors import BadInput, Retry
from scaler.live.actuator import Actuator
from scaler.live.checkpoint import read_checkpoint, write_checkpoint
from scaler.live.outcome import FAILED, REACHED, Ledger, Patience, ask, compare, refuse
from scaler.live.reading import Reading, Sensor
from scaler.live.telling import carry_on, find_doubt, is_whole, make_samples, observe, tell_more
from scaler.nodes import NOTHING, Deployment, NodeType, Reconfiguration
from scaler.orders import Orders
from scaler.pilot import Decision, Pilot, Step

LOG = logging.getLogger("scaler.live")
CHECKPOINT_S = 60.0  # nothing learned is lost that is older


class Office(Protocol):
    """Where orders come from and reports go: a `scaler.link.Link`, or a file."""

    def orders(self) -> Orders | None: ...

    def report(
        self,
        operator: str,
        decisions: Sequence[Mapping[str, Any]] = (),
        samples: Sequence[Mapping[str, Any]] = (),
        detail: Mapping[str, Any] | None = None,
    ) -> None: ...


class Operation:
    """Not for two threads at a time. `enforce`: False decides and records, and changes nothing."""

    def __init__(
        self,
        operator: str,
        nodes: Sequence[NodeType],
        pilot: Pilot,
        sensor: Sensor,
        actuator: Actuator,
        office: Office,
        enforce: bool = False,
        policy: str | None = None,
        patience: Patience | None = None,
        checkpoint: Path | None = None,
        on_decision: Callable[[str, Decision, Reading], None] | None = None,
    ) -> None:
        self.operator, self.nodes = operator, tuple(nodes)
        self.pilot, self.sensor, self.actuator, self.office = pilot, sensor, actuator, office
        self.enforce, self.policy, self.patience, self.checkpoint = enforce, policy, patience, checkpoint
        self.on_decision = on_decision
        self.ledger = Ledger()
        self.awaited: tuple[Step, ...] = ()  # that asked for what has not come yet
        self.kept_at = float("-inf")
        self.known: Reading | None = None  # the last one that was whole
        self.fault = ""  # what went wrong in the last slot that something did
        if checkpoint is not None:
            self.restore(checkpoint)

    def restore(self, path: Path) -> None:
        """Go on where the driver was before."""
        arrays = read_checkpoint(path)
        if arrays is None:
            return
        try:
            self.pilot.load(arrays)
            LOG.info("operator %r goes on from checkpoint %s", self.operator, path)
        except BadInput as error:
            LOG.warning("operator %r: checkpoint %s does not fit (%s); it starts anew", self.operator, path, error)

    def slot(self, start: float, end: float, now: float) -> Decision:
        """See, decide, act and tell, once."""
        reading = self.read(start, end)
        shown = carry_on(reading, self.known, self.pilot.complete)
        if is_whole(reading, self.pilot.complete):
            self.known = reading
        came = self.count()
        told = self.settle(came, now)
        self.ask_first(came, now)
        orders, seen, unsure = self.take_orders(), observe(shown, came, self.nodes), find_doubt(shown)
        step = self.pilot.step(seen, orders, now, self.expect(came), tell_more(shown), unsure)
        decision = self.pilot.acted(step, *self.act(step, came, now))
        self.office.report(self.operator, [one.document() for one in (*told, decision)], make_samples(reading))
        if self.on_decision is not None:
            self.on_decision(self.operator, decision, reading)
        self.keep(now)
        return decision

    def read(self, start: float, end: float) -> Reading:
        try:
            return self.sensor.read(self.operator, start, end)
        except Exception as error:  # nothing is known of the slot, and the stream goes on
            self.note("the sensor failed", error)
            return Reading(self.operator, start, end, completeness=0.0)

    def count(self) -> Mapping[str, int] | None:
        try:
            return self.actuator.deployed(self.operator)
        except Exception as error:
            self.note("the actuator cannot count replicas", error)
            return None

    def take_orders(self) -> Orders | None:
        """As they came, but for what this driver was started with: its own policy, and whether it may act."""
        orders = self.office.orders()
        if orders is None:
            return None
        if self.policy is not None and orders.objective is not None:
            options = orders.objective.options if orders.objective.policy == self.policy else {}
            orders = replace(orders, objective=replace(orders.objective, policy=self.policy, options=options))
        if not self.enforce:
            orders = replace(orders, guards={**orders.guards, "": {**orders.guards.get("", {}), "dry_run": True}})
        return orders

    def settle(self, came: Mapping[str, int] | None, now: float) -> list[Decision]:
        """Hold what came against what was asked for; the decision that came to nothing, if one did."""
        outcome = compare(self.ledger, came, now, self.patience)
        told: list[Decision] = []
        if outcome.state == FAILED and outcome.give_back is not None:
            try:
                self.actuator.ask(self.operator, outcome.give_back)
            except Exception as error:  # the next slot finds the same, and tries again
                self.note("what did not come could not be given back", error)
                return []
            LOG.warning("operator %r: %s", self.operator, outcome.says)
            late = {name for name, n in outcome.give_back.items() if n < self.ledger.target().get(name, 0)}
            told = [self.pilot.acted(step, NOTHING, outcome.says) for step in self.awaited if self.adds(step, late)]
        if outcome.state in (FAILED, REACHED):
            self.awaited = ()
        self.ledger = outcome.ledger
        return told

    def adds(self, step: Step, types: Collection[str]) -> bool:
        return step.change.delta > 0 and self.nodes[step.change.node_type].name in types

    def ask_first(self, came: Mapping[str, int] | None, now: float) -> None:
        """A stream that has no replica at all serves nothing and tells nothing; it gets one of the first type."""
        if not self.enforce or came is None or any(came.values()) or self.ledger.asked is not None:
            return
        target = {node.name: int(i == 0) for i, node in enumerate(self.nodes)}
        try:
            self.actuator.ask(self.operator, target)
        except Exception as error:  # the next slot tries again
            self.note("a first replica could not be asked for", error)
            return
        self.ledger = ask(self.ledger, target, now)

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
            if change.delta > 0:
                why = refuse(self.ledger, node_type, now) or self.actuator.room(self.operator, node_type)
                if why is not None:
                    return NOTHING, why
            counts = (self.expect(came) or Deployment(tuple(came.get(node.name, 0) for node in self.nodes))).after(
                change
            )
            target = {node.name: n for node, n in zip(self.nodes, counts.replicas, strict=True)}
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
            write_checkpoint(self.checkpoint, self.pilot.save())
            self.kept_at = now
        except Exception as error:
            self.note("what was learned could not be kept", error)

    def note(self, what: str, error: Exception) -> None:
        self.fault = f"{what} ({type(error).__name__}: {error})"
        LOG.warning("operator %r: %s", self.operator, self.fault, exc_info=error)
