"""Managers of one database share quotas: what one let through the others do not let through again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from fastapi import HTTPException

from tests.store.conftest import POSTGRES
from tuner.service.access.callers import Caller
from tuner.service.access.gate import Buckets, Quotas
from tuner.service.exchange.order_board import Board
from tuner.service.exchange.order_watch import watch_orders
from tuner.service.exchange.usage_sharing import UsageSharing
from tuner.store.connection import Store, open_store

RATE, SIZE, NAME = 100.0, 1000.0, "sh\N{SNOWMAN}p" * 20
DRIVER = Caller("driver", frozenset(["report"]), 7)
ENOUGH = 30.0  # seconds, of what takes less than one


def make_quotas(seconds: list[float]) -> Quotas:
    def ticks() -> float:
        return seconds[0]

    return Quotas(Buckets(RATE, SIZE, ticks), Buckets(4.0 * RATE, 4.0 * SIZE, ticks))


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
@pytest.mark.slow
def test_what_one_manager_let_through_counts_for_all(server_store: Store) -> None:
    seconds = [0.0]
    address = server_store.engine.url.render_as_string(hide_password=False)

    async def go(stores: list[Store]) -> None:
        sharing = [UsageSharing(store, make_quotas(seconds), f"manager {i}") for i, store in enumerate(stores)]
        boards = [Board(store, 3_600.0) for store in stores]
        works = [watch_orders(board, one.receive) for board, one in zip(boards, sharing, strict=True)]
        tasks = [asyncio.create_task(work) for work in (*works, *(one.run() for one in sharing))]
        await until(lambda: all(board.listens for board in boards))
        first, second = (one.quotas for one in sharing)
        assert not is_refused(first, 900)
        assert not is_refused(first, 50, "small")
        await until(lambda: second.applications.levels.get(NAME) == (100.0, 0.0))
        assert is_refused(second, 101)
        assert not is_refused(second, 100)
        assert not is_refused(second, 1000, "small")  # not told of
        await until(lambda: first.applications.levels.get("small") == (-50.0, 0.0))
        assert first.applications.levels[NAME] == (0.0, 0.0)
        await until(lambda: first.tokens.levels.get(7) == (4.0 * SIZE - 2050.0, 0.0))
        seconds[0] = 1.0
        assert not is_refused(second, 100)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with closing(open_store(address)) as other:
        asyncio.run(go([server_store, other]))


NONSENSE = (
    '["x", "application", "shop", -1e18]',
    '["x", "application", "shop", 1' + "0" * 400 + "]",
    '["x", "application", "shop", "NaN"]',
    "[" * 7_900,
)


@pytest.mark.parametrize("said", NONSENSE)
def test_nonsense_that_is_told_fills_no_bucket_and_breaks_nothing(tmp_path: Path, said: str) -> None:
    """As attacked: whoever may connect may notify."""
    with closing(open_store(tmp_path / "tuner.db")) as store:
        quotas = make_quotas([0.0])
        quotas.applications.drain("shop", quotas.applications.size)
        UsageSharing(store, quotas, "own").receive(said)
        assert quotas.applications.take("shop", quotas.applications.size) > 0.0
