"""Managers of one database share quotas: what one let through the others do not let through again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import pytest
from fastapi import HTTPException
from sqlalchemy import text

from tests.store.conftest import POSTGRES
from tuner.service.access.callers import Caller
from tuner.service.access.gate import Buckets, Quotas
from tuner.service.exchange.usage_sharing import UsageSharing
from tuner.store.connection import Store, open_store

RATE, SIZE, NAME = 100.0, 1000.0, "sh\N{SNOWMAN}p" * 20
DRIVER = Caller("driver", frozenset(["report"]), 7)
ENOUGH = 30.0  # seconds, of what takes less than one


def make_quotas(seconds: list[float]) -> Quotas:
    def ticks() -> float:
        return seconds[0]

    rare = [Buckets(1.0, 10.0, ticks) for _ in range(3)]
    return Quotas(Buckets(RATE, SIZE, ticks), Buckets(4.0 * RATE, 4.0 * SIZE, ticks), *rare)


def is_refused(quotas: Quotas, size: int, app: str = NAME) -> bool:
    try:
        quotas.charge(DRIVER, app, size)
    except HTTPException as refusal:
        return refusal.status_code == 429
    return False


def test_a_debt_is_paid_before_anything_is_taken() -> None:
    seconds = [0.0]
    buckets = Buckets(RATE, SIZE, lambda: seconds[0])
    buckets.drain("shop", 1.5 * SIZE)
    assert buckets.take("shop", 100.0) == pytest.approx(6.0)
    buckets.drain("shop", 9.0 * SIZE)
    assert buckets.take("shop", 100.0) == pytest.approx(11.0)  # of one bucket at most
    seconds[0] = 11.0
    assert buckets.take("shop", 100.0) == 0.0


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(ENOUGH):
        while not check():
            await asyncio.sleep(0.01)


@POSTGRES
def test_what_one_manager_let_through_counts_for_all(server_store: Store) -> None:
    seconds = [0.0]
    address = server_store.engine.url.render_as_string(hide_password=False)
    with closing(open_store(address)) as other:
        stores = (server_store, other)
        first, second = (UsageSharing(one, make_quotas(seconds), f"manager {i}") for i, one in enumerate(stores))
        for one in (first, second):
            one.quotas.untold = Counter()

        def share() -> None:
            for one in (first, second):
                one.charge(one.exchange(one.take_due()))

        share()
        assert not is_refused(first.quotas, 900)
        assert not is_refused(first.quotas, 50, "small")
        first.quotas.charge_act(DRIVER)
        share()
        assert second.quotas.applications.levels.get(NAME) == (100.0, 0.0)
        assert second.quotas.tokens.levels.get("7") == (4.0 * SIZE - 950.0, 0.0)
        assert second.quotas.acts.levels.get("7") == (9.0, 0.0)
        assert is_refused(second.quotas, 101)
        assert not is_refused(second.quotas, 100)
        assert not is_refused(second.quotas, 1000, "small")  # not told of
        share()
        share()
        assert first.quotas.applications.levels.get("small") == (-50.0, 0.0)
        assert first.quotas.applications.levels[NAME] == (0.0, 0.0)
        third = UsageSharing(other, make_quotas(seconds), "manager 2")
        third.charge(third.exchange({}))
        assert third.quotas.applications.levels == {}  # what was before it is nobody's debt


@POSTGRES
def test_managers_share_by_themselves(server_store: Store) -> None:
    address = server_store.engine.url.render_as_string(hide_password=False)

    async def go(stores: list[Store]) -> None:
        sharing = [UsageSharing(store, make_quotas([0.0]), f"manager {i}") for i, store in enumerate(stores)]
        tasks = [asyncio.create_task(one.run()) for one in sharing]
        await until(lambda: all(one.seen is not None for one in sharing))
        assert not is_refused(sharing[0].quotas, 900)
        await until(lambda: sharing[1].quotas.applications.levels.get(NAME) == (100.0, 0.0))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with closing(open_store(address)) as other:
        asyncio.run(go([server_store, other]))


@POSTGRES
def test_what_is_notified_uses_up_nothing(server_store: Store) -> None:
    """As attacked: whoever may connect may notify, and could use up anybody's quota."""
    sharing = UsageSharing(server_store, make_quotas([0.0]), "own")
    sharing.charge(sharing.exchange({}))
    for channel in ("tuner_usage_", "tuner_orders_"):
        name = f"'{channel}' || abs(hashtext(current_schema())::bigint)"
        with server_store.begin() as session:
            said = '["x", "application", "shop", 1e9]'
            session.execute(text(f"SELECT pg_notify({name}, :said)"), {"said": said})
    sharing.charge(sharing.exchange({}))
    assert sharing.quotas.applications.levels == {}
