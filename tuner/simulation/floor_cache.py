"""Floors cached on disk as long as the code that computes them stays the same.

One operator that starts on the first type of a memoryless plant has a floor; several, or a backlog, have none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from scaler.model import nodes, queueing, task
from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.kernel import Floats
from scaler.model.task import Task
from sim import floor
from sim.compiler import find_cache
from sim.floor import Bound, Stretch, clairvoyant_floor, shifted_floors
from sim.setting import Setting, tasks

COMPUTED_BY = (floor, task, queueing, nodes)


@dataclass(frozen=True, slots=True, eq=False)
class FloorQuery:
    """One operator's task and its rates; from slot `at` on another task holds, and from `tail` on is the last part."""

    task: Task
    rates: Floats
    changed: Task | None = None
    at: int | None = None
    tail: int | None = None


@dataclass(frozen=True, slots=True)
class Floor:
    """Under the cost of the whole run, and under that of its last part where there is one."""

    whole: Bound
    tail: Bound | None = None


Solve = Callable[[FloorQuery], Floor]


def lone_task(setting: Setting) -> Task | None:
    """The task under whose cost a floor is known."""
    stated = tasks(setting)
    first = setting.infrastructure.types[0].name
    if len(stated) > 1 or setting.plant != "memoryless" or setting.start not in (None, first):
        return None
    return stated[0] if stated[0].bound == setting.r_max else None


def compute_floor(question: FloorQuery) -> Floor:
    """Compute the floor; the rates are marked read-only, so that the pass is compiled once."""
    rates = question.rates[:]
    rates.flags.writeable = False
    if question.tail is None:
        return Floor(clairvoyant_floor(question.task, rates))
    at = question.at if question.at is not None else question.tail
    changed = question.changed or question.task
    whole, _, tail = shifted_floors(
        [
            Stretch(question.task, rates[:at]),
            Stretch(changed, rates[at : question.tail]),
            Stretch(changed, rates[question.tail :]),
        ]
    )
    return Floor(whole, tail)


def name_query(question: FloorQuery) -> str:
    """A digest of everything that the answer depends on but the sources."""
    said = (question.task, question.changed, question.at, question.tail, question.rates.size)
    digest = hashlib.sha256(repr(said).encode())
    digest.update(np.ascontiguousarray(question.rates, dtype=np.float64).tobytes())
    return digest.hexdigest()[:32]


@cache
def find_folder() -> Path:
    """Where answers are kept: under a name for the present state of the modules that compute them."""
    digest = hashlib.sha256()
    for module in COMPUTED_BY:
        digest.update(Path(str(module.__file__)).read_bytes())
    return find_cache() / "floors" / digest.hexdigest()[:16]


def load_floor(folder: Path, name: str) -> Floor | None:
    """The answer kept under this name; what cannot be read is no answer."""
    try:
        kept = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        whole, tail = (None if part is None else Bound(float(part[0]), bool(part[1])) for part in kept)
    except (OSError, ValueError, TypeError, LookupError):
        return None
    return None if whole is None else Floor(whole, tail)


def save_floor(folder: Path, name: str, answer: Floor) -> None:
    """Keep an answer, if there is room for it: without it the next run computes it again."""
    parts = [None if part is None else (part.lower, part.exact) for part in (answer.whole, answer.tail)]
    with suppress(OSError, BadInput):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{name}.json", json.dumps(parts))


def load_or_compute(question: FloorQuery, folder: Path | None = None) -> Floor:
    """The answer kept, or computed and kept."""
    folder = folder if folder is not None else find_folder()
    name = name_query(question)
    answer = load_floor(folder, name)
    if answer is None:
        answer = compute_floor(question)
        save_floor(folder, name, answer)
    return answer
