"""`tuner dashboards`: a folder in; a dashboard for Grafana and alert rules for Prometheus in it out."""

from __future__ import annotations

import os
from pathlib import Path

import click

from scaler.model.errors import BadInput

SHIPPED = {
    "grafana.json": "import it in Grafana: Dashboards, New, Import",
    "alerts.yml": "name it in prometheus.yml under rule_files",
}


@click.command(
    epilog="\b\nExamples:\n"
    "  tuner dashboards /etc/stream-scaler\n"
    "  tuner dashboards . --force        # over those of an earlier version"
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Write over files that are there.")
def dashboards(folder: Path, force: bool) -> None:
    """Write a Grafana dashboard and Prometheus alert rules into FOLDER, which is made where it is not there.

    Both are of what `tuner serve` tells at /metrics. Prometheus needs a token of scope read for it
    (`authorization: credentials_file:` in its scrape_configs).
    """
    from importlib.resources import files

    from scaler.model.files import check_place, write_whole

    make_folder(folder)
    places = {name: folder / name for name in SHIPPED}
    for path in places.values():
        if not force and os.path.lexists(path):
            raise BadInput(f"{path} is there already; name another folder, or write over it with --force")
        check_place(path)
    for name, path in places.items():
        write_whole(path, files("tuner.service.ship").joinpath(name).read_text(encoding="utf-8"))
        click.echo(f"{path}: {SHIPPED[name]}.")


def make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"there can be no folder {folder} ({error.strerror}); name another one") from error
