"""One operator's manager over a simulated operator: it scales, waits, gives back, holds, and remembers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from scaler.acting.actuator import Room
from scaler.agent.decider import Decider
from scaler.agent.pending import ArrivalTimeouts
from scaler.agent.slot_loop import Agent
from scaler.model.decision import Decision
from scaler.sensing.reading import UNTRUSTED, NoteCode, Reading, SlotNote
from tests.live.plant import NODES, SLOT_S, Desk, Plant


def make(plant: Plant, desk: Desk, enforce: bool = True, checkpoint: Path | None = None, slots: float = 2.5) -> Agent:
    """`slots`: after which a replica that has not come is given back."""
    patience = ArrivalTimeouts(default=slots * SLOT_S, back_off=5 * SLOT_S)
    decider = Decider("parse", NODES, guards={} if enforce else {"dry_run": True})
    return Agent(decider, plant, plant, desk, patience, checkpoint=checkpoint)


def run(operation: Agent, plant: Plant, slots: int, first: int = 0) -> list[Decision]:
    made = []
    for t in range(first, first + slots):
        plant.at((t + 1) * SLOT_S)
        made.append(operation.slot(t * SLOT_S, (t + 1) * SLOT_S, (t + 1) * SLOT_S))
    return made


def test_it_follows_the_rate_out_and_in() -> None:
    plant = Plant(lambda t: 2500.0 if 10 * SLOT_S <= t < 40 * SLOT_S else 300.0)
    desk = Desk()
    operation = make(plant, desk)
    run(operation, plant, 40)
    busy = sum(plant.serving.values())
    run(operation, plant, 40, 40)
    assert busy >= 3
    assert sum(plant.serving.values()) < busy
    assert len(desk.told) == 80
    assert {"SCALED", "NO_CHANGE"} == set(desk.kinds())
    assert [s["arrived"] for s in desk.samples[8:12]] == [300 * SLOT_S, 300 * SLOT_S, 2500 * SLOT_S, 2500 * SLOT_S]


def test_what_is_on_its_way_counts_as_there() -> None:
    """As many are asked for as are needed, one a slot, though none has come; and no more than that."""
    plant, desk = Plant(lambda t: 2500.0, delay=4.5 * SLOT_S), Desk()
    made = run(make(plant, desk, slots=9), plant, 6)
    assert [one.kind for one in made] == ["SCALED"] * 3 + ["NO_CHANGE"] * 3
    assert [target["small"] for target in plant.asked] == [2, 3, 4]
    assert "pending (3 on small, now 1)" in made[2].reason
    assert made[2].seen.target == {"small": 3, "fast": 0}


def test_nothing_is_given_back_before_what_was_asked_for_has_come() -> None:
    plant, desk = Plant(lambda t: 2500.0 if t < 2 * SLOT_S else 300.0, delay=2.5 * SLOT_S), Desk()
    made = run(make(plant, desk, slots=9), plant, 7)
    kinds = [one.kind for one in made]
    assert kinds[:4] == ["SCALED", "SCALED", "BLOCKED", "BLOCKED"]
    assert made[2].code == "pending"
    assert plant.asked[-1]["small"] < 3


def test_nothing_is_given_back_on_a_rate_of_before() -> None:
    """A batch that outlasts the slot tells nothing of it; executors that work at full tilt do."""
    plant, desk = Plant(lambda t: 300.0), Desk("drs-c")
    plant.serving = plant.target = {"small": 3, "fast": 0}
    operation = make(plant, desk)
    operation.readings.latest = plant.read("parse", 0.0, SLOT_S)
    plant.dark = True
    made = run(operation, plant, 1, 1)
    assert made[0].kind == "BLOCKED"
    assert "a batch outlasts the slot" in made[0].reason
    assert made[0].seen.completeness == 0.0
    assert plant.asked == []


def test_a_stream_whose_every_batch_outlasts_its_slot_is_scaled_on_what_is_known_of_slots_before() -> None:
    """No slot is known as a whole when it ends; the reports of it come later."""
    plant, desk = Plant(lambda t: 900.0), Desk()
    operation = make(plant, desk)
    told = plant.read

    def read(operator: str, start: float, end: float) -> Reading:
        plant.dark = end > plant.now - SLOT_S
        return told(operator, start, end)

    plant.read = read  # type: ignore[method-assign]
    made = run(operation, plant, 3)
    assert [one.kind for one in made] == ["HELD", "SCALED", "SCALED"]
    assert "900 tuples/s" in made[1].reason
    plant.notes = (SlotNote(NoteCode.RESTARTED),)
    operation.readings.latest = None
    assert run(operation, plant, 1, 3)[0].kind == "HELD"


def test_a_replica_that_never_comes_is_given_back_and_told_as_failed() -> None:
    plant, desk = Plant(lambda t: 900.0), Desk()
    plant.full = True
    made = run(make(plant, desk), plant, 5)
    assert made[0].kind == "SCALED"  # as it looked then
    assert desk.told[0.0]["kind"] == "ACTUATION_FAILED"  # as it is known now
    assert "did not come" in desk.told[0.0]["reason"]
    assert plant.asked == [{"small": 2, "fast": 0}, {"small": 1, "fast": 0}]
    assert not any(one.kind == "SCALED" for one in made[1:])
    plant.full = False
    later = run(make(plant, desk), plant, 12, 5)
    assert any(one.kind == "SCALED" for one in later)


def test_what_the_cluster_refuses_has_failed_with_its_words() -> None:
    plant, desk = Plant(lambda t: 900.0), Desk()
    plant.refuses = "the cluster is being upgraded"
    (made,) = run(make(plant, desk), plant, 1)
    assert made.kind == "ACTUATION_FAILED"
    assert "the cluster is being upgraded" in made.reason


def test_a_stream_without_a_replica_is_given_its_first() -> None:
    plant, desk = Plant(lambda t: 300.0), Desk()
    plant.serving = {"small": 0, "fast": 0}
    plant.target = dict(plant.serving)
    operation = make(plant, desk)
    made = [operation.slot(0.0, SLOT_S, SLOT_S)]
    assert plant.asked == [{"small": 1, "fast": 0}]
    made += run(operation, plant, 2, 1)
    assert [one.kind for one in made] == ["HELD", "NO_CHANGE", "NO_CHANGE"]
    assert len(plant.asked) == 1


def test_without_enforce_nothing_is_asked_for_and_it_is_said_what_would_have_been() -> None:
    plant, desk = Plant(lambda t: 900.0), Desk()
    (made,) = run(make(plant, desk, enforce=False), plant, 1)
    assert plant.asked == []
    assert (made.kind, made.code, made.action, made.proposed) == ("DRY_RUN", "dry_run", None, {"small": 1})
    assert "would have been added" in made.objections[0].message


@pytest.mark.parametrize("code", UNTRUSTED)
def test_it_holds_on_what_a_restart_or_a_stall_measured(code: NoteCode) -> None:
    plant, desk = Plant(lambda t: 2500.0), Desk()
    plant.notes = (SlotNote(code),)
    (made,) = run(make(plant, desk), plant, 1)
    assert (made.kind, [note.code for note in made.seen.notes]) == ("HELD", [code])


def test_a_sensor_that_fails_holds_and_is_heard_again() -> None:
    plant, desk = Plant(lambda t: 900.0), Desk()
    operation = make(plant, desk)
    plant.silent = True
    (made,) = run(operation, plant, 1)
    assert (made.kind, made.rate, desk.samples) == ("HELD", None, [])
    plant.silent = False
    (made,) = run(operation, plant, 1, 1)
    assert made.kind == "SCALED"


def test_a_driver_that_starts_again_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """The same decisions as an undisturbed one makes, the planner's memory included."""
    file = tmp_path / "parse.npz"

    def rate(t: float) -> float:
        return 2200.0 if int(t / SLOT_S) % 20 < 8 else 300.0

    whole, cut = Plant(rate), Plant(rate)
    undisturbed = run(make(whole, Desk("planner")), whole, 200)
    before = run(make(cut, Desk("planner"), checkpoint=file), cut, 120)
    after = run(make(cut, Desk("planner"), checkpoint=file), cut, 80, 120)
    assert [one.action for one in (*before, *after)] == [one.action for one in undisturbed]


