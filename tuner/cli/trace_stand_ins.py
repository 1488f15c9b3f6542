"""`tuner lab traces`: stand-ins for the traces of the papers, which are not ours to hand on."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from scaler.model.errors import BadInput
from scaler.model.files import make_folder
from sim.arrivals import generate
from sim.trace_file import write_trace

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
STAND_INS = {  # lowest and highest rate, slots: those that the published tables use
    "taxi.txt.gz": (30.0, 600.0, 400_001),
    "tweets.txt.gz": (1_500.0, 8_500.0, 80_000),
    "taxi_history.txt.gz": (30.0, 600.0, 44_000),  # the month before, with which dynamic programming plans
}


@click.command(epilog="\b\nExample:\n  tuner lab traces traces && tuner lab reproduce table2 --traces traces")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
def traces(folder: Path, seed: int) -> None:
    """Write stand-ins for the traces of the papers to FOLDER.

    The papers' traces, taxi.txt.gz, tweets.txt.gz and taxi_history.txt.gz, are not part of this package. Daily and
    weekly patterns of the same length and range stand in for them: commands run, and their figures are not those
    published.
    """
    there = [folder / name for name in STAND_INS if (folder / name).exists()]
    if there:
        raise BadInput(f"{there[0]} is there already; name another folder")
    make_folder(folder)
    for i, (name, (low, high, slots)) in enumerate(STAND_INS.items()):
        made = generate("diurnal", low=low, high=high, slots=slots, seed=seed + i, start=START)
        write_trace(made, folder / name)
        click.echo(f"{folder / name}: {slots:,} slots, made up")
