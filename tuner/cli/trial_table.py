"""Print one trial: its parameters, figures, replicas and how to replay it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from scaler.model.units import format_fixed, format_flag, format_milliseconds, format_moment, format_number
from tuner.cli.grid import print_grid
from tuner.store.records import Trial, TuningRun


def print_trial(known: Mapping[str, Any]) -> None:
    trial, run = known["trial"], known["run"]
    demanded = run.settings.get("qos", {})
    click.echo(describe_place(trial, run, known))
    if trial.failure:
        click.echo(f"It failed: {trial.failure}")
    print_parameters(trial, demanded.get("r_max"))
    print_figures(trial, demanded)
    print_replicas(trial)
    click.echo(describe_replay(trial, run))
    click.echo(f"Replay it: tuner trial {trial.id} --toml trial.toml && tuner simulate trial.toml")


def describe_place(trial: Trial, run: TuningRun, known: Mapping[str, Any]) -> str:
    purpose = trial.detail.get("purpose", "search")
    of = f" of number {trial.detail['of']}" if trial.detail.get("of") is not None else ""
    surrogate = "the described service times" if trial.surrogate_id is None else f"surrogate id {trial.surrogate_id}"
    ended = f"ended {format_moment(trial.ended)} after {format_number(trial.seconds, 3)} s of work"
    return (
        f"Trial {trial.id}: number {trial.number} of run {trial.run_id} ({run.engine}, seed {run.seed}) of "
        f"{known['application']}, version {known['version']}, on {surrogate}.\n"
        f"{trial.state}, for {purpose}{of}, {ended}."
    )


def print_parameters(trial: Trial, r_max: float | None) -> None:
    """By operator, in the order of its path; weights below."""
    shares, weights = trial.parameters.get("shares"), trial.parameters.get("weights")
    click.echo()
    if shares is None or weights is None:
        click.echo(f"Parameters: {dict(trial.parameters)}")
        return
    rows = [
        [name, f"{share:.4f}", "-" if r_max is None else format_milliseconds(share * r_max)]
        for name, share in shares.items()
    ]
    print_grid(("operator", "share of R_max", "bound ms"), rows)
    click.echo("weights: " + ", ".join(f"{name} {weight:.4f}" for name, weight in weights.items()))


def print_figures(trial: Trial, demanded: Mapping[str, Any]) -> None:
    """Each with its standard error, against what is allowed."""
    rows = [["price/h", format_fixed(trial.price), format_fixed(trial.price_error), "-"]]
    for name, limit in (("violations", demanded.get("eta_v")), ("reconfigurations", demanded.get("eta_r"))):
        figures = (getattr(trial, name), getattr(trial, f"{name}_error"), limit)
        rows.append([f"{name} %", *(format_fixed(None if x is None else 100.0 * x) for x in figures)])
    click.echo()
    print_grid(("figure", "mean", "±", "at most"), rows)
    click.echo(f"feasible: {format_flag(trial.feasible)}, slack {format_fixed(trial.slack)}")


def print_replicas(trial: Trial) -> None:
    """On average over the slots."""
    replicas = trial.detail.get("replicas")
    if not replicas:
        return
    types = dict.fromkeys(name for held in replicas.values() for name in held)
    rows = [[operator, *(format_fixed(held.get(name)) for name in types)] for operator, held in replicas.items()]
    click.echo()
    print_grid(("mean replicas", *types), rows)


def describe_replay(trial: Trial, run: TuningRun) -> str:
    seeds = trial.detail.get("seeds") or run.settings.get("seeds") or [trial.seed]
    policy = trial.detail.get("policy") or run.settings.get("policy") or "its policy"
    slots = "-" if trial.slots is None else f"{trial.slots:,}"
    saved = trial.detail.get("slots_saved")
    told = f"\nReplayed {slots} slots under {policy} with {'seed' if len(seeds) == 1 else 'seeds'} "
    told += ", ".join(map(str, seeds)) + (f"; {saved:,} slots saved" if saved else "") + "."
    held_out = trial.detail.get("held_out")
    if held_out:
        figures = ", ".join(
            f"{name} {format_number(value)}" for name, value in held_out.items() if isinstance(value, float)
        )
        told += f"\nOn the part of the trace that was held out: {figures}."
    return told
