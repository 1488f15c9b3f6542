"""`tuner serve`, `tuner daemon` and `tuner dashboards`: the long-running processes and what watches them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.resources import files
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import click
import uvicorn
from fastapi import FastAPI

from scaler.model.errors import BadInput
from scaler.model.files import check_place, make_folder, write_whole
from tuner.cli.interruption import leaving_behind, run_interruptibly
from tuner.cli.options import file_type, make_span_type, name_user, new_store_option, parse_span, print_json
from tuner.cli.signals import raising_on_termination
from tuner.retuning.loop import HeldLeases, daemon_thread, run_daemon, run_once
from tuner.retuning.state import state_of
from tuner.service.access.bodies_in_flight import BodiesInFlight
from tuner.service.access.connections import ConnectionLimits
from tuner.service.access.envelope import wrap
from tuner.service.access.gate import RateLimits
from tuner.service.access.logs import say, set_up_logs
from tuner.service.access.oidc_settings import SECRET_VARIABLE, IdentityProvider, read_oidc_settings
from tuner.service.access.page_session import find_account
from tuner.service.access.token import LIFE_S, SCOPES, is_live, is_person, make_token
from tuner.service.app import make_app, release_agents
from tuner.service.daily_copies import daily_copies
from tuner.service.exchange.services import Settings
from tuner.service.serving import (
    Listening,
    bind,
    bound_arenas,
    check_listening,
    describe_address,
    make_server,
    names_of,
)
from tuner.service.serving import serve as serve_until_stopped
from tuner.service.upkeep import upkeep
from tuner.simulation.workers import end_workers
from tuner.store.address import DatabaseAddress
from tuner.store.connection import Store, open_store
from tuner.store.faults import IntegrityError
from tuner.store.records import RetuningRecord
from tuner.store.retention import Retention
from tuner.store.tokens import list_tokens

LOGGER = logging.getLogger("tuner.service")
FIRST = "first"
SURGE = 10.0  # seconds' worth of requests that may come at once: all scalers of a cluster come back together
HOW = "make one with: tuner token make NAME --scope report --scope read --app APPLICATION"


@click.command(
    epilog="\b\nExamples:\n  tuner serve\n  tuner serve --store postgresql://tuner@localhost/tuner --port 8400\n"
    "  tuner serve --host 0.0.0.0 --host-name tuner.demo --tls-cert cert.pem --tls-key key.pem"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8321,
    show_default=True,
    help="Port to listen on; 0 lets the system choose.",
)
@click.option(
    "--tls-cert",
    type=file_type,
    metavar="FILE",
    help="File of the certificate and its chain, PEM (default: plain http).",
)
@click.option(
    "--tls-key", type=file_type, metavar="FILE", help="File of the certificate's key, PEM, without a password."
)
@click.option(
    "--behind-proxy", "proxy", is_flag=False, flag_value="127.0.0.1,::1", metavar="[ADDRESS]",
    help="Address of a proxy that speaks TLS, passes Host on and sets X-Forwarded-For and -Proto, which are accepted "
    "from it alone (default: no proxy; without ADDRESS: this machine).",
)  # fmt: skip
@click.option(
    "--host-name", "host_names", multiple=True, metavar="NAME",
    help="Host name of this service in URLs; repeat it for several.",
)  # fmt: skip
@click.option(
    "--oidc", type=file_type, metavar="FILE",
    help="File of the OpenID provider at which people may log in, and of what its groups may do (TOML; default: none). "
    "The client's secret is in a file that it names or in TUNER_OIDC_SECRET.",
)  # fmt: skip
@click.option("--no-daemon", is_flag=True, help="Leave retuning to `tuner daemon`.")
@click.option(
    "--rate", type=click.FloatRange(0.1), default=500.0, show_default=True,
    help="Requests per second of one token, with bursts of ten seconds' worth.",
)  # fmt: skip
@click.option(
    "--max-body",
    type=click.IntRange(1024),
    default=4 * 2**20,
    show_default=True,
    help="Largest size of a request, in bytes.",
)
@click.option(
    "--connections", type=click.IntRange(2), default=24_000, show_default=True,
    help="Connections at a time; one address has at most half of them, except a proxy.",
)  # fmt: skip
@click.option(
    "--backups", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Folder for a daily copy of the database (default: none is made).",
)  # fmt: skip
@click.option(
    "--keep-backups", type=click.IntRange(1), default=14, show_default=True, help="Number of daily copies to keep."
)
@click.option(
    "--report-rate", type=click.IntRange(1), default=256, show_default=True, metavar="KIB",
    help="Reports of one application a second, in KiB, with two minutes' worth at once; one token has four times that.",
)  # fmt: skip
@click.option(
    "--act-rate", type=click.FloatRange(0.001), default=1.0, show_default=True,
    help="Changes per second of one token or person, each of which is a row of the audit log; 2,000 at once.",
)  # fmt: skip
@click.option(
    "--slots-for", default="35d", show_default=True, metavar="AGE",
    help="Age up to which the decisions of every slot stay; older ones are thinned to changes and one slot an hour.",
)  # fmt: skip
@click.option(
    "--hours-for", default="400d", show_default=True, metavar="AGE", help="Age up to which thinned decisions stay."
)
@click.option(
    "--samples-for", default="90d", show_default=True, metavar="AGE",
    help="Age up to which samples stay; those that a surrogate or the retuning reads stay longer.",
)  # fmt: skip
@click.option("--no-retention", is_flag=True, help="Delete nothing by itself; `tuner db prune` does.")
@click.option("--verbose", is_flag=True, help="Log every request.")
@new_store_option
def serve(
    host: str, port: int, tls_cert: Path | None, tls_key: Path | None, proxy: str | None, host_names: tuple[str, ...],
    oidc: Path | None, no_daemon: bool, verbose: bool, address: DatabaseAddress, **limits: Any,
) -> None:  # fmt: skip
    """Run the service: API, page, and retuning in the background.

    Agents and people need a token, on this machine too: `tuner token make`. The service listens on loopback alone
    unless --host says otherwise. SIGTERM ends it when all requests are answered. Events go to stderr, as JSON unless
    that is a terminal.
    """
    bound_arenas()
    listening = Listening(host, port, tls_cert, tls_key, proxy, host_names)
    provider = None if oidc is None else open_provider(oidc)
    with ExitStack() as stack:
        stack.enter_context(raising_on_termination())
        store = stack.enter_context(closing(open_store(address)))
        check_listening(listening, count_live(store) + (provider is not None))
        sock = stack.enter_context(bind(listening))
        own = [] if provider is None else [provider.settings.secret]
        set_up_logs(verbose=verbose, secrets=[*list_secrets(store), *own])
        settings = replace(read_limits(**limits), provider=provider)
        app = make_app(store, settings)
        stack.enter_context(upkeep(store, settings.retention))
        offer_first_token(store)
        if limits["backups"] is not None:
            stack.enter_context(daily_copies(store, limits["backups"], limits["keep_backups"]))
        if not no_daemon:
            app.state.services.daemon = stack.enter_context(retuning(store))  # /readyz looks whether it lives
        bodies = BodiesInFlight(limits["max_body"], known=partial(find_account, app))
        most = limits["connections"]
        shared = ConnectionLimits(most, most if proxy is not None else (most + 1) // 2)
        run(app, make_server(wrap(app, bodies, names_of(listening)), listening, shared), sock, listening)


def read_limits(
    rate: float, report_rate: int, act_rate: float, slots_for: str, hours_for: str, samples_for: str,
    no_retention: bool, **_: Any,
) -> Settings:  # fmt: skip
    """Rates, quotas and retention."""
    flags = {"--slots-for": slots_for, "--hours-for": hours_for, "--samples-for": samples_for}
    retention = Retention(*(parse_span(flag, text) for flag, text in flags.items()))
    if retention.hours_s < retention.slots_s:
        raise BadInput(f"--hours-for is {hours_for}, and must be at least --slots-for ({slots_for})")
    limits = RateLimits(rate, max(1, round(SURGE * rate)), report_bytes=1024.0 * report_rate, acts=act_rate)
    return Settings(limits=limits, retention=None if no_retention else retention)


def open_provider(file: Path) -> IdentityProvider:
    """The provider of these settings, which is asked when somebody logs in."""
    settings = read_oidc_settings(file, os.environ.get(SECRET_VARIABLE))
    from tuner.service.access.oidc_provider import OpenIdProvider  # of an extra that few need

    return OpenIdProvider(settings)


def count_live(store: Store) -> int:
    with store.read() as session:
        return sum(is_live(token, time.time()) and not is_person(token) for token in list_tokens(session))


def list_secrets(store: Store) -> list[str]:
    """What the database's URL hides, which no line of the log may show."""
    url = store.address.url
    queried = [value for key, value in url.query.items() if key.endswith("password") and isinstance(value, str)]
    return [str(url.password), *queried] if url.password else queried


