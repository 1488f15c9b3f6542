"""The engines by name: each file has one `ask`, a pure function of what is searched, the history and a seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from scaler.model.registry import load_named
from tuner.scenario.layout import QoS
from tuner.search.space.space import History, Parameters, SearchSpace


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """What an engine searches: the space, and what is demanded; `budget` evaluations in all."""

    space: SearchSpace
    qos: QoS
    budget: int
    tighter: QoS | None = None  # limits that leave room for other days (search_target.py)

    @property
    def target(self) -> QoS:
        """The limits to search within."""
        return self.tighter or self.qos


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What to try next; the note is kept with the trial, and is the only memory that an engine has."""

    parameters: Parameters
    note: Mapping[str, Any] = field(default_factory=dict)  # of plain numbers, texts and lists


class Engine(Protocol):
    """Suggest `count` things to try next, fewer or none where the engine has done all that it does."""

    def __call__(self, problem: SearchProblem, history: History, seed: int, count: int = 1) -> list[Suggestion]: ...


ENGINES = {  # where each lives below this folder, so that none is imported that is not used
    "gp": "gp:suggest",  # Gaussian processes of cost and constraints (GPyTorch), jointly
    "skopt": "skopt:suggest",  # the paper's Algorithm 4, on scikit-optimize
    "optuna": "optuna_samplers:suggest_tpe",  # Optuna's tree-structured Parzen estimators
    "optuna-cmaes": "optuna_samplers:suggest_cmaes",  # Optuna's evolution strategy
    "optuna-gp": "optuna_samplers:suggest_gp",  # Optuna's Gaussian processes
    "random": "sobol:suggest",  # a Sobol sequence
    "naive": "naive:suggest",  # the paper's Algorithm 5: equal shares and weights, once
}


def find_engine(name: str) -> Engine:
    ask: Engine = load_named("engine", ENGINES, name, __name__)
    return ask
