"""`tuner completion`: a script that makes a shell complete commands, options and names of applications."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    epilog="\b\nExamples:\n"
    '  eval "$(tuner completion bash)"        # in ~/.bashrc\n'
    '  eval "$(tuner completion zsh)"         # in ~/.zshrc\n'
    "  tuner completion fish > ~/.config/fish/completions/tuner.fish"
)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes a shell complete commands."""
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(ctx.find_root().command, {}, "tuner", "_TUNER_COMPLETE").source())
