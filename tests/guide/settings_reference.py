"""Write the guide's settings reference, made of the code's own commands and tables.

python -m tests.guide.settings_reference
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import click

import scaler
from scaler.acting.command import Command
from scaler.acting.webhook import Webhook
from scaler.agent.pending import ArrivalTimeouts
from scaler.guards import GUARDS, guard
from scaler.guards.deployments import UNLIMITED
from scaler.guards.guard import GuardOptions
from scaler.model.micro_batches import MicroBatches
from sim.application import BATCHES, DIRECTION, EDGE, HOLD, OPERATOR, Edge, Operator
from sim.arrivals import GENERATORS
from sim.infrastructure import NODE
from sim.migration import Migration
from sim.toml_table import Kind
from tests.guide.meanings import MEANINGS
from tuner.cli import main
from tuner.lab.plan import PLAN, WORKLOAD
from tuner.rollout.retuning_settings import DEFAULTS as RETUNING
from tuner.rollout.retuning_settings import KINDS as KINDS_OF_RETUNING
from tuner.scenario.layout import DEFAULTS
from tuner.scenario.layout import KINDS as SCENARIO
from tuner.service.access.oidc_settings import GROUP_KINDS as OIDC_GROUP
from tuner.service.access.oidc_settings import KINDS as OIDC
from tuner.service.access.oidc_settings import OidcSettings
from tuner.service.page.guide_page import name_anchor

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tuner" / "guide" / "settings.md"
HEAD = """\
# Settings reference

Made of the code by `python -m tests.guide.settings_reference`; a test says when it is out of date. Times are in
seconds, rates in tuples per second, prices per replica and hour, unless said otherwise.
"""
SCENARIO_TEXT = """\
`tuner simulate` reads a scenario. `tuner app add` reads an application's description, which has the same tables. Only
what differs from the defaults needs to be there. A file of node types has `[[node]]` tables at its top, and a file of
an application's graph `[[operator]]` and `[[edge]]` tables.
"""
RETUNING_TEXT = """\
Settings of one application, sent to the API: `PUT /v1/applications/APP/retuning` with
`{"settings": {"period_s": 604800}}`. What is left out goes back to its default.
"""
GUARDS_TEXT = """\
Guards are tables by name in the `guards` of an orders file: for all operators under `""`, and by operator. A guard's
value is a table of its settings, a list of such tables, or true (all defaults). Pins, direction locks and blocked hours
are also set on the page and by the API, where they are called controls.
"""
HEADS = {
    "operator": "[[application.operator]]", "operator.hold": "[application.operator.hold]",
    "operator.hold.out": "[application.operator.hold.out] and [application.operator.hold.in]",
    "operator.batches": "[application.operator.batches]", "edge": "[[application.edge]]",
    "trace generators": "Parameters of generators, within [trace]", "node": "[[infrastructure.node]]",
    "run.migration": "[run.migration]",
}  # fmt: skip
CALLS = {
    "attach": "scaler.attach", "AttachSettings": "scaler.AttachSettings",
    "ArrivalTimeouts": "scaler.agent.pending.ArrivalTimeouts", "pin": "scaler.pin",
    "ServiceTimer": "scaler.ServiceTimer", "Command": "scaler.acting.command.Command",
    "Webhook": "scaler.acting.webhook.Webhook",
}  # fmt: skip
GUARD_EXAMPLES: dict[str, dict[str, Any]] = {  # with what has no default
    "bounds": {}, "cooldown": {}, "stabilisation": {}, "flap_budget": {"changes": 4}, "pin": {"at": {"small": 1}},
    "blocked_hours": {"from": "08:00", "to": "09:00"}, "direction_lock": {"only": "out"}, "dry_run": {},
}  # fmt: skip


def walk_commands(command: click.Command, ctx: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Commands that do something, by path."""
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            assert below is not None
            yield from walk_commands(below, click.Context(below, ctx, name))
    else:
        yield ctx.command_path, command


def list_commands() -> dict[str, click.Command]:
    return dict(walk_commands(main, click.Context(main, info_name="tuner")))


