"""Serve an application over real HTTP on a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tuner.service.access.connections import ConnectionLimits
from tuner.service.serving import Listening, bind, describe_address, make_server, serve

PATIENCE = 30.0  # seconds


@contextmanager
def running(
    app: Any,
    listening: Listening | None = None,
    on_stop: Callable[[], None] = lambda: None,
    limits: ConnectionLimits | None = None,
) -> Iterator[str]:
    listening = replace(listening or Listening(), port=0)
    server, ready = make_server(app, listening, limits), threading.Event()
    with bind(listening) as sock:
        url = describe_address(listening, sock)
        thread = threading.Thread(target=serve, args=(server, sock, ready.set, on_stop))
        thread.start()
        try:
            assert ready.wait(PATIENCE)
            yield url
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()
