"""What the service keeps, on both databases: tokens, controls, orders, scalers, watches, events."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from scaler.model.errors import BadInput
from tuner.store.audit_log import add_event, list_events
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions, save_decisions
from tuner.store.known_histories import KEPT_VERSIONS, find_history, list_histories, save_history
from tuner.store.orders import (
    lift_control,
    list_controls,
    list_revisions,
    list_scalers,
    load_orders,
    save_orders,
    save_scalers,
    set_control,
)
from tuner.store.records import Control, DecisionRecord, EventRecord, KnownHistory, Scaler, Token
from tuner.store.removal import remove_application, rename_application
from tuner.store.runs import (
    RETUNING_LEASE_S,
    LeaseLost,
    add_request,
    claim_retuning,
    find_retuning,
    name_owner,
    release_retuning,
    remove_requests,
    renew_retuning,
    save_retuning,
    update_retuning,
)
from tuner.store.tokens import add_token, find_token, list_tokens, revoke_token

ELSEWHERE = "another machine:1:aa"


def test_a_revoked_token_takes_its_sessions_along(store: Store) -> None:
    with store.begin() as session:
        parent = add_token(session, Token("ops", "a" * 64, "push read", "me", 1.0))
        add_token(session, Token("page 1", "b" * 64, "read", "ops", 2.0, expires=99.0, parent_id=parent.id))
        add_token(session, Token("other", "c" * 64, "read", "me", 3.0))
        revoke_token(session, "ops", 5.0)
        assert [find_token(session, digit * 64).revoked for digit in "abc"] == [5.0, 5.0, None]  # type: ignore[union-attr]
        assert find_token(session, "d" * 64) is None
        assert [token.name for token in list_tokens(session)] == ["ops", "other"]
        assert len(list_tokens(session, sessions=True)) == 3
        assert revoke_token(session, "ops", 9.0).revoked == 5.0  # it stays as it was


def test_token_names_are_not_used_twice(store: Store) -> None:
    with store.begin() as session:
        add_token(session, Token("ops", "a" * 64, "read", "me", 1.0))
        with pytest.raises(BadInput, match="already"):
            add_token(session, Token("ops", "b" * 64, "read", "me", 1.0))
        with pytest.raises(BadInput, match="no token 'nobody'"):
            revoke_token(session, "nobody", 2.0)


def test_one_control_of_a_kind_stands_for_an_operator(store: Store) -> None:
    lock = Control("shop", "", "direction_lock", {"only": "out"}, "ann", 10.0)
    with store.begin() as session:
        set_control(session, lock)
        set_control(session, replace(lock, settings={"only": "in"}, who="bob", since=20.0))
        set_control(session, replace(lock, operator="parse", since=21.0, until=30.0))
        set_control(session, replace(lock, kind="pin", settings={}, since=22.0))
        assert [(c.operator, c.kind, c.settings) for c in list_controls(session, "shop", 25.0)] == [
            ("", "pin", {}),
            ("parse", "direction_lock", {"only": "out"}),
            ("", "direction_lock", {"only": "in"}),
        ]
        assert [c.operator for c in list_controls(session, "shop", 30.0)] == ["", ""]  # one has run out
        assert [c.settings["only"] for c in list_controls(session, "shop", 15.0)] == ["out"]  # as it was then
        lift_control(session, "shop", "", "pin", "ann", 40.0)
        assert [c.kind for c in list_controls(session, "shop", 41.0)] == ["direction_lock"]
        assert [(c.ended, c.ended_by) for c in list_controls(session, "shop")][-1] == (20.0, "bob")
        with pytest.raises(BadInput, match="no pin stands"):
            lift_control(session, "shop", "", "pin", "ann", 50.0)


def test_orders_get_a_revision_when_they_change(store: Store) -> None:
    with store.begin() as session:
        assert load_orders(session, "shop") is None
        assert save_orders(session, "shop", {"a": (1, 2)}, 1.0).revision == 1
        assert save_orders(session, "shop", {"a": [1, 2]}, 2.0).issued == 1.0
        assert save_orders(session, "shop", {"a": [2]}, 3.0).revision == 2
        save_orders(session, "till", {}, 3.0)
        assert list_revisions(session) == {"shop": 2, "till": 1}
        assert load_orders(session, "shop").document == {"a": [2]}  # type: ignore[union-attr]


def test_scalers_are_known_since_their_first_report(store: Store) -> None:
    with store.begin() as session:
        save_scalers(session, [Scaler("shop", "parse", "d1", 10.0, 10.0, 3, 10.0, {"policy": "planner"})])
        save_scalers(session, [Scaler("shop", "parse", "d1", 20.0, 20.0)])
        save_scalers(session, [Scaler("shop", "parse", "d2", 25.0, 25.0), Scaler("shop", "count", "d1", 5.0, 5.0)])
        found = list_scalers(session, "shop")
        assert [(s.operator, s.instance) for s in found] == [("count", "d1"), ("parse", "d2"), ("parse", "d1")]
        assert (found[2].first_seen, found[2].last_seen, found[2].revision) == (10.0, 20.0, 3)
        assert [s.instance for s in list_scalers(session, "shop", since=20.0)] == ["d2", "d1"]


def test_an_application_is_in_one_daemons_hand(store: Store) -> None:
    with store.begin() as session:
        save_retuning(session, "shop", {"period_s": 60.0}, 5.0)
        held = claim_retuning(session, "shop", ELSEWHERE, 10.0)
        assert held is not None
        assert claim_retuning(session, "shop", name_owner(), 11.0) is None
        assert claim_retuning(session, "shop", name_owner(), 10.0 + RETUNING_LEASE_S) is None
        renewed = renew_retuning(session, held, 50.0)
        other = claim_retuning(session, "shop", name_owner(), 51.0 + RETUNING_LEASE_S)
        assert other is not None
        with pytest.raises(LeaseLost):
            update_retuning(session, renewed, phase="tune")
        save_retuning(session, "shop", {"period_s": 30.0}, 7.0)  # a person's change takes it out of nobody's hand
        assert update_retuning(session, other, phase="tune").settings == {"period_s": 30.0}
        release_retuning(session, other, phase="idle", due=99.0)
        assert claim_retuning(session, "shop", ELSEWHERE, 120.0) is not None


def test_a_daemon_of_this_machine_that_died_is_followed_at_once(store: Store) -> None:
    machine = name_owner().partition(":")[0]
    with store.begin() as session:
        save_retuning(session, "shop", {}, 0.0)
        assert claim_retuning(session, "shop", f"{machine}:{2**22 + 1}:aa", 1.0) is not None  # beyond the greatest id
        assert claim_retuning(session, "shop", name_owner(), 2.0) is not None


def test_wishes_wait_until_they_are_taken_up(store: Store) -> None:
    with store.begin() as session:
        save_retuning(session, "shop", {}, 0.0)
        held = claim_retuning(session, "shop", name_owner(), 1.0)
        assert held is not None
        add_request(session, "shop", {"tune": {"who": "ann"}})
        add_request(session, "shop", {"pause": {"who": "bob"}})
        remove_requests(session, held, ("tune",))
        assert find_retuning(session, "shop").asked == {"pause": {"who": "bob"}}  # type: ignore[union-attr]
        with pytest.raises(BadInput, match="not watched"):
            add_request(session, "till", {"tune": {}})


def test_events_come_newest_first_and_by_page(store: Store) -> None:
    with store.begin() as session:
        for i in range(5):
            add_event(session, EventRecord("shop", float(i), "ann", "pinned" if i % 2 else "pushed", f"{i}", {"i": i}))
        page = list_events(session, "shop", limit=2)
        assert [event.message for event in page] == ["4", "3"]
        assert [event.message for event in list_events(session, "shop", limit=2, before=page[-1].id)] == ["2", "1"]
        assert [event.message for event in list_events(session, what=["pinned"], since=2.0)] == ["3"]


def test_decisions_keep_their_figures_and_what_a_candidate_would_have_done(store: Store) -> None:
    decision = DecisionRecord(
        "shop", "parse", 60.0, "SCALED", "more came", "+1 large", 3, 12.0, math.inf, 0.04, 2.5,
        shadow={"version": 4, "action": None},
    )  # fmt: skip
    with store.begin() as session:
        save_decisions(session, [decision, replace(decision, time=120.0, shadow=None, price=None)])
        assert list_decisions(session, "shop") == [replace(decision, time=120.0, shadow=None, price=None), decision]


def test_a_history_is_kept_with_its_objective(store: Store) -> None:
    first = KnownHistory("shop", 1, 10.0, 1440, 60.0, 1.7e9, {"parse": {"format": 1, "arrays": "eNo"}})
    with store.begin() as session:
        assert find_history(session, "shop", [1, None]) is None
        save_history(session, first)
        save_history(session, KnownHistory("shop", 2, 11.0, 0, 1.0, None, {}, "nothing was monitored"))
        save_history(session, replace(first, application="other", slots=5))
    with store.begin() as session:
        assert find_history(session, "shop", [2, None, 1]) == first
        assert list_histories(session, "shop") == {1: 86_400.0, 2: 0.0}
        save_history(session, replace(first, slots=2880))
        assert list_histories(session, "shop")[1] == 172_800.0
        save_history(session, replace(first, version=1 + KEPT_VERSIONS))
        assert sorted(list_histories(session, "shop")) == [2, 1 + KEPT_VERSIONS]
        assert list_histories(session, "other") == {1: 300.0}


def test_a_history_is_renamed_and_removed_with_its_application(store: Store) -> None:
    with store.begin() as session:
        save_history(session, KnownHistory("shop", 1, 10.0, 1440, 60.0, None, {"parse": {}}))
        rename_application(session, "shop", "store")
        assert list_histories(session, "shop") == {}
        assert list_histories(session, "store") == {1: 86_400.0}
        assert remove_application(session, "store")["experiences"] == 1
        assert list_histories(session, "store") == {}