def test_a_damaged_checkpoint_is_left_aside(tmp_path: Path) -> None:
    file = tmp_path / "parse.npz"
    plant, desk = Plant(lambda t: 900.0), Desk()
    run(make(plant, desk, checkpoint=file), plant, 3)
    file.write_bytes(file.read_bytes()[:200])
    (made,) = run(make(plant, desk, checkpoint=file), plant, 1, 3)
    assert made.kind in ("SCALED", "NO_CHANGE")


def test_a_policy_of_the_drivers_own_takes_the_place_of_the_objectives() -> None:
    plant, desk = Plant(lambda t: 2500.0), Desk("threshold-c")
    operation = make(plant, desk)
    operation.policy = "static"
    assert {one.kind for one in run(operation, plant, 5)} == {"NO_CHANGE"}


def test_an_operator_whose_machines_all_go_and_come_back_is_served_again() -> None:
    plant, desk = Plant(lambda t: 900.0), Desk()
    operation = make(plant, desk)
    run(operation, plant, 5)
    served = sum(plant.serving.values())
    plant.lost = True
    run(operation, plant, 8, 5)
    assert sum(plant.serving.values()) == 0
    assert sum(plant.target.values()) >= 1  # so that whoever starts replicas goes on
    plant.lost = False
    run(operation, plant, 12, 13)
    assert sum(plant.serving.values()) >= served > 1


