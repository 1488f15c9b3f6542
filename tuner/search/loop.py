"""Suggest and evaluate, batch after batch, until the budget, the time or the engine is exhausted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tuner.search.engines import Engine, SearchProblem, Suggestion
from tuner.search.evaluation import Evaluation, EvaluationSpec
from tuner.search.space.evaluated import EvaluationOutcome, meets
from tuner.search.space.parameters import Parameters

EvaluateAll = Callable[
    [EvaluationSpec, Sequence[Parameters], float], Iterator[Evaluation]
]  # results in the order of the parameters


@dataclass(frozen=True, slots=True)
class EvaluatedSuggestion:
    """One step of a search; `number` counts the search's own from 0."""

    number: int
    suggestion: Suggestion
    result: Evaluation

    @property
    def outcome(self) -> EvaluationOutcome:
        return replace(self.result.outcome, note=self.suggestion.note)


def search(
    ask: Engine,
    problem: SearchProblem,
    spec: EvaluationSpec,
    spread: EvaluateAll,
    seed: int,
    batch: int = 1,
    earlier: Sequence[EvaluationOutcome] = (),
    done: Sequence[EvaluationOutcome] = (),
    in_time: Callable[[], bool] = lambda: True,
) -> Iterator[EvaluatedSuggestion]:
    """Go on after `done`, the outcomes of this search so far, until the budget, the time or the engine is exhausted.

    Batches begin at multiples of their size: a search that was interrupted within one asks for the same again, and
    leaves out what it has.
    """
    own = list(done)
    while len(own) < problem.budget and in_time():
        first = len(own) // batch * batch
        count = min(batch, problem.budget - first)
        suggestions = ask(problem, [*earlier, *own[:first]], seed, count)
        todo = suggestions[len(own) - first :]
        if not todo:
            return
        ceiling = find_ceiling(own[:first], problem)
        results = spread(spec, [suggestion.parameters for suggestion in todo], ceiling)
        for suggestion, result in zip(todo, results, strict=True):
            tried = EvaluatedSuggestion(len(own), suggestion, result)
            own.append(tried.outcome)
            yield tried


def find_ceiling(own: Sequence[EvaluationOutcome], problem: SearchProblem) -> float:
    """The cost of the best feasible outcome so far."""
    return min((o.price for o in own if o.whole and meets(o, problem.qos)), default=math.inf)