def offer_first_token(store: Store) -> None:
    """Make a first token where there never was one, and show it on a terminal alone."""
    with store.read() as session:
        tokens = list_tokens(session)
    if not tokens and sys.stdout.isatty():
        try:
            with store.begin() as session:
                now = time.time()
                _, secret = make_token(session, FIRST, SCOPES, name_user(), now, now + LIFE_S)
        except IntegrityError:  # another `tuner serve` was quicker
            return
        click.echo(f"Your first token, which may do everything for 90 days. It is not shown again:\n\n  {secret}\n")
    elif not count_live(store):
        say(LOGGER, logging.WARNING, "no token", f"there is no token that lets anybody in; {HOW}")


@contextmanager
def retuning(store: Store) -> Iterator[threading.Thread]:
    """The daemon on a thread that blocks Ctrl-C, as do the processes that it starts: none prints a traceback."""
    resource_tracker.ensure_running()  # starting it unblocks signals on the thread
    leases = HeldLeases()
    with leaving_behind(lambda: leases.search), ExitStack() as stack:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            thread = stack.enter_context(daemon_thread(store, leases))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        stack.callback(end_workers)  # before the thread is waited for
        yield thread


def run(app: FastAPI, server: uvicorn.Server, sock: socket.socket, listening: Listening) -> None:
    url = describe_address(listening, sock)

    def stop() -> None:
        say(LOGGER, logging.INFO, "stopping", "Stopping: what was asked is answered first")
        release_agents(app)

    ready = partial(say, LOGGER, logging.INFO, "listening", f"Listening on {url}", url=url)
    serve_until_stopped(server, sock, ready, stop)
    say(LOGGER, logging.INFO, "stopped", "Stopped")


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner daemon --store postgresql://tuner@db/tuner\n"
    "  tuner daemon --once --json\n\n"
    "Several daemons may share one PostgreSQL: each application is leased to one of them at a time, and another takes\n"
    "over within a minute if that one dies. SIGTERM ends it within seconds; the next daemon continues its work."
)
@click.option("--once", is_flag=True, help="Retune what is due now, then end.")
@click.option(
    "--every", type=make_span_type(0.05), default=0.5, show_default=True, metavar="SECONDS",
    help="Seconds between two checks of what is due, or as 2m.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else; goes with --once.")
