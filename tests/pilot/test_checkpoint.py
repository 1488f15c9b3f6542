"""Checkpoints of a Decider: a loaded one decides as the saved one would, and refuses what is not its own."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from scaler.agent.decider import Decider
from scaler.model.errors import BadInput
from scaler.model.nodes import Deployment
from scaler.model.orders import parse_orders
from scaler.policies import POLICIES
from tests.pilot.drive import (
    NODES,
    drive,
    make_objective,
    make_orders,
    observe,
)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_goes_on_from_a_checkpoint(policy: str) -> None:
    candidate = {"objective": make_objective(2, policy), "stage": "shadow"}
    orders = make_orders(make_objective(1, policy), candidate, cooldown={"in_s": 300, "out_s": 120})
    whole, _ = drive(Decider("parse", NODES, seed=3), orders, 80)
    first = Decider("parse", NODES, seed=3)
    begun, deployment = drive(first, orders, 50)
    file = io.BytesIO()
    np.savez(file, **first.save())  # type: ignore[arg-type]
    file.seek(0)
    second = Decider("parse", NODES, seed=3)
    second.load(dict(np.load(file)))
    ended, _ = drive(second, orders, range(50, 80), deployment=deployment)
    assert begun + ended == whole


def test_a_checkpoint_in_the_middle_of_a_step_goes_on(tmp_path: object) -> None:
    orders = make_orders(make_objective())
    first = Decider("parse", NODES)
    step = first.step(observe(Deployment((1, 0, 0)), 600.0, 0.0), orders, 0.0)
    second = Decider("parse", NODES)
    second.load(first.save())
    first.actuated(step, step.change)
    second.actuated(step, step.change)
    assert second.memory.failed == first.memory.failed
    assert second.memory.history == first.memory.history


def test_checkpoints_of_others_are_refused_and_change_nothing() -> None:
    pilot = Decider("parse", NODES)
    drive(pilot, make_orders(make_objective(policy="ql")), 30)
    saved = pilot.save()
    with pytest.raises(BadInput, match="node types"):
        Decider("parse", NODES[:2]).load(saved)
    for damaged in (
        {},
        {k: v for k, v in saved.items() if not k.startswith("seat.0")},
        {**saved, "pilot": np.array("[")},
    ):
        other = Decider("parse", NODES)
        with pytest.raises(BadInput, match="checkpoint"):
            other.load(damaged)
        assert not other.memory.transitions
    assert pilot.memory.history.changes


def test_an_objective_is_written_as_it_is_read() -> None:
    objective = make_orders(make_objective(7, "planner", provenance="trial 3")).objective
    assert objective is not None
    again = parse_orders(
        json.loads(json.dumps({"application": "a", "revision": 1, "slot_s": 1, "objective": objective.to_json()}))
    ).objective
    assert again == objective