def test_a_driver_that_starts_again_on_an_empty_cluster_asks_for_what_it_had(tmp_path: Path) -> None:
    file, plant, desk = tmp_path / "parse.npz", Plant(lambda t: 2500.0), Desk()
    run(make(plant, desk, checkpoint=file), plant, 10)
    had = dict(plant.serving)
    assert had["small"] > 2
    empty = Plant(lambda t: 2500.0)
    empty.serving = empty.target = {"small": 0, "fast": 0}
    run(make(empty, desk, checkpoint=file), empty, 1, 10)
    assert empty.asked == [had]


def test_what_spark_brings_by_itself_to_a_driver_that_starts_again_is_made_up_to_what_it_had(tmp_path: Path) -> None:
    file, plant, desk = tmp_path / "parse.npz", Plant(lambda t: 2500.0), Desk()
    run(make(plant, desk, checkpoint=file), plant, 10)
    had = dict(plant.serving)
    assert had["small"] > 2
    begun = Plant(lambda t: 2500.0)  # one small is there
    operation = make(begun, desk, checkpoint=file)
    run(operation, begun, 1, 10)
    assert begun.asked[0] == had
    begun = Plant(lambda t: 2500.0)
    operation = make(begun, desk, checkpoint=file)
    operation.decider.k_max = 2
    run(operation, begun, 1, 10)
    assert begun.asked[0] == {"small": 2, "fast": 0}


def test_first_replicas_are_asked_for_within_the_limits_alone() -> None:
    """Of a stream that has none: not where there is no room, nor of one that ended, nor where nothing is to be done."""

    class Full(Plant):
        def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
            return Room({}, "the quota is used up")

    def order_first(plant: Plant, desk: Desk) -> list[dict[str, int]]:
        plant.serving = plant.target = {"small": 0, "fast": 0}
        operation = make(plant, desk)
        operation.served_last = {"small": 20}
        run(operation, plant, 1)
        return plant.asked

    assert order_first(Plant(lambda t: 300.0), Desk()) == [{"small": 8, "fast": 0}]  # the objective's limit
    assert order_first(Full(lambda t: 300.0), Desk()) == []
    assert order_first(Plant(lambda t: 300.0), Desk(dry_run=True)) == []
    empty = Plant(lambda t: 300.0)
    stopped = (SlotNote(NoteCode.STOPPED),)
    empty.read = lambda operator, start, end: Reading(operator, start, end, notes=stopped)  # type: ignore[method-assign]
    assert order_first(empty, Desk()) == []


def test_where_no_actuator_can_tell_replicas_are_those_that_were_seen_as_long_as_nothing_is_changed() -> None:
    class Mute(Plant):
        def deployed(self, operator: str) -> None:  # type: ignore[override]
            return None

    plant, desk = Mute(lambda t: 2500.0), Desk()
    (made,) = run(make(plant, desk, enforce=False), plant, 1)
    assert (made.kind, made.seen.deployment) == ("DRY_RUN", {"small": 1, "fast": 0})
    (made,) = run(make(plant, desk), plant, 1)
    assert (made.kind, plant.asked) == ("HELD", [])