@new_store_option
def daemon(once: bool, every: float, as_json: bool, address: DatabaseAddress) -> None:
    """Retune the applications that are due, without the service.

    An application is due by its period, or when its arrival rates, service times or response times differ from those
    that it was tuned for. A recommendation is pushed only where it is better beyond the noise, and rolled back where
    QoS worsens. `tuner serve` does the same beside its API.
    """
    if as_json and not once:
        raise click.UsageError("--json goes with --once; without it, the API and the page tell what is done")
    stop = threading.Event()
    with raising_on_termination(), closing(open_store(address)) as store:
        if once:
            show(run_interruptibly(lambda: run_once(store, ending=stop.is_set), stop), as_json)
            return
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        leases = HeldLeases()
        work = partial(run_daemon, store, wait=stop.wait, ending=stop.is_set, every=every, leases=leases)
        with leaving_behind(lambda: leases.search), suppress(KeyboardInterrupt, SystemExit):
            click.echo(f"Watching the applications in {store.address.shown}; Ctrl-C ends it.", err=True)
            run_interruptibly(work, stop)
    click.echo("Ended; the next daemon continues the work that was under way.", err=True)


def show(attended: list[RetuningRecord], as_json: bool) -> None:
    """What was attended to."""
    rows = [
        {"application": w.application, "phase": w.phase, "due": w.due, "message": state_of(w).message or ""}
        for w in attended
    ]
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("Nothing was due.")
    for row in rows:
        click.echo(f"{row['application']}: {row['phase']}" + (f" ({row['message']})" if row["message"] else ""))


SHIPPED = {
    "grafana.json": "import it in Grafana: Dashboards, New, Import",
    "alerts.yml": "name it in prometheus.yml under rule_files",
    "stream-scaler.service": "a systemd unit; its first lines say how to install it",
    "Containerfile": "builds a container; its first lines say how",
}


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner dashboards /etc/stream-scaler\n"
    "  tuner dashboards . --force        # over those of an earlier version"
)
@click.argument("folder", type=file_type)
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
def dashboards(folder: Path, force: bool) -> None:
    """Write files to watch and run the service.

    They are a Grafana dashboard, Prometheus alert rules, a systemd unit and a container file.

    FOLDER is made if it is missing. The first two use what `tuner serve` exports at /metrics. Prometheus needs a token
    of scope read for it (`authorization: credentials_file:` in its scrape_configs).
    """
    make_folder(folder)
    places = {name: folder / name for name in SHIPPED}
    for path in places.values():
        if not force and os.path.lexists(path):
            raise BadInput(f"{path} is there already; name another folder, or write over it with --force")
        check_place(path)
    for name, path in places.items():
        write_whole(path, files("tuner.ship").joinpath(name).read_text(encoding="utf-8"))
        click.echo(f"{path}: {SHIPPED[name]}.")
