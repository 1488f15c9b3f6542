"""Arguments of `tuner` in; what it prints, and what it says when it refuses, out."""

from __future__ import annotations

from click.testing import CliRunner, Result

from tuner.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def succeed(*arguments: object) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def refuse(*arguments: object) -> str:
    """The one sentence, with nothing else printed."""
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), (result.output, result.exception)
    assert result.stderr.count("\n") == 1
    return result.stderr.removeprefix("Error: ").rstrip()
