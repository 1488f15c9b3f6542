"""`tuner lab compare`: benchmark policies over many settings, against the floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from tuner.cli.interruption import run_interruptibly
from tuner.cli.options import file_type, html_option, json_option, option_option, print_result
from tuner.cli.progress import show_share
from tuner.cli.reproduce_command import TRACES
from tuner.lab.benchmark_report import describe_benchmark, explain_errors, list_rows, list_summaries, write_benchmark
from tuner.lab.plan import read_plan
from tuner.lab.policy_benchmark import BenchmarkResult, run_benchmark
from tuner.lab.published.tables import plan_published
from tuner.lab.shifts import SHIFTS
from tuner.views.grid import print_columns, print_lines
from tuner.views.words import Column

UNSET: tuple[Any, ...] = (None, (), {})  # of flags, which are keys of a plan
EXAMPLE = """\
policies = ["threshold-c", "ql-pds-plus"]
seeds = 3                                # or a list of them
infrastructures = ["A", "B"]             # names or .toml files
n_res = [3, 6]                           # left out: as in a scenario
k_max = [10, 20]                         # left out: the application's own
r_max = 0.05
weights = { perf = 0.6, rcf = 0.2, res = 0.2 }

[[workload]]
name = "office hours"
trace = { generator = "diurnal", low = 50.0, high = 600.0 }
application = { service_rate = 180.0 }   # left out: every [[application]] of the plan
"""
EPILOG = (
    "\b\nExamples:\n"
    "  tuner lab compare --published --policy threshold-c --policy ql-pds-plus --seeds 10 --html benchmark.html\n"
    "  tuner lab compare --published --n-res 3 --k-max 10 --shift rate-doubles --json\n"
    "  tuner lab compare plan.toml\n\n"
    "\b\nA plan crosses its lists; all but [[workload]] may be left out:\n"
    + "".join(f"  {line}\n" for line in EXAMPLE.splitlines() if line)
)


@click.command(epilog=EPILOG)
@click.argument("plan", required=False, type=file_type)
@click.option("--published", is_flag=True, help="Compare over the 24 settings of Tables 2 to 5, instead of a plan.")
@click.option("--traces", type=file_type, help=f"Folder with taxi.txt.gz and tweets.txt.gz (default {TRACES}).")
@click.option(
    "--policy",
    "policies",
    metavar="NAME",
    multiple=True,
    help="Name of a policy; repeat it to compare several (default: the plan's; a wrong name lists all).",
)
@option_option
@click.option("--seeds", type=int, help="Number of random seeds, 0 to N - 1 (default: the plan's, else 1).")
@click.option(
    "--n-res", type=int, multiple=True, help="Number of node types; repeat it for several (default: the plan's)."
)
@click.option(
    "--k-max", type=int, multiple=True, help="Largest number of replicas; repeat it for several (default: the plan's)."
)
@click.option(
    "--shift",
    type=click.Choice(list(SHIFTS)),
    help="Shift of the world half-way; the slots from 2,000 later on are reported too. A type disappears by a "
    "thousandfold price; a doubled service time is hidden from policies.",
)
@json_option
@html_option
def compare(
    plan: Path | None,
    published: bool,
    traces: Path | None,
    shift: str | None,
    as_json: bool,
    html: Path | None,
    **flags: Any,
) -> None:
    """Compare policies over many settings, against the floor.

    Give a PLAN file or --published. The floor is the least cost of a slot with the whole trace known beforehand: exact,
    or a lower bound of it where node types are many, as the table says. Computing it takes up to minutes; it is cached
    on disk. Several operators have one where slots stand alone. With --published, policies start from a service model
    that is perturbed on purpose, as in the paper.
    """
    if published == (plan is not None):
        said = "both say" if published else "neither says"
        raise BadInput(f"a plan and --published: {said} what to compare; give one of them")
    if traces is not None and not published:
        raise BadInput("--traces says where the traces of --published are; give it with that")
    given = {key: list(flag) if isinstance(flag, tuple) else flag for key, flag in flags.items() if flag not in UNSET}
    stated = plan_published(traces or TRACES, given, shift) if plan is None else read_plan(plan, given, shift)
    with show_share() as on_share:
        result = run_interruptibly(lambda: run_benchmark(stated, on_share))
    if html is not None:
        write_whole(html, write_benchmark(result))
        click.echo(f"The page is in {html}.", err=True)
    print_result(result, as_json, describe_benchmark, print_benchmark)


def print_benchmark(result: BenchmarkResult) -> None:
    """A line per setting and policy, then a line per policy."""
    workload = Column("workload", tuple(row.cell.group for row in result.rows), "")
    print_columns([workload, *list_rows(result, result.rows)], left=3, texts=("floor",))
    click.echo()
    print_columns(list_summaries(result))
    print_lines(explain_errors(result))
