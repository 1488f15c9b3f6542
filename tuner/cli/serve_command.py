"""`tuner serve`: where to listen and the database in; the service for scalers and people, until it is stopped, out."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tuner.cli.db_commands import store_option

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from tuner.service.access.envelope import Application
    from tuner.service.serving import Listening
    from tuner.store.connection import Store

FIRST = "first"
INTERRUPTED = 130
SURGE = 10.0  # seconds' worth of requests that may come at once: all scalers of a cluster come back together
HOW = "make one with: tuner token make NAME --scope report --scope read"
file_type = click.Path(path_type=Path)


@click.command(
    epilog="\b\nExamples:\n  tuner serve\n  tuner serve --store postgresql://tuner@localhost/tuner --port 8400\n"
    "  tuner serve --host 0.0.0.0 --host-name tuner.demo --tls-cert cert.pem --tls-key key.pem"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8321, show_default=True, help="0 lets the system choose."
)
@click.option("--tls-cert", type=file_type, metavar="FILE", help="A certificate and its chain, PEM: https only.")
@click.option("--tls-key", type=file_type, metavar="FILE", help="Its key, PEM, without a password.")
@click.option(
    "--behind-proxy", "proxy", is_flag=False, flag_value="127.0.0.1,::1", metavar="[ADDRESS]",
    help="A proxy speaks TLS before this, passes Host on and sets X-Forwarded-For and -Proto, which are believed of "
    "ADDRESS alone (this machine).",
)  # fmt: skip
@click.option(
    "--host-name", "host_names", multiple=True, metavar="NAME",
    help="A name that people and scalers call this service by; once for each.",
)  # fmt: skip
@click.option("--no-daemon", is_flag=True, help="Do not retune in the background; `tuner daemon` does it elsewhere.")
@click.option(
    "--rate", type=click.FloatRange(0.1), default=500.0, show_default=True,
    help="Requests a second that one token may make, with ten seconds' worth at once.",
)  # fmt: skip
@click.option(
    "--max-body", type=click.IntRange(1024), default=4 * 2**20, show_default=True, help="Bytes that a request may have."
)
@click.option("--verbose", is_flag=True, help="Tell of every request.")
@store_option
def serve(
    host: str, port: int, tls_cert: Path | None, tls_key: Path | None, proxy: str | None, host_names: tuple[str, ...],
    no_daemon: bool, rate: float, max_body: int, verbose: bool, address: str | None,
) -> None:  # fmt: skip
    """Run the Application Manager: the API for scalers and people, the page, and the retuning in the background.

    Everybody needs a token, on this machine too: `tuner token make`. It is heard on this machine alone unless --host
    says otherwise. SIGTERM ends it when all requests are answered. Events go to stderr, as JSON unless that is a
    terminal.
    """
    from tuner.cli.interruptible import hearing_termination
    from tuner.service.access.logs import set_up_logs
    from tuner.service.serving import Listening, bind, check_listening
    from tuner.store.connection import open_store

    listening = Listening(host, port, tls_cert, tls_key, proxy, host_names)
    ending = nullcontext() if no_daemon else ending_at_once()
    with ending, ExitStack() as stack:
        stack.enter_context(hearing_termination())
        store = stack.enter_context(closing(open_store(address)))
        check_listening(listening, count_live(store))
        sock = stack.enter_context(bind(listening))
        set_up_logs(verbose=verbose, secrets=list_secrets(store))
        app, wrapped = build(store, listening, rate, max_body)
        offer_first_token(store)
        if not no_daemon:
            app.state.daemon = stack.enter_context(retuning(store))  # /readyz looks whether it lives
        run(app, wrapped, sock, listening)


def count_live(store: Store) -> int:
    from tuner.service.access.token import is_live
    from tuner.store.tokens import list_tokens

    with store.read() as session:
        return sum(is_live(token, time.time()) for token in list_tokens(session))


def list_secrets(store: Store) -> list[str]:
    """What the database's URL hides, which no line of the log may show."""
    url = store.address.url
    queried = [value for key, value in url.query.items() if key.endswith("password") and isinstance(value, str)]
    return [str(url.password), *queried] if url.password else queried


def build(store: Store, listening: Listening, rate: float, max_body: int) -> tuple[FastAPI, Application]:
    """The service, and it in its envelope."""
    from tuner.service.access.envelope import wrap
    from tuner.service.access.gate import make_gate
    from tuner.service.access.limits import Limits
    from tuner.service.app import make_app
    from tuner.service.exchange.service_settings import Settings
    from tuner.service.serving import names_of

    settings = Settings(largest_body=max_body, requests_per_s=rate, burst=max(1, round(SURGE * rate)))
    app = make_app(store, settings)
    make_gate(app, Limits(settings.requests_per_s, settings.burst))
    return app, wrap(app, settings.largest_body, names_of(listening))


def offer_first_token(store: Store) -> None:
    """Where there never was one: made and shown to a person who looks on, and to nobody else."""
    from sqlalchemy.exc import IntegrityError

    from tuner.cli.token_commands import name_user
    from tuner.service.access.logs import say
    from tuner.service.access.scopes import SCOPES
    from tuner.service.access.token import make_token
    from tuner.store.tokens import list_tokens

    logger = logging.getLogger("tuner.service")
    with store.read() as session:
        tokens = list_tokens(session)
    if not tokens and sys.stdout.isatty():
        try:
            with store.begin() as session:
                _, secret = make_token(session, FIRST, SCOPES, name_user(), time.time())
        except IntegrityError:  # another `tuner serve` was quicker
            return
        click.echo(f"Your first token, which may do everything. It is not shown again:\n\n  {secret}\n")
    elif not count_live(store):
        say(logger, logging.WARNING, "no token", f"there is no token that lets anybody in; {HOW}")


@contextmanager
def ending_at_once() -> Iterator[None]:
    """A search may be in the middle of compiled code, out of which Python's own end would throw it; it is resumable."""
    try:
        yield
        code = 0
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        code = INTERRUPTED
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    for process in multiprocessing.active_children():
        process.terminate()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def retuning(store: Store) -> Iterator[threading.Thread]:
    """The daemon on a thread that is deaf to Ctrl-C, as are the processes that it starts: none prints a traceback."""
    from tuner.retuning.loop import daemon_beside

    resource_tracker.ensure_running()  # starting it makes a thread hear again
    with ExitStack() as stack:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            thread = stack.enter_context(daemon_beside(store))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield thread


def run(app: FastAPI, wrapped: Application, sock: socket.socket, listening: Listening) -> None:
    from tuner.service.access.logs import say
    from tuner.service.app import release
    from tuner.service.serving import describe_address, make_server, serve

    logger = logging.getLogger("tuner.service")
    url = describe_address(listening, sock)

    def tell_ready() -> None:
        say(logger, logging.INFO, "listening", f"Listening on {url}", url=url)

    def stop() -> None:
        say(logger, logging.INFO, "stopping", "Stopping: what was asked is answered first")
        release(app)

    serve(make_server(wrapped, listening), sock, tell_ready, stop)
    say(logger, logging.INFO, "stopped", "Stopped")
