"""Checkpoints of a Decider: a loaded one decides as the saved one would, and refuses what is not its own."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from scaler.agent.checkpoint_file import read_checkpoint, read_target, write_checkpoint
from scaler.agent.decider import Decider
from scaler.model.errors import BadInput
from scaler.model.nodes import Deployment, scale
from scaler.model.orders import parse_orders, to_task
from scaler.policies import POLICIES
from tests.pilot.drive import (
    K_MAX,
    NODES,
    SLOT,
    drive,
    make_objective,
    make_orders,
    observe,
)

RELEASED = Path(__file__).parent / "released"


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


def test_damaged_checkpoint_file_is_no_checkpoint(tmp_path: Path) -> None:
    """8,000 damaged files: a NotImplementedError (zip flags) ended the round of all operators."""
    path = tmp_path / "parse.npz"
    write_checkpoint(path, {"values": np.arange(20.0)}, {"small": 2})
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    arrays = read_checkpoint(path)
    assert arrays is not None
    assert read_target(arrays) == {"small": 2}
    damages = [whole[:6] + b"\xff\xff" + whole[8:], whole.replace(b"PK\x01\x02\x14\x03", b"PK\x01\x02\x14\x03\xff")]
    for _ in range(1000):
        content = bytearray(whole)
        for place in rng.integers(0, len(content), 4):
            content[place] = rng.integers(0, 256)
        damages.append(bytes(content))
    unread = 0
    for damage in damages:
        path.write_bytes(damage)
        found = read_checkpoint(path)
        unread += found is None
        assert isinstance(read_target(found or {}), dict)
    assert unread > 200
    assert read_target({"target": np.array('{"small": 1e400}')}) == {}


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


def test_checkpoint_of_format_2_is_gone_on_with() -> None:
    """Written by the release before changes of any size, in the middle of a step, with what it decided next."""
    told = json.loads((RELEASED / "format_2.json").read_text())
    arrays = read_checkpoint(RELEASED / "format_2.npz")
    assert arrays is not None
    pilot = Decider("parse", NODES, seed=3)
    pilot.load(arrays)
    memory = pilot.memory
    assert memory.pending is not None
    assert memory.pending.change == memory.pending.proposed == scale(0, -1)
    assert memory.failed == {(0, False): 61 * SLOT}
    assert len(memory.transitions) == told["slot"] - 1
    assert memory.before is not None
    assert (memory.before.backlog, memory.before.batch_ratio) == (None, None)
    assert all(one.after.deployment.parallelism <= K_MAX for one in memory.transitions)
    shadow = pilot.instances[2].shadow
    assert shadow is not None
    assert shadow.before is not None
    assert shadow.before.rate == memory.before.rate
    pilot.actuated(memory.pending, memory.pending.change)
    candidate = {"objective": make_objective(2, "planner"), "stage": "shadow"}
    orders = make_orders(make_objective(1, "ql-pds"), candidate, cooldown={"in_s": 120, "out_s": 60})
    slots = range(told["slot"], told["slot"] + len(told["actions"]))
    decisions, _ = drive(pilot, orders, slots, deployment=Deployment(tuple(told["deployment"])))
    assert [one.action for one in decisions] == told["actions"]
    again = Decider("parse", NODES, seed=3)
    again.load(pilot.save())
    assert again.memory == pilot.memory


def test_an_objective_is_written_as_it_is_read() -> None:
    objective = make_orders(make_objective(7, "planner", provenance="trial 3")).objective
    assert objective is not None
    again = parse_orders(
        json.loads(json.dumps({"application": "a", "revision": 1, "slot_s": 1, "objective": objective.to_json()}))
    ).objective
    assert again == objective


def test_least_replicas_are_written_and_read_and_one_in_orders_of_old() -> None:
    document = make_objective(7, "planner")
    old = make_orders(document).objective
    assert old is not None
    assert to_task(old, "parse").k_min == 1
    document["operators"]["parse"]["k_min"] = 2
    objective = make_orders(document).objective
    assert objective is not None
    assert to_task(objective, "parse").k_min == 2
    assert objective.to_json()["operators"]["parse"]["k_min"] == 2
