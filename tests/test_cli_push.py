"""Objectives pushed and taken back by the command; what scalers are told of it, which a driver reads from a file."""

from __future__ import annotations

import json
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from scaler.agent.order_source import OrdersFile
from scaler.model.orders import parse_orders
from scaler.model.task import Weights
from tests.commands import refuse, succeed
from tuner.store.audit_log import list_events
from tuner.store.connection import open_store
from tuner.store.objectives import add_objective
from tuner.store.records import ObjectiveRecord

EXAMPLE = str(files("tuner.demo").joinpath("demo.toml"))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with an application and two proposed objectives."""
    monkeypatch.setenv("TUNER_STORE", str(tmp_path / "tuner.db"))
    succeed("app", "add", "clicks", EXAMPLE)
    operators = json.loads(succeed("app", "show", "clicks", "--json"))["document"]["application"]["operator"]
    with closing(open_store(tmp_path / "tuner.db")) as store, store.begin() as session:
        for share in (0.01, 0.02):
            bounds = {operator["name"]: share for operator in operators}
            add_objective(session, ObjectiveRecord("clicks", Weights(), bounds, 1.0))
    return tmp_path


def test_an_objective_goes_in_step_by_step_and_back(place: Path) -> None:
    assert refuse("orders", "clicks").endswith("have no orders yet; tune it, then: tuner push clicks")
    assert succeed("push", "clicks", 1, "--stage", "full", "--why", "to begin") == (
        "clicks: objective 1 is in full now; it was proposed.\n"
    )
    assert "objective 2 is in shadow now" in succeed("push", "clicks", "--why", "the newer one")
    assert "Objective 2, shadow since" in succeed("app", "show", "clicks")
    assert refuse("push", "clicks", "--why", "twice").startswith(
        "objective 2 of 'clicks' is in shadow already, and no other is proposed"
    )
    told = parse_orders(json.loads(succeed("orders", "clicks")))
    assert told.objective is not None
    assert told.candidate is not None
    assert (told.objective.version, told.candidate.objective.version, told.candidate.stage) == (1, 2, "shadow")
    assert succeed("push", "clicks", 2, "--why", "again").endswith("is in shadow now; it was there already.\n")
    assert succeed("roll-back", "clicks", "--why", "no need") == (
        "clicks: objective 2 was rolled back, and objective 1 is pursued.\n"
    )
    assert "nothing is pursued now" in succeed("roll-back", "clicks", "--why", "nor of this")
    with closing(open_store(place / "tuner.db")) as store, store.read() as session:
        whats = [event.what for event in list_events(session, "clicks")]
    assert whats == ["rolled back", "rolled back", "pushed", "pushed", "registered"]


def test_what_is_printed_is_a_file_for_drivers_without_a_manager(place: Path) -> None:
    succeed("push", "clicks", 1, "--stage", "full", "--why", "to begin")
    (place / "objective.json").write_text(succeed("orders", "clicks"))
    orders = OrdersFile(place / "objective.json", "clicks", 60.0).orders()
    assert orders is not None
    assert orders.objective is not None
    assert orders.objective.version == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["push", "clicks", "7", "--why", "x"], "has no objective 7"),
        (["push", "clicks", "1", "--why", " "], "--why is empty"),
        (["push", "nothere", "--why", "x"], "there is no application 'nothere'"),
        (["roll-back", "clicks", "--why", "x"], "there is nothing to roll back"),
        (["roll-back", "nothere", "--why", "x"], "there is no application 'nothere'"),
        (["orders", "nothere"], "there is no application 'nothere'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(place: Path, arguments: list[str], says: str) -> None:
    assert says in refuse(*arguments)
