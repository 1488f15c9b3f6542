"""A manager to talk to: a real HTTP server on loopback that writes down what it is told, and misbehaves when asked."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "ts_" + "k" * 43
LIMIT_S = 30.0
PACKED = {"Content-Encoding": "gzip"}


def make_orders(revision: int = 1, **changes: Any) -> dict[str, Any]:
    """Orders without an objective."""
    return {"application": "shop", "revision": revision, "slot_s": 60.0, "objective": None, "guards": {}} | changes


@dataclass
class Manager:
    """What it was told by key, as a database would keep it, and how it is to behave."""

    orders: dict[str, Any] | None = None
    mood: str = ""  # how it misbehaves; "" is well
    retry_after: str = ""
    largest: int = 1 << 20  # bytes of a report
    tokens: tuple[str, ...] = (TOKEN,)  # that are let in
    expires: str = ""  # of the token, as is said
    brought: list[str] = field(default_factory=list)  # tokens that came with reports
    rotten: str = ""  # reports with this text in them are refused
    rows: dict[tuple[str, ...], Any] = field(default_factory=dict)
    received: int = 0  # rows, the same ones again too
    reports: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[tuple[str, int]] = field(default_factory=list)
    asked: list[str | None] = field(default_factory=list)  # If-None-Match of each question for orders
    refusals: int = 0
    change: threading.Condition = field(default_factory=threading.Condition)
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def say(self, **changes: Any) -> None:
        with self.change:
            for name, value in changes.items():
                setattr(self, name, value)
            self.change.notify_all()

    def until(self, holds: Callable[[], bool]) -> None:
        until(holds, self.change)


def until(holds: Callable[[], bool], change: threading.Condition | None = None) -> None:
    """Wait for a condition, with a generous limit."""
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        if change is None:
            time.sleep(0.005)
        else:
            with change:
                change.wait(0.02)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        """A client that has gone away is no fault of the server's."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    manager: Manager

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, status: int, document: Any = None, headers: dict[str, str] | None = None) -> None:
        body = b"" if document is None else document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        said = {"Token-Expires": self.manager.expires} if self.manager.expires else {}
        for name, value in {**said, **(headers or {}), "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def misbehave(self) -> bool:
        manager = self.manager
        moods: dict[str, Callable[[], None]] = {
            "garbage": lambda: self.answer(200, b"<html>welcome to the hotel"),
            "deep": lambda: self.answer(200, b"[" * 200_000),
            "huge": lambda: self.answer(200, b" " * (5 << 20)),
            "packed garbage": lambda: self.answer(200, b"no gzip at all", PACKED),
            "bomb": lambda: self.answer(200, gzip.compress(b" " * (5 << 20)), PACKED),
            "error": lambda: self.answer(500, {"title": "broken"}),
            "cut": self.cut,
            "half": self.halve,
            "not http": lambda: self.wfile.write(b"220 smtp ready\r\n") and self.cut(),
            "proxy unfit": lambda: self.answer(422, b"<html>no"),
            "proxy too large": lambda: self.answer(413, {"message": "no"}),
            "bad request": lambda: self.answer(400, {"status": 400, "detail": "no"}),
            "unauthorised": lambda: self.answer(401, {"detail": f"no {TOKEN} here"}),
            "unknown": lambda: self.answer(404, {"detail": "there is no application 'shop'"}),
            "elsewhere": lambda: self.answer(307, None, {"Location": f"http://127.0.0.1:{manager.port}/other"}),
            "busy": lambda: self.answer(503, {"detail": "later"}, {"Retry-After": manager.retry_after}),
        }
        if manager.mood not in moods:
            return False
        with manager.change:
            manager.refusals += 1
        self.close_connection = manager.mood in ("huge", "deep")
        moods[manager.mood]()
        return True

    def cut(self) -> None:
        self.close_connection = True

    def halve(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}")
        self.close_connection = True

    def do_POST(self) -> None:
        manager = self.manager
        body = self.rfile.read(int(self.headers["Content-Length"]))
        token = self.headers["Authorization"].removeprefix("Bearer ")
        if token not in manager.tokens:
            with manager.change:
                manager.refusals += 1
            return self.answer(401, {"detail": "who are you?"})
        if self.misbehave():
            return None
        if len(body) > manager.largest or (manager.rotten and manager.rotten.encode() in body):
            with manager.change:
                manager.refusals += 1
            status = 413 if len(body) > manager.largest else 422
            return self.answer(status, {"status": status, "detail": "not this one"})
        document = json.loads(body)
        with manager.change:
            manager.brought.append(token)
            if self.path.endswith("/acknowledgements"):
                manager.acknowledged.append((document["operator"], document["revision"]))
            else:
                manager.reports.append(document)
                self.write(document)
            manager.change.notify_all()
        counts = {name: len(document.get(name, ())) for name in ("samples", "decisions")}
        if manager.mood == "forgetful":  # the answer is lost on the way
            return self.cut()
        return self.answer(200, {"received": counts, "revision": manager.orders and manager.orders["revision"]})

    def write(self, document: dict[str, Any]) -> None:
        for name, key in (("decisions", "time"), ("samples", "start")):
            for row in document[name]:
                self.manager.rows[name, document["operator"], str(row[key])] = row
                self.manager.received += 1

    def do_GET(self) -> None:
        manager = self.manager
        known = self.headers["If-None-Match"]
        with manager.change:
            manager.asked.append(known)
            manager.change.notify_all()
        if manager.mood == "restored":  # whoever asks again finds it well
            manager.mood = ""
            return self.cut()
        if self.misbehave():
            return None
        wait = float(self.path.partition("wait=")[2])

        def news() -> bool:
            return manager.orders is not None and f'"{manager.orders["revision"]}"' != known

        with manager.change:
            manager.change.wait_for(lambda: news() or bool(manager.mood), wait)
            orders = manager.orders
        if orders is None:
            return self.answer(404, {"detail": "there are no orders yet"})
        if not news() and manager.mood != "wrong etag":
            return self.answer(304)
        etag = '"nonsense"' if manager.mood == "wrong etag" else f'"{orders["revision"]}"'
        if self.headers["Accept-Encoding"] == "gzip":
            return self.answer(200, gzip.compress(json.dumps(orders).encode()), {"ETag": etag, **PACKED})
        return self.answer(200, orders, {"ETag": etag})


@contextmanager
def serve(manager: Manager, context: ssl.SSLContext | None = None) -> Iterator[Manager]:
    """The manager on a port of its own (the same one, when it was there before)."""
    handler = type("Bound", (Handler,), {"manager": manager})
    server = Server(("127.0.0.1", manager.port), handler)
    manager.port = server.server_address[1]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield manager
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
