"""`tuner completion`: a shell's name in; the script that makes it complete our commands, and what it then asks, out."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")
SHELLS = ("bash", "zsh", "fish")
PATIENCE_S = 0.5  # that a person who pressed Tab has


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(tuner completion bash)"        # in ~/.bashrc\n'
    '  eval "$(tuner completion zsh)"         # in ~/.zshrc\n'
    "  tuner completion fish > ~/.config/fish/completions/tuner.fish"
)
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands, options and the names of applications."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "tuner", "_TUNER_COMPLETE").source())


def app_argument(command: F) -> F:
    """An argument APP that shells complete."""
    return click.argument("app", shell_complete=complete_application)(command)


def complete_application(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of applications in the database; none at all where it cannot be read at once."""
    try:
        names = list_names(ctx.params.get("address") or os.environ.get("TUNER_STORE"))
    except Exception:  # a person who is typing is not to be shown an error
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def list_names(address: str | None) -> list[str]:
    """Of a database as it is: none is made, and none brought up to date."""
    from sqlalchemy import select

    from tuner.store.address import default_path
    from tuner.store.connection import connect_unprepared
    from tuner.store.models import ApplicationRow

    with closing(connect_unprepared(address or default_path(), PATIENCE_S)) as store:
        if store.address.path is not None and not store.address.path.exists():
            return []
        with store.read() as session:
            return list(session.scalars(select(ApplicationRow.name).order_by(ApplicationRow.name)))
