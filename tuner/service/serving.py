"""Serve the application with uvicorn: listening address, TLS, slow clients, orderly shutdown."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import logging
import re
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import uvicorn

from scaler.model.errors import BadInput
from tuner.service.access.connections import ConnectionLimits, make_protocol
from tuner.service.access.logs import say

LOGGER = logging.getLogger(__name__)
GRACE = 10  # seconds for requests that are being answered when the service is asked to stop
IDLE = 75  # seconds that a connection is kept for its next request; scalers come every 10
HEAD_TIMEOUT = 30.0  # seconds for the head of a request to arrive
LOOK_S = 1.0  # seconds between two looks for such; each is at all connections, of which there may be thousands
CLOSE_TIMEOUT = 0.5  # seconds for a connection to close when all is answered
NAME = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
SYSTEM_BUFFER = 65_536  # bytes each way, so that an answer that nobody reads is noticed
COLLECTED_AFTER = (20_000, 20, 50)  # objects made, and collections of the younger ones
M_ARENA_MAX = -8  # of malloc.h
WAITING = 2048  # connections not yet accepted


def bound_arenas() -> None:
    """Let threads share two heaps of glibc's instead of eight a core, each of which keeps the most that it ever had.

    Other C libraries have no such setting.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)


@dataclass(frozen=True, slots=True)
class Listening:
    """Address, TLS and proxy of the service."""

    host: str = "127.0.0.1"
    port: int = 8321
    certificate: Path | None = None
    key: Path | None = None
    proxy: str | None = None  # addresses whose X-Forwarded headers are believed
    host_names: tuple[str, ...] = ()


def is_loopback(host: str) -> bool:
    """Whether every address of the host is a loopback one."""
    return all(ip_address(str(found[4][0]).partition("%")[0]).is_loopback for found in resolve(host, 0))


def resolve(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
    except (OSError, UnicodeError):
        raise BadInput(f"--host is {host!r}, and no address of that name is known; try 127.0.0.1") from None


def check_listening(listening: Listening, live_tokens: int) -> None:
    """Refuse to listen beyond loopback without tokens and without TLS."""
    for name in listening.host_names:
        if not NAME.fullmatch(name):
            raise BadInput(f"--host-name is {name!r}, and must be a name alone, as in tuner.example, or an address")
    if listening.key is not None and listening.certificate is None:
        raise BadInput("--tls-key needs its certificate; name that too with --tls-cert")
    if listening.certificate is not None:
        check_certificate(listening.certificate, listening.key)
    if is_loopback(listening.host):
        return
    place = f"--host {listening.host} can be reached from other machines"
    if not live_tokens:
        raise BadInput(f"{place}, and there is no token that lets anybody in; make one first with: tuner token make")
    if listening.certificate is None and listening.proxy is None:
        raise BadInput(
            f"{place}, and what they send could be read on the way; give --tls-cert and --tls-key, "
            "or --behind-proxy where a proxy before it speaks TLS"
        )


def check_certificate(certificate: Path, key: Path | None) -> None:
    for flag, path in (("--tls-cert", certificate), ("--tls-key", key)):
        if path is not None and not path.is_file():
            raise BadInput(f"{flag} is {path}, and there is no such file")

    def refuse_password() -> NoReturn:
        raise BadInput(f"--tls-key {key or certificate} is locked with a password; name a key without one")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, refuse_password)
    except BadInput:
        raise
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or "they cannot be read"
        files = f"--tls-cert {certificate}" + (f" and --tls-key {key}" if key else "")
        raise BadInput(f"{files} are no certificate and its key in PEM form ({why})") from None


def bind(listening: Listening) -> socket.socket:
    """Bind the port before anything else starts, so that a second service is refused at once."""
    family, kind, protocol, _, address = resolve(listening.host, listening.port)[0]
    sock = socket.socket(family, kind, protocol)  # named, for asyncio sends without delay only what is known to be TCP
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for kept in (socket.SO_SNDBUF, socket.SO_RCVBUF):  # of each connection; Linux lets them grow to megabytes
        sock.setsockopt(socket.SOL_SOCKET, kept, SYSTEM_BUFFER)
    try:
        sock.bind(address)
        sock.listen(WAITING)  # only now does Linux refuse the second of two that bound the same port
    except OSError as error:
        sock.close()
        raise BadInput(say_unbound(listening, error)) from None
    return sock