def write_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_option(option: click.Option) -> tuple[str, str]:
    """How it is written on the command line, and its help with default and variable."""
    names = " ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    ctx = click.Context(click.Command("x"))
    value = "" if option.is_flag or option.count else f" {option.make_metavar(ctx)}"
    extra = option.get_help_extra(ctx)
    notes = []
    if extra.get("envvars"):
        notes.append(f"variable {', '.join(extra['envvars'])}")
    if extra.get("default") and "default" not in (option.help or ""):
        notes.append(f"default {extra['default']}")
    if option.multiple:
        notes.append("may be repeated")
    return names + value, " ".join([option.help or "", *([f"({'; '.join(notes)})"] if notes else [])])


def write_command(path: str, command: click.Command) -> str:
    ctx = click.Context(command, info_name=path)
    parts = [f"### {path}\n\n{(command.help or '').partition(chr(10))[0]}\n"]
    words = " ".join([path, *(one.make_metavar(ctx) for one in command.params if isinstance(one, click.Argument))])
    parts.append(f"`{words}`\n")
    options = [one for one in command.params if isinstance(one, click.Option)]
    if options:
        parts.append(write_table(("option", "what it does"), map(write_option, options)))
    return "\n".join(parts)


def describe(section: str, rows: Iterable[tuple[str, str, Any]]) -> str:
    """A table of keys with kind, default and meaning; a key without a meaning is refused, and one too many."""
    listed, meanings = list(rows), MEANINGS[section]
    names = [name for name, *_ in listed]
    if set(names) != set(meanings):
        wrong = sorted(set(names) ^ set(meanings))
        raise ValueError(f"tests/guide/meanings.py, {section!r}, and the code do not agree on {', '.join(wrong)}")
    columns = {
        "key": [f"`{name}`" for name in names],
        "value": [kind for _, kind, _ in listed],
        "default": [write_value(value) for *_, value in listed],
        "meaning": [meanings[name] for name in names],
    }
    stated = {head: cells for head, cells in columns.items() if any(cells)}
    return write_table(stated, zip(*stated.values(), strict=True))


def write_value(value: Any) -> str:
    if value is None or value is MISSING or (isinstance(value, list | tuple | dict) and not value):
        return ""
    if isinstance(value, float) and value >= 1000.0 and value.is_integer():
        value = int(value)
    text = " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f"`{str(value).lower() if isinstance(value, bool) else text}`"


def list_kinds(kinds: Mapping[str, Kind], defaults: Mapping[str, Any] | None = None) -> list[tuple[str, str, Any]]:
    return [(name, kind.says.format(key=name), (defaults or {}).get(name)) for name, kind in kinds.items()]


def list_fields(kind: type, without: Collection[str] = ()) -> list[tuple[str, str, Any]]:
    """Fields of a dataclass, with their defaults where these are plain values."""
    known = [one for one in fields(kind) if one.name not in without]
    return [(one.name, "", one.default if is_plain(one.default) else None) for one in known]


def list_parameters(function: Callable[..., Any]) -> list[tuple[str, str, Any]]:
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, "", one.default if is_plain(one.default) else None) for one in parameters if one.name != "self"]


def is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str)


class RecordedOptions(GuardOptions):
    """A guard's options, with the defaults that it reads them with."""

    def __init__(self, name: str) -> None:
        super().__init__(name, GUARD_EXAMPLES[name], ("small",))
        self.defaults: dict[str, Any] = {}

    def read(self, name: str, default: Any = guard.MISSING) -> Any:
        self.defaults[name] = default if is_plain(default) and default != UNLIMITED else None
        return super().read(name, default)


def list_guard(name: str) -> list[tuple[str, str, Any]]:
    options = RecordedOptions(name)
    GUARDS[name](options)
    return [(setting, "", default) for setting, default in options.defaults.items()]


def list_generator_parameters() -> list[tuple[str, str, Any]]:
    found: dict[str, Any] = {}
    for make in GENERATORS.values():
        for one in inspect.signature(make).parameters.values():
            found.setdefault(one.name, one.default if is_plain(one.default) else None)
    return [(name, "", default) for name, default in found.items()]


