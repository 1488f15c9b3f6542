"""Any policy behind guards: it proposes, they allow or block, it learns from what was really done.

`decide` and `verdict` change nothing. What guards remember (changes made, how long a wish has lasted) and the record of
decisions move on in `learn`: only then is it known what was done about a decision, and asking twice, or for a page that
explains, costs no budget. So `learn` asks the inner policy once more what it proposes about the slot that is over. That
is what it did propose, for it is still in the state that it decided in, and deciding is pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scaler.guards.change_history import History, enter
from scaler.guards.decision import Decision, Judgement, Outcome, conclude
from scaler.guards.guard import Guard
from scaler.model.errors import BadInput
from scaler.model.kernel import Integers, KernelView
from scaler.model.nodes import Deployment, Reconfiguration, decode
from scaler.model.policy import Arrays, Kind, Learner, Observation, Policy, Transition, build_policy
from scaler.model.task import Task

KEPT = 500  # decisions on record
REASON_BYTES = 200  # of memory that one of them is taken to hold


class Guarded:
    """A policy whose changes pass guards in order.

    The simulator's plain loop tells no time: for `choose` and `absorb` slots of `slot_s` seconds are counted from
    `start`.
    """

    def __init__(
        self,
        inner: Policy,
        guards: Sequence[Guard],
        types: Sequence[str],
        slot_s: float = 60.0,
        start: float = 0.0,
        kept: int = KEPT,
    ) -> None:
        self.inner = inner
        self.guards = tuple(guards)
        self.types = tuple(types)
        self.slot_s = slot_s
        self.start = start
        self.slots = 0
        self.history = History()
        self.record: deque[Decision] = deque(maxlen=kept)

    def decide(self, observation: Observation) -> Reconfiguration:
        return self.verdict(observation).decided

    def verdict(self, observation: Observation) -> Judgement:
        """What is decided about this observation, with every objection."""
        return self.weigh(self.inner.decide(observation), observation)

    def weigh(self, proposed: Reconfiguration, observation: Observation) -> Judgement:
        """A proposal once all guards have been heard."""
        if proposed.delta == 0:
            return Judgement(proposed)
        verdicts = [guard(proposed, observation, self.history) for guard in self.guards]
        return Judgement(proposed, tuple(v.reason for v in verdicts if not v.allowed))

    def learn(self, transition: Transition) -> None:
        self.note(transition.before.time, self.verdict(transition.before), transition.done)
        self.inner.learn(transition)

    def note(self, time: float, judgement: Judgement, done: Reconfiguration) -> None:
        """Put a slot on record."""
        self.record.append(conclude(time, judgement, done, self.types))
        self.history = enter(self.history, time, judgement.proposed, done)
        self.slots += 1

    def choose(self, k: Integers, seen: KernelView) -> int:
        return self.weigh_code(k, seen).decided.code(len(self.types))

    def absorb(self, k: Integers, before: KernelView, action: int, seen: KernelView) -> None:
        done = decode(action, len(self.types))
        earlier = k.copy()
        earlier[done.node_type] -= done.delta
        self.note(self.clock(), self.weigh_code(earlier, before), done)
        self.inner.absorb(k, before, action, seen)

    def weigh_code(self, k: Integers, seen: KernelView) -> Judgement:
        """What is decided about what a kernel saw."""
        proposed = decode(self.inner.choose(k, seen), len(self.types))
        deployment = Deployment(tuple(k.tolist()))
        return self.weigh(proposed, Observation(self.clock(), seen.rate, seen.utilisation, seen.response, deployment))

    def clock(self) -> float:
        return self.start + self.slots * self.slot_s

    def save(self) -> Arrays:
        inner = {f"inner.{name}": value for name, value in self.inner.save().items()}
        return inner | pack(self.slots, self.history, self.record)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        slots, history, record = unpack(arrays)
        self.inner.load({name[6:]: value for name, value in arrays.items() if name.startswith("inner.")})
        self.slots, self.history = slots, history
        self.record = deque(record, maxlen=self.record.maxlen)

    def held_bytes(self) -> int:
        return self.inner.held_bytes() + 8 * len(self.history.changes) + REASON_BYTES * len(self.record)


def pack(slots: int, history: History, record: Sequence[Decision] | deque[Decision]) -> Arrays:
    """What a guarded policy remembers, as plain arrays."""
    moves = [[d.proposed.delta, d.proposed.node_type, d.done.delta, d.done.node_type] for d in record]
    return {
        "guards.slots": np.array(slots),
        "guards.changes": np.array(history.changes, dtype=np.float64),
        "guards.wish": np.array([history.wish, history.wished_since], dtype=np.float64),
        "guards.times": np.array([d.time for d in record], dtype=np.float64),
        "guards.outcomes": np.array([d.outcome.value for d in record], dtype=np.str_),
        "guards.moves": np.array(moves, dtype=np.int64).reshape(-1, 4),
        "guards.reasons": np.array([d.reason for d in record], dtype=np.str_),
    }


def unpack(arrays: Mapping[str, NDArray[Any]]) -> tuple[int, History, list[Decision]]:
    """The same from plain arrays."""
    for name in pack(0, History(), []):
        if name not in arrays:
            raise BadInput(f"the checkpoint lacks {name!r}; it belongs to an unguarded policy or another version")
    wish, since = arrays["guards.wish"].tolist()
    history = History(tuple(arrays["guards.changes"].tolist()), int(wish), float(since))
    columns = (arrays[f"guards.{name}"].tolist() for name in ("times", "outcomes", "moves", "reasons"))
    record = [
        Decision(time, Outcome(outcome), Reconfiguration(*move[:2]), Reconfiguration(*move[2:]), reason)
        for time, outcome, move, reason in zip(*columns, strict=True)
    ]
    return int(arrays["guards.slots"]), history, record


def guard_kind(kind: Kind, guards: Sequence[Guard], slot_s: float = 60.0, start: float = 0.0) -> Learner:
    """The same kind of policy, guarded: for whatever builds policies from kinds."""

    def build(task: Task, model: Task, seed: int, options: Mapping[str, Any]) -> Guarded:
        return Guarded(
            build_policy(kind, task, seed, options, model), guards, [t.name for t in task.types], slot_s, start
        )

    return Learner(f"{kind.title}, guarded", build, kind.options)
