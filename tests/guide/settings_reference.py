"""Write the guide's settings reference, made of the code's own commands and tables.

python -m tests.guide.settings_reference
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from tuner.cli import main

PAGE = Path(__file__).parents[2] / "tuner" / "guide" / "settings.md"
HEAD = """\
# Settings reference

Made of the code by `python -m tests.guide.settings_reference`; a test says when it is out of date.
"""


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


def write_page() -> str:
    commands = "\n".join(write_command(path, command) for path, command in list_commands().items())
    return f"{HEAD}\n## Commands\n\n{commands}"


if __name__ == "__main__":
    PAGE.write_text(write_page(), encoding="utf-8")
