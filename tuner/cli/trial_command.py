"""`tuner trial`: a trial's number in; all that was kept of it, or the scenario that replays it, out."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from tuner.cli.db_commands import store_option


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner trial 17\n"
    "  tuner trial 17 --json | jq .detail.note\n"
    "  tuner trial 17 --toml trial.toml && tuner simulate trial.toml"
)
@click.argument("number", type=click.IntRange(1))
@click.option("--toml", type=click.Path(path_type=Path), help="Write the scenario that replays it to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@store_option
def trial(number: int, toml: Path | None, as_json: bool, address: str | None) -> None:
    """Show trial NUMBER (the id that `tuner trials` lists): its parameters, its figures, and how to replay it."""
    from tuner.store.connection import open_store

    with closing(open_store(address)) as store, store.read() as session:
        known = gather(session, number)
    if toml is not None:
        write_scenario(known, toml)
    if as_json:
        from tuner.cli.trials_command import describe
        from tuner.views.plain import tame

        run = {"engine": known["run"].engine, "seed": known["run"].seed, "settings": known["run"].settings}
        document = {**describe(known["trial"]), "application": known["application"], "run": run}
        click.echo(json.dumps(tame(document), indent=2, allow_nan=False))
    else:
        from tuner.cli.trial_table import print_trial

        print_trial(known)


def gather(session: Any, number: int) -> dict[str, Any]:
    """The trial, its run, and the application's version that this searched for."""
    from tuner.store.applications import load_version
    from tuner.store.runs import load_run
    from tuner.store.trials import load_trial

    found = load_trial(session, number)
    run = load_run(session, found.run_id)
    version = load_version(session, run.application_version_id)
    return {
        "trial": found,
        "run": run,
        "application": version.application,
        "version": version.number,
        "described": version.document,
    }


def write_scenario(known: dict[str, Any], path: Path) -> None:
    from scaler.model.files import check_place, write_whole
    from tuner.scenario.toml_table import format_document
    from tuner.search.trial_replay import restate

    check_place(path)
    found = known["trial"]
    head = f"# Trial {found.number} of run {found.run_id} of {known['application']}; `tuner simulate` replays it."
    write_whole(path, f"{head}\n\n" + format_document(restate(found, known["run"], known["described"])))