def test_a_slot_whose_reports_come_in_the_next_is_decided_about_once_and_then() -> None:
    plant, desk = Plant(lambda t: 900.0 if t < 3 * SLOT_S else 300.0), Desk()
    operation = make(plant, desk)
    told = plant.read

    def read(operator: str, start: float, end: float) -> Reading:
        if end > plant.now - 0.5 * SLOT_S:
            return Reading(operator, start, end, utilisation=0.4, replicas={"small": 1.0}, completeness=0.0)
        return told(operator, start, end)

    plant.read = read  # type: ignore[method-assign]
    made = run(operation, plant, 5)
    assert [one.kind for one in made[:2]] == ["HELD", "SCALED"]
    assert [one.rate for one in made] == [None, 900.0, 900.0, 900.0, 300.0]
    assert all(one.seen.notes[0].code == "reported_late" for one in made[1:])


def test_without_enforce_nothing_is_asked_for_even_when_nobody_has_said_anything_for_hours() -> None:
    plant, desk = Plant(lambda t: 2500.0), Desk()
    desk.orders_now = None
    operation = make(plant, desk, enforce=False)
    operation.decider.k_max, operation.decider.fallback_s = 8, 3 * SLOT_S
    made = run(operation, plant, 8)
    assert made[0].kind == "HELD"
    assert "DRY_RUN" in {one.kind for one in made}
    assert plant.asked == []


def test_what_did_not_come_is_blocked_and_told_once() -> None:
    """Until the pause is over nothing is asked for, and that is no further failure."""
    plant, desk = Plant(lambda t: 2500.0), Desk()
    plant.full = True
    operation = make(plant, desk)
    operation.decider.retry_s = 0.0
    made = run(operation, plant, 9)
    after = next(i for i, one in enumerate(made) if one.code == "node_type_unavailable")
    assert {one.kind for one in made[after : after + 4]} == {"BLOCKED"}
    assert "was ordered and did not come, once; not again for" in made[after].reason


def test_replicas_that_came_are_no_failure_of_those_that_did_not() -> None:
    plant, desk = Plant(lambda t: 2500.0), Desk()
    operation = make(plant, desk)
    run(operation, plant, 2)
    plant.full = True  # what was asked for in slot 1 has come already or never will
    run(operation, plant, 6, 2)
    failed = [time for time, one in desk.told.items() if one["kind"] == "ACTUATION_FAILED"]
    assert failed
    assert 0.0 not in failed


def test_replicas_that_nobody_takes_away_are_wanted_in_the_end() -> None:
    """A cluster that keeps a number of its own."""
    plant, desk = Plant(lambda t: 300.0), Desk()
    plant.serving = plant.target = {"small": 3, "fast": 0}
    plant.stays = True
    made = run(make(plant, desk), plant, 14)
    assert desk.told[0.0]["kind"] == "ACTUATION_FAILED"
    assert "did not go" in desk.told[0.0]["reason"]
    assert "are pending" not in made[-1].reason


def test_the_planner_gives_nothing_back_while_a_backlog_is_worked_off() -> None:
    plant, desk = Plant(lambda t: 2500.0 if t < 60 * SLOT_S else 400.0), Desk("planner")
    operation = make(plant, desk)
    run(operation, plant, 60)
    before = dict(plant.serving)
    plant.notes = (SlotNote(NoteCode.CATCHING_UP),)
    run(operation, plant, 60, 60)
    assert plant.serving == before
    assert sum(before.values()) > 1
    plant.notes = ()
    run(operation, plant, 60, 120)
    assert sum(plant.serving.values()) < sum(before.values())


def test_a_callback_of_the_users_that_fails_costs_no_checkpoint(tmp_path: Path) -> None:
    def fail(operator: str, decision: Decision, reading: Reading) -> None:
        raise RuntimeError("the user's own")

    plant, desk = Plant(lambda t: 900.0), Desk()
    operation = make(plant, desk, checkpoint=tmp_path / "parse.npz")
    operation.on_decision = fail
    run(operation, plant, 2)
    assert (tmp_path / "parse.npz").exists()
