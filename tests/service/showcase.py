"""Fill a database with three applications and their past, for the page's tests and pictures.

`clicks` was tuned, and its third objective is a canary; `payments` had a tuned objective that made it answer late and
was rolled back by itself; `fraud scores` misses its QoS, and one of its agents is silent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scaler.model.task import Weights
from tests.service.made_decisions import CLICKS, DAY, FRAUD, HOUR, NOW, PAYMENTS, Graph, decide, sample
from tests.test_tuning_report import Search
from tuner.rollout.objective_model import model_by_hand
from tuner.store.applications import add_application, save_surrogate
from tuner.store.audit_log import add_event
from tuner.store.connection import Store
from tuner.store.decisions import save_decisions
from tuner.store.objectives import add_objective
from tuner.store.orders import save_scalers, set_control
from tuner.store.records import Control, EventRecord, ObjectiveRecord, Scaler, SurrogateRecord, Token
from tuner.store.runs import end_run, save_retuning, start_run
from tuner.store.samples import save_samples
from tuner.store.tokens import add_token
from tuner.store.trials import add_trial

WHY = "Violations rose from 2.1 % to 11.4 % of 180 slots under objective 2, and 5 % are allowed."
STANDING = {
    **{"cost": 7.9, "cost_error": 0.04, "violations": 0.031, "reconfigurations": 0.062, "confidence": 0.975},
    "baseline": {"cost": 10.0, "violations": 0.06},
    "shadow": {"slots": 720, "price": 8.1, "violations": 0.029},
    "canary": {"slots": 720, "price": 8.0, "violations": 0.03},
}
CANDIDATE = {
    **{"cost": 7.4, "cost_error": 0.05, "violations": 0.036, "confidence": 0.96},
    "baseline": {"cost": 7.9, "violations": 0.031},
    "shadow": {"slots": 90, "price": 7.5, "violations": 0.03},
    "canary": {"since": NOW - 5 * HOUR, "who": "the daemon", "operators": ["parse"], "share": 0.5},
}
REVERTED = {
    **{"cost": 3.1, "cost_error": 0.02, "violations": 0.04, "confidence": 0.97},
    "baseline": {"cost": 4.4, "violations": 0.021},
    "shadow": {"since": NOW - 8 * HOUR, "ended": NOW - 6 * HOUR, "slots": 120, "price": 3.2, "violations": 0.04},
    "canary": {"since": NOW - 6 * HOUR, "who": "the daemon", "operators": ["book"], "share": 1.0},
    "reverted": {
        **{"why": WHY, "when": NOW - 3 * HOUR, "who": "the daemon"},
        "figures": {"violations": 0.114, "slots": 180},
    },
}
SAMPLED_SLOTS = 1440  # of the largest application, at most
MODELS: dict[str, Any] = {}  # of the applications


def furnish(store: Store, decisions: int = 3000) -> None:
    """Everything, with so many decisions in the largest application."""
    with store.begin() as session:
        for name, graph in (("clicks", CLICKS), ("payments", PAYMENTS), ("fraud scores", FRAUD)):
            add_application(session, name, graph.describe(name), NOW - 30 * DAY)
            MODELS[name] = model_by_hand(session, name).to_json()
            save_retuning(session, name, {"period_s": 7 * DAY, "budget": 60}, NOW + DAY)
            tell(
                session,
                name,
                -30 * DAY,
                "ana",
                "registered",
                f"{name} was registered with {len(graph.rates)} operators.",
            )
        ends = NOW + 60 * DAY
        add_token(session, Token("agents", "0" * 64, "report", "ana", NOW - 30 * DAY, ends, used=NOW - 60.0))
    tell_clicks(store, decisions)
    tell_payments(store)
    tell_fraud(store)


def tell_clicks(store: Store, decisions: int) -> None:
    slots = decisions // len(CLICKS.rates)
    versions = [(-math.inf, 1), (-6 * DAY, 2), (-5 * HOUR, 3)]
    with store.begin() as session:
        trial = search(session, "clicks", CLICKS, NOW - 6.2 * DAY)
        again = search(session, "clicks", CLICKS, NOW - 7 * HOUR, seed=2)
        pursue(session, "clicks", CLICKS, "retired", -29 * DAY, "by hand: equal shares")
        pursue(session, "clicks", CLICKS, "full", -6.1 * DAY, f"trial {trial} of run 1", trial, STANDING)
        pursue(session, "clicks", CLICKS, "canary", -5 * HOUR, f"trial {again} of run 2", again, CANDIDATE)
        fit(session, "clicks", "pass", 0.041)
        hear(session, "clicks", CLICKS, silent=())
        say = "Objective 2 costs 7.90 per hour where objective 1 cost 10.00; both limits are kept (97.5 % sure)."
        tell(session, "clicks", -6.1 * DAY, "daemon", "pushed", say, {"version": 2, "stage": "shadow"})
        say = "Objective 2 leads every operator: 720 slots as a canary had 3 % violations and cost 8.00 per hour."
        tell(session, "clicks", -6 * DAY, "daemon", "pushed", say, {"version": 2, "stage": "full"})
        tell(
            session,
            "clicks",
            -7 * HOUR,
            "daemon",
            "drift",
            "The arrival rate's distribution moved: distance 0.21, allowed 0.1.",
        )
        tell(session, "clicks", -6.9 * HOUR, "daemon", "tuning started", "Run 2 began with 60 evaluations.", {"run": 2})
        say = "Objective 3 leads operator parse for half of every hour."
        tell(session, "clicks", -5 * HOUR, "daemon", "pushed", say, {"version": 3, "stage": "canary"})
        control = Control(
            "clicks", "join", "pin", {}, "ben", NOW - 2 * HOUR, "the sink is being migrated", NOW + 4 * HOUR
        )
        set_control(session, control)
        tell(
            session,
            "clicks",
            -2 * HOUR,
            "ben",
            "control set",
            "join is pinned until 18:20: the sink is being migrated.",
            {"kind": "pin", "operator": "join", "settings": {}, "until": NOW + 4 * HOUR},
        )
    with store.begin() as session:
        save_decisions(session, decide("clicks", CLICKS, slots, versions, shadow=3))
        save_samples(session, sample("clicks", CLICKS, min(slots, SAMPLED_SLOTS), quiet=(-9 * HOUR, -8 * HOUR)))


def tell_payments(store: Store) -> None:
    with store.begin() as session:
        trial = search(session, "payments", PAYMENTS, NOW - 9 * HOUR)
        pursue(session, "payments", PAYMENTS, "full", -20 * DAY, "by hand: equal shares")
        pursue(session, "payments", PAYMENTS, "reverted", -6 * HOUR, f"trial {trial} of run 3", trial, REVERTED)
        fit(session, "payments", "warn", 0.28)
        hear(session, "payments", PAYMENTS, silent=())
        tell(session, "payments", -6 * HOUR, "daemon", "pushed", "Objective 2 leads operator book as a canary.",
             {"version": 2, "stage": "canary"})  # fmt: skip
        tell(
            session,
            "payments",
            -3 * HOUR,
            "daemon",
            "rolled back",
            WHY,
            {"version": 2, "figures": {"violations": 0.114}},
        )
    with store.begin() as session:
        versions = [(-math.inf, 1), (-6 * HOUR, 2), (-3 * HOUR, 1)]
        save_decisions(session, decide("payments", PAYMENTS, 1000, versions, late=(-6 * HOUR, -3 * HOUR)))


def tell_fraud(store: Store) -> None:
    with store.begin() as session:
        pursue(session, "fraud scores", FRAUD, "full", -12 * DAY, "by hand: equal shares")
        fit(session, "fraud scores", "fail", 0.62)
        hear(session, "fraud scores", FRAUD, silent=("score",))
        tell(
            session,
            "fraud scores",
            -HOUR,
            "daemon",
            "not tuned",
            "The surrogate predicts response times 62 % off, so nothing was tuned.",
        )
        tell(
            session,
            "fraud scores",
            -0.5 * HOUR,
            "daemon",
            "scaler silent",
            "The agent of score has not reported for 30 min.",
        )
    with store.begin() as session:
        save_decisions(session, decide("fraud scores", FRAUD, 700, [(-math.inf, 1)], late=(-5 * HOUR, 0.0)))


def search(session: Any, app: str, graph: Graph, began: float, seed: int = 1) -> int:
    """A run with sixty trials and a verification; the id of the trial that it recommends."""
    made = Search({**graph.describe(app)["application"], "name": app}, seed=seed)
    version = add_application(session, app, graph.describe(app), began)
    assert version.id is not None
    run = start_run(session, replace(made.run, application_version_id=version.id, id=None, created=began), "me", began)
    assert run.id is not None
    moved = [
        replace(t, run_id=run.id, id=None, started=began + 50.0 * t.number, ended=began + 50.0 * t.number + 48.0)
        for t in made.make()
    ]
    kept = [add_trial(session, run, trial, began) for trial in moved]
    again, objective = made.propose(kept)
    add_trial(session, run, replace(again, id=None), began)
    end_run(session, run, "done", began + HOUR)
    assert objective.trial_id is not None
    return objective.trial_id


def pursue(
    session: Any, app: str, graph: Graph, state: str, since: float, provenance: str, trial: int | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    bounds = dict.fromkeys(graph.rates, graph.share())
    weights = Weights(0.6, 0.2, 0.2) if trial is None else Weights(0.5, 0.15, 0.35)
    add_objective(
        session,
        ObjectiveRecord(
            app,
            weights,
            bounds,
            NOW + since,
            state,
            provenance,
            trial,
            evidence={**(evidence or {}), "model": MODELS[app]},
        ),
    )


def fit(session: Any, app: str, health: str, error: float) -> None:
    document = {"format": 1, "health": health}
    save_surrogate(
        session, SurrogateRecord(app, document, NOW - 8 * DAY, NOW - HOUR, 10_000, health, NOW - HOUR, error)
    )


def hear(session: Any, app: str, graph: Graph, silent: tuple[str, ...]) -> None:
    seen = {name: NOW - (1800.0 if name in silent else 20.0) for name in graph.rates}
    save_scalers(session, [Scaler(app, name, f"driver-{name}", NOW - 9 * DAY, at, 1, at) for name, at in seen.items()])


def tell(
    session: Any, app: str, ago: float, who: str, what: str, says: str, detail: Mapping[str, Any] | None = None
) -> None:
    add_event(session, EventRecord(app, NOW + ago, who, what, says, detail or {}))
