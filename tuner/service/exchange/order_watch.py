"""Find orders that other processes issued: woken by the database where it does that, by polling otherwise."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress

from scaler.model.errors import Retry
from tuner.service.exchange.order_board import Board, poll
from tuner.store.faults import DatabaseFault
from tuner.store.wakeups import Flooded, receive_wakeups

log = logging.getLogger(__name__)
RETRY_S = 1.0  # before listening again after a fault
FLOODED_S = 60.0  # the same after more wake-ups than managers send
REST_S, MAX_REST_S = 0.02, 1.0  # between two polls, however many wake-ups come
REST_SHARE = 9.0  # of the time that a poll took, so that polls take a tenth of it at most


async def watch_orders(board: Board) -> None:
    """Poll when woken, and every so often, until cancelled; an unreachable database is polled again."""
    over = threading.Event()
    if board.store.address.path is None:
        arguments = (board, asyncio.get_running_loop(), over)
        threading.Thread(target=listen, args=arguments, name="wake-ups", daemon=True).start()
    away = False
    try:
        while True:
            board.woken.clear()
            begun = time.monotonic()
            try:
                await poll(board)
                away = False
            except (Retry, DatabaseFault) as error:
                if not away:
                    log.warning("orders cannot be polled: %s", error)
                away = True
            except Exception:
                log.exception("orders cannot be polled")
            await asyncio.sleep(min(MAX_REST_S, max(REST_S, REST_SHARE * (time.monotonic() - begun))))
            with suppress(TimeoutError):
                async with asyncio.timeout(board.listening_poll_s if board.listens else board.poll_s):
                    await board.woken.wait()
    finally:
        over.set()


def listen(board: Board, loop: asyncio.AbstractEventLoop, over: threading.Event) -> None:
    """Wake the board for every wake-up, and when the connection is lost; the listening thread's function."""

    def wake(is_own: bool) -> None:
        board.listens = board.listens or is_own
        if not board.woken.is_set():
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(board.woken.set)

    fault = ""
    while not over.is_set():
        pause = RETRY_S
        try:
            receive_wakeups(board.store, wake, over.is_set)
        except (Retry, DatabaseFault) as error:
            if str(error) != fault:
                log.warning("orders of other managers are polled for, not told of: %s", error)
            fault = str(error)
            pause = FLOODED_S if isinstance(error, Flooded) else RETRY_S
        except Exception:
            log.exception("orders of other managers are polled for, not told of")
        board.listens = False
        wake(False)
        over.wait(pause)
