"""Metrics that Prometheus reads, from rows of both databases and over real HTTP."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sim.application import Application
from tests.service.http_server import running
from tests.service.made_decisions import DAY, HOUR, NOW, PAYMENTS, SLOT
from tests.service.serve_process import add_secret
from tests.service.showcase import furnish
from tuner.history.qos_history import load_slots, measure_qos
from tuner.scenario.description import tables_of
from tuner.scenario.document import shape_of
from tuner.scenario.scenario import make_qos
from tuner.service.app import make_app
from tuner.service.exchange.services import Settings
from tuner.service.metrics.application_metrics import EVENTS
from tuner.service.metrics.exposition import FRESH_S, Meter
from tuner.service.metrics.families import COUNTERS, GAUGES
from tuner.service.metrics.running_totals import join_neighbours
from tuner.store.audit_log import add_event
from tuner.store.connection import Store, open_store
from tuner.store.decisions import save_decisions
from tuner.store.maintenance import prune
from tuner.store.monitoring import list_operator_states
from tuner.store.orders import save_scalers
from tuner.store.records import DecisionRecord, EventRecord, Scaler
from tuner.store.runs import add_request

STAY = DecisionRecord("shop", "parse", NOW, "NO_CHANGE", "the policy proposed none", code="policy")
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@dataclass
class Time:
    """A clock that is set by hand, and ticks with it."""

    now: float = NOW
    ticks: float = 0.0

    def pass_by(self, seconds: float = FRESH_S) -> None:
        self.now, self.ticks = self.now + seconds, self.ticks + seconds


@dataclass
class Scrape:
    store: Store
    time: Time = field(default_factory=Time)

    def __post_init__(self) -> None:
        self.meter = Meter(self.store, lambda: self.time.now, lambda: (3, 5000), lambda: self.time.ticks)

    def look(self) -> Samples:
        """A while later."""
        self.time.pass_by()
        return parse(self.meter.expose().decode())


def parse(text: str) -> Samples:
    families = list(text_string_to_metric_families(text))
    found = [(s.name, frozenset(s.labels.items()), s.value) for family in families for s in family.samples]
    samples = {(name, labels): value for name, labels, value in found}
    assert len(samples) == len(found), "a series is told twice"
    return samples


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def total(samples: Samples, name: str, **labels: str) -> float:
    return sum(v for (n, held), v in samples.items() if n == name and set(labels.items()) <= held)


@pytest.fixture
def scrape(store: Store) -> Scrape:
    return Scrape(store)


def report(store: Store, *decisions: DecisionRecord) -> None:
    """As the intake writes it."""
    with store.begin() as session:
        save_decisions(session, decisions)
        save_scalers(session, [Scaler(d.application, d.operator, "d1", NOW - DAY, NOW) for d in decisions])


def test_every_metric_is_told_of_a_filled_database(store: Store, scrape: Scrape) -> None:
    furnish(store, 400)
    samples = scrape.look()
    told = {name for name, _ in samples}
    orders = {"tuner_orders_revision", "tuner_scalers_behind"}  # of which the showcase has none
    assert set(COUNTERS) | set(GAUGES) <= told | orders
    assert "process_start_time_seconds" in told
    assert value(samples, "tuner_objective_version", application="payments") == 1.0
    assert value(samples, "tuner_candidate_version", application="clicks", stage="canary") == 3.0
    assert value(samples, "tuner_rollout_stage", application="clicks", stage="canary") == 1.0
    assert value(samples, "tuner_surrogate_health", application="fraud scores", health="fail") == 1.0
    assert value(samples, "tuner_scalers", application="fraud scores", state="silent") == 1.0
    assert value(samples, "tuner_events_total", application="payments", what="rolled back") == 1.0
    assert value(samples, "tuner_events_total", application="clicks", what="rolled back") == 0.0  # so that it can grow
    assert value(samples, "tuner_controls", application="clicks", kind="pin") == 1.0
    assert value(samples, "tuner_tuning_last_run_seconds", application="clicks") == HOUR
    assert value(samples, "tuner_intake_waiting") == 3.0


def test_shares_are_those_of_all_slots_at_once(store: Store, scrape: Scrape) -> None:
    furnish(store, 400)
    document = PAYMENTS.describe("payments")
    shape: Application = shape_of(document)
    with store.read() as session:
        first = math.floor((NOW + FRESH_S - DAY) / 300.0) * 300.0
        slots = load_slots(session, "payments", tuple(PAYMENTS.rates), first)
    seen = measure_qos(slots, shape, make_qos(tables_of(document)["qos"]))
    for _ in range(2):  # the second time out of what is kept
        samples = scrape.look()
        assert value(samples, "tuner_violated_slots_ratio", application="payments", span="1d") == seen.violations
        assert (
            value(samples, "tuner_reconfigured_slots_ratio", application="payments", span="1d") == seen.reconfigurations
        )
        assert value(samples, "tuner_known_slots", application="payments", span="1d") == seen.known


def test_decisions_told_late_change_the_shares_of_their_time(store: Store, scrape: Scrape) -> None:
    furnish(store, 400)
    before = value(scrape.look(), "tuner_violated_slots_ratio", application="clicks", span="1d")
    late = [DecisionRecord("clicks", name, NOW - 12 * HOUR + SLOT * i, "NO_CHANGE", "", response=9.0) for i in range(30)
            for name in ("parse", "enrich", "check", "join")]  # fmt: skip
    report(store, *late)
    after = value(scrape.look(), "tuner_violated_slots_ratio", application="clicks", span="1d")
    assert before is not None
    assert after is not None
    assert after > before


def test_decisions_are_counted_from_the_first_look_and_pruning_turns_nothing_back(store: Store, scrape: Scrape) -> None:
    labels = {"application": "shop", "operator": "parse", "kind": "NO_CHANGE", "reason": "policy"}
    report(store, *(replace(STAY, time=NOW - SLOT * i) for i in range(1, 50)))
    assert value(scrape.look(), "tuner_decisions_total", **labels) == 0.0
    report(store, STAY, replace(STAY, time=NOW + SLOT, kind="BLOCKED", code="pin"))
    samples = scrape.look()
    assert value(samples, "tuner_decisions_total", **labels) == 1.0
    assert total(samples, "tuner_decisions_total", kind="BLOCKED", reason="pin") == 1.0
    report(store, STAY)  # told again
    with store.begin() as session:
        assert prune(session, NOW + HOUR)["decisions"] == 51
    assert value(scrape.look(), "tuner_decisions_total", **labels) == 1.0
    report(store, replace(STAY, time=NOW + 2 * SLOT))
    assert value(scrape.look(), "tuner_decisions_total", **labels) == 2.0
    report(store, replace(STAY, operator="new", time=NOW - DAY), replace(STAY, operator="new"))  # cut off for a day
    assert total(scrape.look(), "tuner_decisions_total", operator="new") == 2.0


def test_what_is_missing_is_not_told_as_zero(store: Store, scrape: Scrape) -> None:
    furnish(store, 400)
    assert value(scrape.look(), "tuner_price_per_hour", application="payments") is not None
    scrape.time.pass_by(HOUR)  # and nobody has reported since
    samples = scrape.look()
    assert value(samples, "tuner_price_per_hour", application="payments") is None
    assert value(samples, "tuner_operator_response_seconds", application="payments", operator="book") is None
    assert (value(samples, "tuner_decision_age_seconds", application="payments", operator="book") or 0.0) > HOUR
    assert value(samples, "tuner_violated_slots_ratio", application="payments", span="5m") is None
    report(store, replace(STAY, response=math.inf, price=None))
    assert not [name for name, labels in samples if ("application", "shop") in labels]


def test_names_of_any_kind_are_told_and_reasons_stay_few(store: Store, scrape: Scrape) -> None:
    scrape.look()
    names = ['a"b\nc\\d', "<script>", "é" * 50]
    report(store, *(replace(STAY, application=name, operator=name, code=f"{name} {i}", kind="HELD", time=NOW + i)
                    for name in names for i in range(40)))  # fmt: skip
    samples = scrape.look()
    for name in names:
        labels = {"application": name, "operator": name, "kind": "HELD", "reason": "other"}
        assert value(samples, "tuner_decisions_total", **labels) == 40.0
    with store.read() as session:
        assert len(list_operator_states(session, limit=2)) == 2


def test_an_event_of_another_name_is_counted_with_the_others(store: Store, scrape: Scrape) -> None:
    with store.begin() as session:
        for i in range(30):
            add_event(session, EventRecord("shop", NOW, "ann", f"odd {i}", ""))
    samples = scrape.look()
    assert value(samples, "tuner_events_total", application="shop", what="other") == 30.0
    assert {dict(labels)["what"] for name, labels in samples if name == "tuner_events_total"} <= {*EVENTS, "other"}


def test_what_waits_for_daemons_is_counted(store: Store, scrape: Scrape) -> None:
    furnish(store, 100)
    with store.begin() as session:
        add_request(session, "clicks", {"tune": {"who": "ann"}, "pause": {"who": "ann"}})
    assert value(scrape.look(), "tuner_wishes_waiting") == 2.0
    assert value(scrape.look(), "tuner_watches_due") == 0.0
    scrape.time.pass_by(DAY + HOUR)
    samples = scrape.look()
    assert value(samples, "tuner_watches_due") == 3.0
    assert (value(samples, "tuner_watch_overdue_seconds") or 0.0) > HOUR


def test_looks_within_five_seconds_are_told_the_same(store: Store, scrape: Scrape) -> None:
    first = scrape.look()
    report(store, STAY)
    scrape.time.pass_by(FRESH_S / 2)
    assert parse(scrape.meter.expose().decode()) == first
    assert scrape.look() != first


def test_decisions_are_counted_by_reason_code(store: Store, scrape: Scrape) -> None:
    scrape.look()
    codes = ("cooldown", "metrics_incomplete", "of a newer agent", None)
    for i, code in enumerate(codes):
        report(store, replace(STAY, time=NOW + SLOT * i, kind="DRY_RUN" if i else "BLOCKED", code=code))
    samples = scrape.look()
    assert total(samples, "tuner_decisions_total", kind="BLOCKED", reason="cooldown") == 1.0
    assert total(samples, "tuner_decisions_total", kind="DRY_RUN", reason="metrics_incomplete") == 1.0
    assert total(samples, "tuner_decisions_total", kind="DRY_RUN", reason="other") == 2.0
    assert total(samples, "tuner_decisions_total", kind="BLOCKED", reason="other") == 0.0


def test_neighbouring_stretches_are_read_at_once() -> None:
    assert list(join_neighbours([1, 2, 3, 7, 9, 10])) == [(1, 4), (7, 8), (9, 11)]
    assert list(join_neighbours([])) == []


def test_names_follow_the_conventions_of_prometheus() -> None:
    units = ("_seconds", "_ratio", "_per_hour", "_per_second", "_info")
    counts = {"version", "revision", "stage", "state", "health"}
    for name, (says, labels) in {**COUNTERS, **GAUGES}.items():
        assert name.startswith("tuner_")
        assert name == name.lower()
        assert name.endswith("_total") == (name in COUNTERS)
        assert says.endswith(".")
        last = name.rpartition("_")[2]
        assert name.endswith((*units, "_total")) or last in counts or last.endswith("s") or last in (
            "out", "behind", "due", "waiting", "room",
        ), name  # fmt: skip
        assert set(labels) <= {
            "application", "operator", "kind", "reason", "what", "span", "state", "stage", "health", "phase", "version",
            "schema", "token",
        }  # fmt: skip


@pytest.fixture
def served(tmp_path: object) -> Iterator[tuple[str, Store]]:
    with_rows = open_store(f"{tmp_path}/tuner.db")
    furnish(with_rows, 100)
    app = make_app(with_rows, Settings(clock=lambda: NOW))
    with running(app) as url:
        yield url, with_rows
    with_rows.close()


def test_prometheus_asks_with_a_token_of_scope_read(served: tuple[str, Store]) -> None:
    url, store = served
    assert httpx.get(f"{url}/metrics").status_code == 401
    secrets = {scope: add_secret(store, scope, (scope,)) for scope in ("read", "report")}
    answers = {
        scope: httpx.get(f"{url}/metrics", headers={"Authorization": f"Bearer {secrets[scope]}"}) for scope in secrets
    }
    assert answers["report"].status_code == 403
    assert answers["read"].headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert value(parse(answers["read"].text), "tuner_intake_waiting") == 0.0
