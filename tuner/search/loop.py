"""A question, an exam and what is known so far in; suggestions and their results, batch after batch, out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tuner.search.engines import Ask, Question, Suggestion
from tuner.search.evaluation import Exam, Result
from tuner.search.space.evaluated import Outcome, meets
from tuner.search.space.parameters import Parameters

Spread = Callable[[Exam, Sequence[Parameters], float], Iterator[Result]]  # results in the order of the parameters


@dataclass(frozen=True, slots=True)
class Tried:
    """One step of a search; `number` counts the search's own from 0."""

    number: int
    suggestion: Suggestion
    result: Result

    @property
    def outcome(self) -> Outcome:
        return replace(self.result.outcome, note=self.suggestion.note)


def search(
    ask: Ask,
    question: Question,
    exam: Exam,
    spread: Spread,
    seed: int,
    batch: int = 1,
    earlier: Sequence[Outcome] = (),
    done: Sequence[Outcome] = (),
    in_time: Callable[[], bool] = lambda: True,
) -> Iterator[Tried]:
    """Go on after `done`, the outcomes of this search so far, until the budget, the time or the engine is exhausted.

    Batches begin at multiples of their size: a search that was interrupted within one asks for the same again, and
    leaves out what it has.
    """
    own = list(done)
    while len(own) < question.budget and in_time():
        first = len(own) // batch * batch
        count = min(batch, question.budget - first)
        suggestions = ask(question, [*earlier, *own[:first]], seed, count)
        todo = suggestions[len(own) - first :]
        if not todo:
            return
        ceiling = find_ceiling(own[:first], question)
        results = spread(exam, [suggestion.parameters for suggestion in todo], ceiling)
        for suggestion, result in zip(todo, results, strict=True):
            tried = Tried(len(own), suggestion, result)
            own.append(tried.outcome)
            yield tried


def find_ceiling(own: Sequence[Outcome], question: Question) -> float:
    """The cost of the best feasible outcome so far."""
    return min((o.cost for o in own if o.whole and meets(o, question.qos)), default=math.inf)
