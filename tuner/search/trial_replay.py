"""Write the scenario that replays a trial, as the tables of a scenario file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.errors import BadInput
from scaler.policies import find_policy
from tuner.scenario.description import tables_of, thaw
from tuner.scenario.scenario import Document, lay_over
from tuner.store.records import Trial, TuningRun


def restate(trial: Trial, run: TuningRun, described: Mapping[str, Any]) -> Document:
    """What the run was asked, with the trial's bounds, weights, policy and seeds; `described` where it says nothing."""
    document = run.settings.get("document") or described
    if "shares" not in trial.parameters or "weights" not in trial.parameters:
        raise BadInput(f"trial {trial.id} has no shares and weights to replay; it is of an older program")
    tables = tables_of(document)
    qos = {key: value for key, value in {**tables["qos"], **run.settings.get("qos", {})}.items() if value != {}}
    bounds = {name: share * qos["r_max"] for name, share in trial.parameters["shares"].items()}
    stated = lay_over(
        thaw(document),
        {
            "qos": {**qos, "bounds": bounds},
            "weights": dict(trial.parameters["weights"]),
            "run": {"seeds": list(seeds_of(trial, run))},
        },
    )
    return {**stated, "policy": choose_policy(trial, run, tables["policy"])}


def seeds_of(trial: Trial, run: TuningRun) -> list[int]:
    found: list[int] = trial.detail.get("seeds") or run.settings.get("seeds") or [trial.seed]
    return found


def choose_policy(trial: Trial, run: TuningRun, stated: Mapping[str, Any]) -> dict[str, Any]:
    """The one policy that was replayed, with those of the stated options that are its own."""
    first = stated.get("name") or stated["names"][0]
    name = trial.detail.get("policy") or run.settings.get("policy") or first
    known = find_policy(name).options
    options = {key: value for key, value in stated.get("options", {}).items() if key in known}
    return {"name": name, **({"options": options} if options else {})}
