"""Options and arguments that several commands share, the values they parse to, and shell completion of APP."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pwd
import re
import socket
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from scaler.model.errors import BadInput
from scaler.model.files import check_place
from scaler.model.units import clean
from tuner.store.address import DatabaseAddress, default_address, parse_address
from tuner.store.applications import list_names
from tuner.store.connection import connect_unprepared

T = TypeVar("T")
FORMULA = ("=", "+", "-", "@")
COMPLETION_S = 0.5  # that a person who pressed Tab waits for a database
UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
TIME_FORMS = "ISO 8601 in UTC (2026-05-01T08:00), or how long ago (90m, 6h, 2d)"
file_type = click.Path(path_type=Path)
MAX_NUMBER = 2**31 - 1  # that a column of the databases holds
number_type = click.IntRange(1, MAX_NUMBER)  # of a row, which people see
limit_type = click.IntRange(0, MAX_NUMBER)  # of rows to list


class OutputFile(click.Path):
    """A file to write; where none can be, it is refused before the work for it is done."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(str(super().convert(value, param, ctx)))
        check_place(path)
        return path


output_type = OutputFile()


class Quantity(click.ParamType[float]):
    """A number with or without one of its units, as in 60ms or 5%."""

    def __init__(self, name: str, units: Mapping[str, float], example: str, least: float = -math.inf) -> None:
        self.name, self.units, self.example, self.least = name, units, example, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = self.parse(value, param, ctx)
        if number < self.least:
            self.fail(f"{number} is not in the range x>={self.least:g}.", param, ctx)
        return number

    def parse(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return float(value)
        except ValueError:
            found = NUMBER_AND_UNIT.fullmatch(str(value).strip())
        if found is None or found[2] not in self.units:
            self.fail(f"{value!r} is no {self.name}; write it as in {self.example}", param, ctx)
        return float(found[1]) * self.units[found[2]]


NUMBER_AND_UNIT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([a-z%]*)")
SECONDS = {"": 1.0, "ms": 1e-3, **UNIT_S}
seconds_type = Quantity("seconds", SECONDS, "0.06, 60ms or 2m")
share_type = Quantity("share", {"": 1.0, "%": 1e-2}, "0.05 or 5%")


def make_span_type(least_s: float) -> Quantity:
    """A length of time of so many seconds at the least."""
    return Quantity("seconds", SECONDS, "90, 90s or 2m", least_s)


def complete_application(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of applications in the database as it is; none where it cannot be read at once."""
    try:
        address: DatabaseAddress = ctx.params["address"]
        if address.path is not None and not address.path.exists():
            return []
        with closing(connect_unprepared(address, COMPLETION_S)) as store, store.read() as session:
            names = list_names(session)
    except Exception:  # a person who is typing is not to be shown an error
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def parse_moment(ctx: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Seconds since 1970 of a date and time, in UTC where it names no offset, or of a length of time before now."""
    if text is None:
        return None
    return time.time() - parse_span("", text) if SPAN.fullmatch(text.strip()) else read_time(text)


def read_time(text: str) -> float:
    """Seconds since 1970 of a date and time, in UTC where it names no offset."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time; write {TIME_FORMS}") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def parse_span(option: str, text: str) -> float:
    """Seconds of a length of time as in 12h, 30d or 26w."""
    found = SPAN.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise BadInput(f"{option} is {text!r}, and must be a length of time above zero, as in 12h, 30d or 26w")
    return float(found[1]) * UNIT_S[found[2]]


def read_address(ctx: click.Context, parameter: click.Parameter, text: str | None) -> DatabaseAddress:
    """The one place that reads the environment for commands."""
    return find_database(os.environ, text)


def read_present(ctx: click.Context, parameter: click.Parameter, text: str | None) -> DatabaseAddress:
    """As `read_address`, of a database that is there."""
    return require_present(read_address(ctx, parameter, text))


def require_present(address: DatabaseAddress) -> DatabaseAddress:
    """Refuse a SQLite file that is not there: a mistyped name would be made, and look as if all were lost."""
    if address.path is not None and not address.path.exists():
        raise BadInput(
            f"there is no database {address.shown}; name yours with --store or TUNER_STORE, or begin one with: "
            "tuner app add, or tuner ingest"
        )
    return address


def find_database(environ: Mapping[str, str], text: str | None) -> DatabaseAddress:
    """The database that --store or TUNER_STORE names, or the user's own; fine samples are in the user's data."""
    home = Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    data = home / "stream-scaler"
    return default_address(data) if text is None else parse_address(text, data)


def drop_unset(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tables of the flags that were given, without those of which none was."""
    given = {name: {key: value for key, value in table.items() if value is not None} for name, table in tables.items()}
    return {name: table for name, table in given.items() if table}


def parse_pairs(ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    """KEY=VALUE texts as a table; a value is what TOML makes of it, or else the text."""
    table: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{text!r} is not of the form KEY=VALUE")
        try:
            table[key.strip()] = tomllib.loads(f"value = {value.strip()}")["value"]
        except (tomllib.TOMLDecodeError, RecursionError):
            table[key.strip()] = value.strip()
    return table


def print_json(document: Any) -> None:
    """One JSON document; NaN and infinities are refused, for JSON has none."""
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def print_result(result: T, as_json: bool, describe: Callable[[T], Any], print_text: Callable[[T], None]) -> None:
    """Print a result as JSON and nothing else, or for people."""
    if as_json:
        print_json(describe(result))
    else:
        print_text(result)


def format_csv(rows: Sequence[Mapping[str, Any]], heads: Iterable[str]) -> str:
    """CSV with a column for whatever the rows have, and the heads alone where there is no row."""
    text, names = io.StringIO(), dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names or heads), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: spell_cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def spell_cell(value: Any) -> Any:
    """A text without control characters, and with ' before what a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    plain = clean(value, len(value))
    return f"'{plain}" if plain.startswith(FORMULA) else plain


def name_user() -> str:
    """The account that runs the command and its machine, for the audit log; no variable of the environment names it."""
    number = os.getuid()
    try:
        account = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may know the number alone
        account = f"uid {number}"
    return f"{account}@{socket.gethostname()}"


app_argument = click.argument("app", shell_complete=complete_application)
STORE_HELP = (
    "Database: a SQLite file or postgresql://USER@HOST/DATABASE (default ~/.local/share/stream-scaler/tuner.db)."
)
new_store_option, store_option = (  # of commands that may begin a database, and of those that go on with one
    click.option(
        "--store", "address", metavar="PATH|URL", envvar="TUNER_STORE", show_envvar=True, callback=callback,
        help=STORE_HELP,
    )
    for callback in (read_address, read_present)
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
csv_option = click.option(
    "--csv", "as_csv", is_flag=True, help="Print CSV and nothing else; an empty field is a missing value."
)
html_option = click.option("--html", type=output_type, help="Write a page with charts to this file.")
option_option = click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_pairs,
    help="Option of a policy; repeat it for several.",
)
since_option = click.option(
    "--since", metavar="TIME", callback=parse_moment, help=f"First time, {TIME_FORMS} (default: the earliest)."
)
until_option = click.option(
    "--until", metavar="TIME", callback=parse_moment, help="Last time, likewise (default: the newest)."
)
master_help = "Spark master: local[N] or spark://HOST:PORT"
r_max_help = "Latency bound R_max of every path, in seconds or as 60ms"
quantile_help = "Quantile of response times that R_max is about, 0.5 to 0.999, as in 0.95 for p95"
eta_v_help = "Largest share of slots with a violation, as 0.05 or 5%"
eta_r_help = "Largest share of slots with a reconfiguration, as 0.1 or 10%"
arrivals_since_help = f"First time of the monitored arrivals to search on, {TIME_FORMS}"
gap_help = "Largest number of windows in a row without monitoring to interpolate"
