"""Command groups that import a command's module when called, and turn errors into sentences and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Never

import click
from click.shell_completion import CompletionItem, get_completion_class

from scaler.model.errors import BadInput, Retry
from tuner.cli.signals import deferred_signals, noted_interruption

BAD_INPUT = 2
INTERRUPTED = 130
EXTRAS = {  # distribution extra that brings a package which an installation may lack
    "pyspark": "spark", "pandas": "spark", "zstandard": "tuner", "cramjam": "spark", "orjson": "spark",
    "numba": "sim", "torch": "deep", "gpytorch": "search", "scipy": "search", "skopt": "search", "optuna": "search",
    "cmaes": "search", "threadpoolctl": "search", "sqlalchemy": "store", "alembic": "store", "fastapi": "service",
    "uvicorn": "service", "starlette": "service", "pydantic": "service", "jinja2": "service",
    "prometheus_client": "service", "markdown_it": "service", "rich": "tuner", "pyarrow": "tuner", "authlib": "oidc",
    "joserfc": "oidc", "requests": "oidc",
}  # fmt: skip


class Entry(NamedTuple):
    """Import path of a command ("module:attribute") and its line in the overview."""

    where: str
    summary: str


class Refusal(click.ClickException):
    """Bad input, as click shows it."""

    exit_code = BAD_INPUT


class Words(click.Choice[str]):
    """A choice of words, which one that is missing is refused with on one line."""

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002
        return f"Choose from {', '.join(map(str, self.choices))}"


class LazyGroup(click.Group):
    """A group whose overview imports none of its commands."""

    def __init__(self, *arguments: Any, entries: Mapping[str, Entry | LazyGroup], **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click hands it over
        return [name for name, entry in self.entries.items() if is_installed(entry)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self.entries.get(cmd_name)
        if entry is None or not is_installed(entry):
            return None
        if isinstance(entry, LazyGroup):
            return entry
        module, _, attribute = entry.where.partition(":")
        try:
            with deferred_signals():
                command: click.Command = getattr(import_module(module), attribute)
        except ModuleNotFoundError as error:
            refuse_missing(error)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary_of(self.entries[name])) for name in self.list_commands(ctx)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=summary_of(self.entries[name])) for name in names),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with noted_interruption() if ctx.parent is None else nullcontext():
                return super().invoke(ctx)
        except BadInput as error:
            raise Refusal(str(error)) from error
        except Retry as error:
            raise click.ClickException(str(error)) from error
        except ModuleNotFoundError as error:
            refuse_missing(error)
        except MemoryError as error:
            raise Refusal(
                "this needs more memory than the process may have; state a smaller k_max, fewer slots (--slots), or a "
                "policy without tables, as threshold-c"
            ) from error
        except KeyboardInterrupt:
            echoed = "\n" if sys.stderr.isatty() else ""  # the terminal's own ^C stands on the line
            click.echo(f"{echoed}Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


def refuse_missing(error: ModuleNotFoundError) -> Never:
    """Name the extra to install where an optional package is missing; a module of our own that is missing is a bug."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        raise error
    extra = EXTRAS[package]
    raise Refusal(
        f"this needs the package {package}, which is not installed; "
        f"install it with: pip install 'stream-scaler[{extra}]'"
    ) from error


def is_installed(entry: Entry | LazyGroup) -> bool:
    """Whether the command, or any command of the group, is part of this installation."""
    if isinstance(entry, LazyGroup):
        return any(map(is_installed, entry.entries.values()))
    return find_spec(entry.where.partition(":")[0]) is not None


def summary_of(entry: Entry | LazyGroup) -> str:
    return (entry.help or "").partition("\n")[0] if isinstance(entry, LazyGroup) else entry.summary


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(tuner completion bash)"        # in ~/.bashrc\n'
    '  eval "$(tuner completion zsh)"         # in ~/.zshrc\n'
    "  tuner completion fish > ~/.config/fish/completions/tuner.fish"
)
@click.argument("shell", type=Words(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes a shell complete commands."""
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "tuner", "_TUNER_COMPLETE").source())
