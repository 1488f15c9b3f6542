"""Reports of agents are rows before they are answered, each once, with bad ones set apart."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from scaler.model.errors import BadInput, Retry
from scaler.model.sample import Sample
from tests.service.conftest import sentence
from tuner.service.exchange.intake import (
    Intake,
    Report,
    close_intake,
    join_scalers,
    start_intake,
    submit,
    submit_unanswered,
    take_batch,
    write_batch,
)
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.orders import list_scalers
from tuner.store.records import DecisionRecord, Scaler
from tuner.store.samples import load_samples

PLACE = "/v1/applications/shop/reports"
OWN = {"token": "ann", "token_expires": None}  # what the service adds to what an agent says of itself
SAMPLE = {"start": 60.0, "end": 120, "evidence": "progress", "arrived": 5.0, "node_type": "small"}
DECISION = {
    "time": 60.0, "kind": "BLOCKED", "reason": "<script>alert(1)</script>'; DROP TABLE decisions; --",
    "action": "+1 small", "objective_version": 3, "rate": 9.0, "response": "Infinity", "bound": 0.05, "price": 2.0,
    "seen": {"utilisation": 1.2, "deployment": {"small": 2}, "backlog": "Infinity"},
    "alternatives": {"no change": "Infinity", "+1 small": 0.5, "-1 small": None}, "shadow": {"version": 4},
}  # fmt: skip


def make_body(**changes: Any) -> dict[str, Any]:
    return {"instance": "a", "operator": "parse", "samples": [SAMPLE], "decisions": [DECISION], **changes}


def test_what_is_acknowledged_is_there_as_it_was_sent(client: httpx.Client, store: Store) -> None:
    for _ in range(2):  # the answer to the first may have been lost
        answer = client.post(PLACE, json=make_body(revision=7, detail={"host": "h"}))
        assert answer.json() == {"received": {"samples": 1, "decisions": 1}, "revision": None}
    with store.read() as session:
        [sample], [decision] = load_samples(session, "shop"), list_decisions(session, "shop")
        [scaler] = list_scalers(session, "shop")
    assert sample == Sample("shop", "parse", 60.0, 120.0, "progress", node_type="small", arrived=5.0)
    assert (decision.application, decision.operator) == ("shop", "parse")
    told = {name: getattr(decision, name) for name in DECISION}
    assert told == {
        **DECISION, "response": math.inf, "seen": {**DECISION["seen"], "backlog": math.inf},  # type: ignore[dict-item]
        "alternatives": {"no change": math.inf, "+1 small": 0.5, "-1 small": None},
    }  # fmt: skip
    assert (scaler.operator, scaler.instance, scaler.revision, scaler.detail) == ("parse", "a", 7, {"host": "h", **OWN})
    shown = client.get("/v1/applications/shop/decisions").json()["items"][0]
    assert {name: shown[name] for name in DECISION} == DECISION


def test_an_acknowledgement_leaves_the_rest_alone(client: httpx.Client, store: Store) -> None:
    client.post(PLACE, json=make_body(revision=7, detail={"host": "h"}))
    said = {"instance": "a", "operator": "parse", "revision": 8}
    assert client.post("/v1/applications/shop/acknowledgements", json=said).json() == {"revision": None}
    client.post(PLACE, json=make_body(detail={"host": "g"}))
    with store.read() as session:
        [scaler] = list_scalers(session, "shop")
    assert (scaler.revision, scaler.detail) == (8, {"host": "g", **OWN})
    assert scaler.acknowledged is not None


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no instance": ({"instance": None}, "instance is null, and must be a valid string"),
    "a long name": ({"operator": "x" * 201}, "operator must be 1 to 200 printable characters"),
    "a name to break lines": ({"operator": "a\nb"}, "operator must be 1 to 200 printable characters"),
    "an unknown field": ({"more": 1}, "more is not known here"),
    "a field of the wrong type": ({"samples": [{**SAMPLE, "arrived": "5"}]}, r"samples\[0\].arrived is '5'"),
    "a truth as a number": ({"samples": [{**SAMPLE, "arrived": True}]}, r"samples\[0\].arrived is True"),
    "a count below 0": ({"samples": [{**SAMPLE, "arrived": -1.0}]}, r"samples\[0\].arrived is -1.0"),
    "an infinite count": ({"samples": [{**SAMPLE, "arrived": "Infinity"}]}, "arrived"),
    "a window that ends first": ({"samples": [{**SAMPLE, "end": 60.0}]}, r"samples\[0\] is from 60.0 to 60.0"),
    "a fine sample": ({"samples": [{**SAMPLE, "key": "k"}]}, r"samples\[0\].key is not known"),
    "a time beyond all": ({"decisions": [{**DECISION, "time": 1e300}]}, r"decisions\[0\].time is 1e\+300"),
    "no kind of decision": ({"decisions": [{**DECISION, "kind": "X"}]}, r"decisions\[0\].kind is 'X', and must be"),
    "NaN": ({"decisions": [{**DECISION, "alternatives": {"a": "NaN"}}]}, "is NaN, and must be a number"),
    "a decision too large": ({"decisions": [{**DECISION, "seen": {"a": "x" * 20_000}}]}, "and may have 16,384"),
    "a version too large": ({"decisions": [{**DECISION, "objective_version": 2**31}]}, "objective_version"),
    "too many": ({"samples": [SAMPLE] * 2001}, "samples is a list, and must have at most 2000 items"),
}


def test_bad_reports_are_refused_in_one_sentence(client: httpx.Client, store: Store) -> None:
    for what, (changes, says) in REFUSED.items():
        told = sentence(client.post(PLACE, json=make_body(**changes)), 422)
        assert re.search(says, told), (what, told)
    with store.read() as session:
        assert load_samples(session, "shop") == list_decisions(session, "shop") == []


def make_report(number: int, operator: str = "parse", kind: str = "HELD") -> Report:
    scaler = Scaler("shop", operator, f"i{number}", float(number), float(number), detail={"n": number})
    return Report(scaler, decisions=[DecisionRecord("shop", operator, float(number), kind, "r")])


def test_a_report_that_the_database_refuses_takes_no_other_along(store: Store) -> None:
    reports = [make_report(number) for number in range(20)]
    reports[13] = replace(reports[13], decisions=[replace(reports[13].decisions[0], reason=None)])  # type: ignore[arg-type]
    outcomes = write_batch(Intake(store), reports)
    assert [number for number, outcome in enumerate(outcomes) if outcome is not None] == [13]
    with store.read() as session:
        assert len(list_decisions(session, "shop")) == 19


def test_many_at_a_time_are_each_answered_after_their_commit(store: Store) -> None:
    async def send(reports: Sequence[Report]) -> list[int]:
        intake = Intake(store, max_batch=30, max_queue=1_000)
        start_intake(intake)

        async def check(number: int, report: Report) -> int:
            await submit(intake, report)
            with store.read() as session:
                assert list_decisions(session, "shop", since=float(number), until=number + 0.5)
            return number

        done = await asyncio.gather(*(check(number, report) for number, report in enumerate(reports)))
        submit_unanswered(intake, Report(Scaler("shop", "other", "i", 1.0, 1.0), acknowledges=True))
        close_intake(intake)
        with pytest.raises(Retry, match="shutting down"):
            await submit(intake, reports[0])
        return list(done)

    assert asyncio.run(send([make_report(number) for number in range(100)])) == list(range(100))
    with store.read() as session:
        assert list_scalers(session, "shop")[0].operator == "other"


def test_a_full_queue_asks_to_come_again(store: Store) -> None:
    async def send() -> None:
        intake = Intake(store, max_batch=10, max_queue=0)
        start_intake(intake)
        with pytest.raises(Retry, match="more reports waiting"):
            await submit(intake, make_report(1))
        close_intake(intake)

    asyncio.run(send())


def test_a_transaction_has_a_bounded_number_of_rows(store: Store) -> None:
    """As attacked: sixteen full reports at a time were held in one transaction, with all that they are made into."""
    intake = Intake(store, max_rows=5)
    heavy = replace(make_report(1), decisions=[replace(make_report(1).decisions[0], time=float(i)) for i in range(9)])
    intake.waiting.extend((report, None) for report in (make_report(1), heavy, make_report(2), make_report(3)))
    assert [len(take_batch(intake)), len(take_batch(intake)), len(intake.waiting)] == [2, 2, 0]


def test_one_row_for_each_scaler_of_a_batch() -> None:
    scaler = Scaler("shop", "parse", "a", 1.0, 1.0, revision=3, detail={"n": 1})
    later = replace(scaler, first_seen=2.0, last_seen=2.0, revision=4, acknowledged=2.0, detail={})
    other = replace(later, operator="count")
    reporting, acknowledging = join_scalers(
        [Report(scaler), Report(later, acknowledges=True), Report(other, (), (), True)]
    )
    assert reporting == [replace(scaler, last_seen=2.0, revision=4, acknowledged=2.0)]
    assert acknowledging == [other]


def test_bad_input_is_the_sender_s_own(store: Store) -> None:
    fine = Report(Scaler("shop", "parse", "a", 1.0, 1.0), [Sample("shop", "parse", 1.0, 2.0, "tasks", key="k")])
    [outcome, none] = write_batch(Intake(store), [fine, make_report(2)])
    assert isinstance(outcome, BadInput)
    assert none is None
