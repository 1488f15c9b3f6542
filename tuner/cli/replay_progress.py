"""A scenario in, its replays compared out, with a bar while they run and a report if one is asked for."""

from __future__ import annotations

from pathlib import Path

import click

from scaler.model.files import check_place, write_whole
from tuner.cli.interruptible import run_interruptibly
from tuner.cli.progress_bar import show_progress
from tuner.scenario.scenario import Scenario
from tuner.simulation.comparison import Comparison, compare
from tuner.simulation.runner import list_jobs, run_jobs
from tuner.views.html_page import choose_columns, write_page


def replay_scenario(scenario: Scenario, html: Path | None, bound: bool | None = None) -> Comparison:
    """Every policy with every seed, and the floor if asked for."""
    if html is not None:
        check_place(html)
    jobs = list_jobs(scenario, 0 if html is None else choose_columns(scenario))
    with show_progress(sum(job.setting.trace.rates.size for job in jobs)) as on_slots:
        replays = run_interruptibly(lambda: run_jobs(jobs, on_slots))
        comparison = run_interruptibly(lambda: compare(scenario, [replay.run for replay in replays], bound))
    if html is not None:
        write_whole(html, write_page(comparison, [replay.course for replay in replays if replay.course is not None]))
        click.echo(f"The report is in {html}.", err=True)
    return comparison
