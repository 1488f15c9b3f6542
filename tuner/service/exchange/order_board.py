"""Wake agents that wait for orders as soon as new ones are issued, by this process or another.

A waiter is a future on the event loop, no thread. The bytes of a document are made once for each revision. Many waiters
are woken in small groups, so that reports get their turn in between. Several managers may be behind one address: an
agent that names a later revision than this one knows, or none at all, is answered from the database as it is then.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from scaler.model.errors import Retry
from tuner.rollout.issued_orders import write_orders
from tuner.service.exchange.wire_documents import to_bytes
from tuner.store.connection import Store
from tuner.store.faults import DatabaseFault
from tuner.store.orders import list_revisions, load_orders

MAX_WAKE_S = 1.5  # after which all others are woken whatever else there is to do
MIN_PACKED = 1_400  # bytes; less goes out in one packet anyway
REVISION = re.compile(r'"(\d{1,18})"')  # as an ETag


@dataclass(frozen=True, slots=True)
class Notice:
    """Orders as bytes for the wire."""

    revision: int
    etag: str
    body: bytes
    packed: bytes | None  # the body in gzip, where that is worth it


@dataclass(slots=True)
class Board:
    """The newest revision of every application, and who waits for the next."""

    store: Store
    poll_s: float  # between polls for orders that another process issued
    listening_poll_s: float = 5.0  # the same while the database tells of them
    wake_at_once: int = 10  # waiters answered in one go; reports get their turn in between
    wake_pause_s: float = 0.01
    revisions: Mapping[str, int] | None = None  # None: not polled yet
    notices: dict[str, Notice] = field(default_factory=dict)
    waiting: dict[str, set[asyncio.Future[None]]] = field(default_factory=dict)
    making: dict[str, asyncio.Future[Notice | None]] = field(default_factory=dict)
    polling: asyncio.Lock = field(default_factory=asyncio.Lock)
    next_poll: asyncio.Task[None] | None = None  # that has not begun yet
    woken: asyncio.Event = field(default_factory=asyncio.Event)  # another process has issued orders
    listens: bool = False  # the database tells of orders that other processes issue
    waking: set[asyncio.Task[None]] = field(default_factory=set)
    closed: bool = False


async def poll(board: Board) -> None:
    """Poll for new orders and wake their waiters; called at once after a change of this process."""
    async with board.polling:
        board.next_poll = None  # whoever asks from now on wants a later one
        found = await asyncio.to_thread(list_newest, board.store)
        before = board.revisions or {}
        board.revisions = found
    changed = [app for app, revision in found.items() if before.get(app) != revision]
    for app in changed:
        if found[app] < before.get(app, 0):  # another database in the place of this one
            board.notices.pop(app, None)
    told = [app for app in changed if app in board.waiting]
    if told:
        waking = asyncio.create_task(wake_waiters(board, told))
        board.waking.add(waking)
        waking.add_done_callback(board.waking.discard)


async def refresh(board: Board) -> None:
    """Poll anew; of many who ask for that while a poll is under way, one does it for all."""
    if board.next_poll is None:
        board.next_poll = asyncio.create_task(poll(board))
        board.next_poll.add_done_callback(retrieve_fault)
    await asyncio.shield(board.next_poll)  # who hangs up leaves it to the others


def retrieve_fault(task: asyncio.Task[None]) -> None:
    """Where all who waited have gone, nobody else does."""
    if not task.cancelled():
        task.exception()


async def catch_up(board: Board, app: str, known: Sequence[str]) -> None:
    """Refresh where the agent may have been told more than this process knows, by another manager."""
    told = [int(found[1]) for tag in known if (found := REVISION.fullmatch(tag))]
    if told and max(told) <= (revision_of(board, app) or 0):
        return
    with suppress(*(() if told or board.revisions is None else (Retry, DatabaseFault))):
        await refresh(board)  # else what is known is better than nothing, to an agent that knows nothing


def list_newest(store: Store) -> dict[str, int]:
    with store.read() as session:
        return list_revisions(session)


async def wake_waiters(board: Board, apps: Sequence[str]) -> None:
    # made before anybody wakes; a waiter that finds none asks for it and gets the fault
    await asyncio.gather(*(notice_of(board, app) for app in apps), return_exceptions=True)
    waiters = [waiter for app in apps for waiter in board.waiting.pop(app, ())]
    clock, size, pause = asyncio.get_running_loop().time, board.wake_at_once, board.wake_pause_s
    latest = clock() + MAX_WAKE_S
    for start in range(0, len(waiters), size):
        wake(waiters[start : start + size])
        began = clock()
        await asyncio.sleep(pause)
        late = clock() - began - pause  # the loop had that much else to do
        await asyncio.sleep(max(0.0, min(late, latest - clock())))


def wake(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)


def close_board(board: Board) -> None:
    """Wake everybody, so that the service can stop; agents ask again and find it restarted."""
    board.closed = True
    for waiters in board.waiting.values():
        wake(waiters)
    board.waiting.clear()


async def wait_for_orders(board: Board, app: str, known: Sequence[str], seconds: float) -> Notice | None:
    """Orders other than the known ones; the known ones after `seconds`; None where there are none."""
    until = asyncio.get_running_loop().time() + seconds
    await catch_up(board, app, known)
    while True:
        notice = await notice_of(board, app)
        if notice is not None and notice.revision < (revision_of(board, app) or 0) and not board.closed:
            await refresh(board)  # they were being read as newer ones were issued
            continue
        left = until - asyncio.get_running_loop().time()
        if board.closed or left <= 0.0 or (notice is not None and notice.etag not in known):
            return notice
        await wait_for_change(board, app, left)


async def wait_for_change(board: Board, app: str, seconds: float) -> None:
    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    board.waiting.setdefault(app, set()).add(waiter)
    try:
        async with asyncio.timeout(seconds):
            await waiter
    except TimeoutError:
        pass
    finally:
        others = board.waiting.get(app)
        if others is not None:
            others.discard(waiter)
            if not others:
                del board.waiting[app]


def revision_of(board: Board, app: str) -> int | None:
    """The newest known revision."""
    return None if board.revisions is None else board.revisions.get(app)


async def notice_of(board: Board, app: str) -> Notice | None:
    """The newest orders, cached by revision."""
    if board.revisions is None:
        await poll(board)
    revision = revision_of(board, app)
    if revision is None:
        return None
    kept = board.notices.get(app)
    if kept is not None and kept.revision >= revision:
        return kept
    if app not in board.making:
        board.making[app] = asyncio.ensure_future(make_notice(board, app))
        board.making[app].add_done_callback(lambda _: board.making.pop(app))
    return await asyncio.shield(board.making[app])


async def make_notice(board: Board, app: str) -> Notice | None:
    made = await asyncio.to_thread(load_notice, board.store, app)
    if made is not None:
        board.notices[app] = made
    return made


def load_notice(store: Store, app: str) -> Notice | None:
    with store.read() as session:
        orders = load_orders(session, app)
    if orders is None:
        return None
    body = to_bytes(write_orders(orders))
    packed = gzip.compress(body, 6, mtime=0) if len(body) > MIN_PACKED else None
    return Notice(orders.revision, f'"{orders.revision}"', body, packed)
