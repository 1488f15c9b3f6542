"""The command line: arguments in, one command run, an exit code out; what a command needs is imported when it runs."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import click

from scaler.model.errors import BadInput, Retry

REFUSED = 2
INTERRUPTED = 130


class Entry(NamedTuple):
    """Where a command lives, and its line in the overview, so that `tuner --help` imports none of them."""

    where: str
    summary: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("tuner.cli.demo_command:demo", "Replay a small bundled example, then tune it."),
    "simulate": Entry(
        "tuner.cli.simulate_command:simulate", "Replay a trace under one or more policies and compare them."
    ),
    "compare": Entry("tuner.cli.compare_command:compare", "Compare policies over many settings, against the floor."),
    "reproduce": Entry("tuner.cli.reproduce_command:reproduce", "Compute the published tables again."),
    "ingest": Entry(
        "tuner.cli.ingest_command:ingest", "Read what a stream's monitoring left: samples, moments, traces."
    ),
    "samples": Entry("tuner.cli.samples_command:samples", "List what each operator did, window by window."),
    "trace": Entry("tuner.cli.trace_commands:trace", "Export or plot the arrivals of an application."),
    "surrogate": Entry(
        "tuner.cli.surrogate_commands:surrogate", "Fit an application's model, and say whether to trust it."
    ),
    "app": Entry(
        "tuner.cli.app_commands:app", "Describe an application: its operators, its trace, what is demanded of it."
    ),
    "tune": Entry("tuner.cli.tune_command:tune", "Search an application's latency bounds and weights."),
    "trials": Entry("tuner.cli.trials_command:trials", "List what searches tried."),
    "trial": Entry("tuner.cli.trial_command:trial", "Show one trial in full."),
    "report": Entry("tuner.cli.report_command:report", "Say what a search found, as a page if wanted."),
    "compare-engines": Entry(
        "tuner.cli.compare_engines_command:compare_engines", "Hold the engines against each other."
    ),
    "push": Entry("tuner.cli.push_commands:push", "Let an objective that was found into use, stage by stage."),
    "roll-back": Entry("tuner.cli.push_commands:roll_back", "Take an objective back for the one before it."),
    "orders": Entry("tuner.cli.push_commands:orders", "Print what the scalers of an application are told."),
    "serve": Entry("tuner.cli.serve_command:serve", "Serve scalers and people: the API, the page, the retuning."),
    "daemon": Entry("tuner.cli.daemon_command:daemon", "Retune applications in the background, without the service."),
    "explain": Entry("tuner.cli.explain_command:explain", "Say why an application was scaled at a time, or not."),
    "token": Entry("tuner.cli.token_commands:token", "Make and revoke what scalers and people show to be let in."),
    "dashboards": Entry(
        "tuner.cli.dashboards_command:dashboards", "Write a Grafana dashboard and alert rules to a folder."
    ),
    "live": Entry(
        "tuner.cli.live_commands:live", "Watch scalers at work: a demo on a real cluster, or an application's."
    ),
    "db": Entry("tuner.cli.db_commands:db", "Look after the database of samples, trials and decisions."),
    "completion": Entry("tuner.cli.completion:completion", "Print what makes a shell complete these commands."),
}


class Refusal(click.ClickException):
    """Bad input, as click shows it."""

    exit_code = REFUSED


class LazyGroup(click.Group):
    """Click's own way to load commands late, and the one place where an error becomes a sentence and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click hands it over
        return [name for name, entry in COMMANDS.items() if is_there(entry)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None or not is_there(entry):
            return None
        module, _, attribute = entry.where.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BadInput as error:
            raise Refusal(str(error)) from error
        except Retry as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            echoed = "\n" if sys.stderr.isatty() else ""  # the terminal's own ^C stands on the line
            click.echo(f"{echoed}Interrupted.", err=True)
            ctx.exit(INTERRUPTED)


def is_there(entry: Entry) -> bool:
    """Whether the command is part of this installation."""
    return find_spec(entry.where.partition(":")[0]) is not None


def show_version(ctx: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked or ctx.resilient_parsing:
        return
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("stream-scaler")
    except PackageNotFoundError:
        number = "(run from its sources, not installed)"
    click.echo(f"tuner {number}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  tuner demo\n  tuner simulate --policy threshold-c --policy ql-pds-plus --html report.html",
)
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Show the version."
)
def main() -> None:
    """Auto-scaling for Spark Structured Streaming: simulate, tune and watch the scalers of a stream."""