def write_scenario() -> str:
    tables = {name: list_kinds(kinds, DEFAULTS.get(name)) for name, kinds in SCENARIO.items()}
    below = {
        "application": {"operator": list_kinds(OPERATOR, plain_defaults(Operator)),
                        "operator.hold": list_kinds(HOLD), "operator.hold.out": list_kinds(DIRECTION),
                        "operator.batches": list_kinds(BATCHES, plain_defaults(MicroBatches)),
                        "edge": list_kinds(EDGE, plain_defaults(Edge))},
        "trace": {"trace generators": list_generator_parameters()},
        "infrastructure": {"node": list_kinds(NODE)},
        "run": {"run.migration": list_fields(Migration, ("state_bytes", "partitions"))},
    }  # fmt: skip
    parts = []
    for name, rows in tables.items():
        parts.append(f"### [{name}]\n\n{describe(name, rows)}")
        parts += [f"#### {HEADS[inner]}\n\n{describe(inner, found)}" for inner, found in below.get(name, {}).items()]
    return "\n".join(parts)


def plain_defaults(kind: type) -> dict[str, Any]:
    return {name: value for name, _, value in list_fields(kind)}


def write_driver() -> str:
    called = {"attach": list_parameters(scaler.attach), "AttachSettings": list_fields(scaler.AttachSettings),
              "ArrivalTimeouts": list_fields(ArrivalTimeouts), "pin": list_parameters(scaler.pin),
              "ServiceTimer": list_parameters(scaler.ServiceTimer.__init__),
              "Command": list_parameters(Command.__init__), "Webhook": list_parameters(Webhook.__init__)}  # fmt: skip
    return "\n".join(f"### {CALLS[name]}\n\n{describe(name, rows)}" for name, rows in called.items())


def write_guards() -> str:
    parts = []
    for name, reader in GUARDS.items():
        rows = list_guard(name)
        text = " ".join((reader.__doc__ or "").split("\n\n")[0].split())
        parts.append(f"### {name}\n\n{text}\n" + (f"\n{describe(f'guard {name}', rows)}" if rows else ""))
    return "\n".join(parts)


def find_variables() -> set[str]:
    """Names of environment variables that the code reads."""
    found: set[str] = set()
    for room in ("scaler", "sim", "tuner"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            found |= set(re.findall(r'environ(?:\.get\(|\.setdefault\(|\.pop\(|\[)"([A-Z_]+)"', text))
            found |= set(re.findall(r'envvar="([A-Z_]+)"', text)) | set(
                re.findall(r'= "((?:TUNER|SPARK_EX)[A-Z_]+)"', text)
            )
    return found


def write_environment() -> str:
    meanings = MEANINGS["environment"]
    return describe("environment", [(name, "", None) for name in sorted(find_variables(), key=list(meanings).index)])


def write_page() -> str:
    commands = "\n".join(write_command(path, command) for path, command in list_commands().items())
    plan = [(name, kind.says.format(key=name), value) for name, (kind, value) in PLAN.items()]
    people = list_kinds(OIDC, plain_defaults(OidcSettings))
    retuning = [(name, KINDS_OF_RETUNING[name].says, value) for name, value in RETUNING.items()]
    parts = [
        HEAD,
        f"## Scenario and application (TOML)\n\n{SCENARIO_TEXT}\n{write_scenario()}",
        f"## Retuning\n\n{RETUNING_TEXT}\n{describe('retuning', retuning)}",
        f"## Guards\n\n{GUARDS_TEXT}\n{write_guards()}",
        f"## In the driver\n\n{write_driver()}",
        f"## Log-in of people (`tuner serve --oidc FILE`)\n\n{describe('oidc', people)}",
        f"### [[group]]\n\n{describe('oidc.group', list_kinds(OIDC_GROUP))}",
        f"## Plan of a benchmark (`tuner lab compare`)\n\n{describe('plan', plan)}",
        f"### [[workload]]\n\n{describe('plan.workload', list_kinds(WORKLOAD))}",
        f"## Environment variables\n\n{write_environment()}",
        f"## Commands\n\n{commands}",
    ]
    text = "\n".join(parts)
    return text.replace(HEAD, f"{HEAD}\n{write_contents(text)}", 1)


def write_contents(text: str) -> str:
    """Links to all sections but the innermost."""
    lines: list[str] = []
    for marks, heading in re.findall(r"^(##|###) (.*)$", text, re.M):
        link = f"[{heading.replace('[', '').replace(']', '').replace('`', '')}](#{name_anchor(heading)})"
        if marks == "##":
            lines.append(f"- {link}")
        else:
            lines[-1] += f"{',' if ':' in lines[-1] else ':'}\n  {link}"  # of two changes, git merges lines
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