def say_unbound(listening: Listening, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {listening.port} of {listening.host} is in use; choose another with --port, or 0 for any"
    if error.errno == errno.EACCES:
        return f"port {listening.port} is not yours to use; choose one above 1023 with --port"
    return f"{listening.host} is no address of this machine ({error.strerror}); choose another with --host"


def describe_address(listening: Listening, sock: socket.socket) -> str:
    """The URL to open in a browser."""
    host, port = sock.getsockname()[:2]
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "http" if listening.certificate is None else "https"
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


def names_of(listening: Listening) -> tuple[str, ...]:
    """Names allowed in a Host header besides loopback's: the given ones and the address itself."""
    host = f"[{listening.host}]" if ":" in listening.host else listening.host
    return (*listening.host_names, *(() if host in ("0.0.0.0", "[::]") else (host,)))


def make_server(app: Any, listening: Listening, limits: ConnectionLimits | None = None) -> uvicorn.Server:
    """A server of HTTP/1.1 without upgrades; it trusts forwarded addresses of the named proxy alone."""
    bounded = make_protocol(ConnectionLimits() if limits is None else limits)
    config = uvicorn.Config(
        app, http=bounded, ws="none", loop="asyncio", lifespan="on", log_config=None, access_log=False,
        server_header=False, backlog=WAITING, timeout_keep_alive=IDLE, timeout_graceful_shutdown=GRACE,
        proxy_headers=listening.proxy is not None, forwarded_allow_ips=listening.proxy or "",
        ssl_certfile=listening.certificate, ssl_keyfile=listening.key,
    )  # fmt: skip
    return uvicorn.Server(config)


def serve(
    server: uvicorn.Server,
    sock: socket.socket,
    on_ready: Callable[[], None] = lambda: None,
    on_stop: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal or `server.should_exit`; `on_stop` wakes waiting requests, so that they end in time.

    Ctrl-C raises KeyboardInterrupt when all is answered, and a second one does not wait; SIGTERM returns.
    """
    raise_file_limit()
    with suppress(asyncio.CancelledError), stopped_by_signals(server), asyncio.Runner() as runner:
        runner.run(run_server(server, sock, on_ready, on_stop))


async def run_server(
    server: uvicorn.Server, sock: socket.socket, on_ready: Callable[[], None], on_stop: Callable[[], None]
) -> None:
    serving = asyncio.create_task(server.serve(sockets=[sock]))
    since: dict[Any, float] = {}
    ready, look = False, time.monotonic()
    while not server.should_exit and not serving.done():
        if server.started and not ready:
            ready = True
            spare_collector()
            on_ready()
        if time.monotonic() >= look:
            since, look = drop_unfinished(server, since), time.monotonic() + LOOK_S
        await asyncio.sleep(0.02 if not ready else 0.1)
    on_stop()
    while not serving.done():
        await asyncio.wait((serving,), timeout=CLOSE_TIMEOUT)
        drop_answered(server)
    await serving


def spare_collector() -> None:
    """Leave what the start made out of garbage collection, and look for the rest less often.

    Thousands of waiting agents are many objects, and passes over all of them hold up every answer.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED_AFTER)


def drop_unfinished(server: uvicorn.Server, since: dict[Any, float]) -> dict[Any, float]:
    """Close connections whose request does not arrive: each takes one of the process's file descriptors."""
    now = time.monotonic()
    unfinished = {one: since.get(one, now) for one in server.server_state.connections if is_unfinished(one)}
    for connection, begun in unfinished.items():
        if now - begun > HEAD_TIMEOUT:
            connection.transport.abort()
    return unfinished


def drop_answered(server: uvicorn.Server) -> None:
    """Abort answered connections: under TLS a close waits for the other side, which idle clients never do."""
    connections: list[Any] = list(server.server_state.connections)
    for one in connections:
        if (one.cycle is None or one.cycle.response_complete) and not one.transport.get_write_buffer_size():
            one.transport.abort()


def is_unfinished(connection: Any) -> bool:
    cycle = connection.cycle
    return cycle is None or bool(cycle.response_complete and connection.conn.trailing_data[0])


@contextmanager
def stopped_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Stop on SIGTERM and SIGHUP; uvicorn raises a signal again when it has ended, and SIGTERM has done its work."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_file_limit(wanted: int = 65_536) -> None:
    """Allow more open files: a thousand agents have two connections each, and many systems start at 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            say(LOGGER, logging.DEBUG, "files", f"up to {most:,} files may be open at a time", most=most)
