"""Run `tuner` in this process; check how it ends and what it prints."""

from __future__ import annotations

from click.testing import CliRunner, Result

from scaler.model.errors import BadInput
from tuner.cli import main


def run(*arguments: object, env: dict[str, str | None] | None = None) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)), env=env)


def run_or_raise(*arguments: object, env: dict[str, str | None] | None = None) -> Result:
    """As `run`, but an unexpected exception is raised, and a refused input as the BadInput that it shows."""
    result = run(*arguments, env=env)
    if result.exit_code == 2 and result.stderr.startswith("Error: "):
        raise BadInput(result.stderr.removeprefix("Error: ").rstrip())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


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
