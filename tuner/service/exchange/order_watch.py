"""Find orders that other processes issued: woken by the database where it does that, by polling otherwise."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from scaler.model.errors import Retry
from tuner.service.exchange.order_board import Board, poll
from tuner.store.faults import DatabaseFault
from tuner.store.wakeups import ORDERS, receive_wakeups

log = logging.getLogger(__name__)
RETRY_S = 1.0  # before listening again after a fault
REST_S = 0.02  # between two polls, however many wake-ups come


async def watch_orders(board: Board, on_usage: Callable[[str], None]) -> None:
    """Poll when woken, and every so often, until cancelled; an unreachable database is polled again.

    What other managers tell of usage is handed on.
    """
    over = threading.Event()
    if board.store.address.path is None:
        arguments = (board, asyncio.get_running_loop(), over, on_usage)
        threading.Thread(target=listen, args=arguments, name="wake-ups", daemon=True).start()
    away = False
    try:
        while True:
            board.woken.clear()
            try:
                await poll(board)
                away = False
            except (Retry, DatabaseFault) as error:
                if not away:
                    log.warning("orders cannot be polled: %s", error)
                away = True
            except Exception:
                log.exception("orders cannot be polled")
            await asyncio.sleep(REST_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(board.listening_poll_s if board.listens else board.poll_s):
                    await board.woken.wait()
    finally:
        over.set()


def listen(
    board: Board, loop: asyncio.AbstractEventLoop, over: threading.Event, on_usage: Callable[[str], None]
) -> None:
    """Wake the board for every wake-up, and when the connection is lost; the listening thread's function."""

    def wake(listens: bool) -> None:
        board.listens = listens
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(board.woken.set)

    def receive(what: str, said: str) -> None:
        if what == ORDERS:
            wake(True)
        else:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(on_usage, said)

    fault = ""
    while not over.is_set():
        try:
            receive_wakeups(board.store, receive, over.is_set)
        except (Retry, DatabaseFault) as error:
            if str(error) != fault:
                log.warning("orders of other managers are polled for, not told of: %s", error)
            fault = str(error)
        except Exception:
            log.exception("orders of other managers are polled for, not told of")
        wake(False)
        over.wait(RETRY_S)
