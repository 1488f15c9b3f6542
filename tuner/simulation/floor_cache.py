"""Floors cached on disk as long as the code that computes them stays the same.

One operator has a floor: of the published world where it starts on the first type and supply is simple, of changes of
any size wherever it starts. An application of several has one where slots stand alone.
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

from scaler.model import kernel, micro_batches, nodes, queue_quantiles, queueing, task
from scaler.model.errors import BadInput
from scaler.model.files import write_whole
from scaler.model.kernel import Floats
from scaler.model.task import Task
from sim import application_floor as application_floor_module
from sim import floor, sharing
from sim import setting as setting_module
from sim import sized_floor as sized_floor_module
from sim import sized_sweep as sized_sweep_module
from sim.application_floor import application_floor, has_application_floor
from sim.compiler import find_cache
from sim.floor import Bound, Stretch, clairvoyant_floor, shifted_floors
from sim.infrastructure import price_slots
from sim.setting import Setting, first_deployment, is_supply_ample, tasks
from sim.sized_floor import SizedWorld, has_floor, sized_floor

COMPUTED_BY = (
    floor, sized_floor_module, sized_sweep_module, application_floor_module, setting_module, sharing,
    kernel, queue_quantiles, task, queueing, micro_batches, nodes,
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class FloorQuery:
    """One operator's task and its rates; from slot `at` on another task holds, and from `tail` on is the last part."""

    task: Task
    rates: Floats
    changed: Task | None = None
    at: int | None = None
    tail: int | None = None
    world: SizedWorld | None = None  # where changes may be of any size
    whole: Setting | None = None  # an application of several operators


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
    if len(stated) > 1 or setting.plant != "memoryless" or setting.first not in ({}, {first: 1}):
        return None
    if not is_supply_simple(setting):
        return None
    return stated[0] if stated[0].bound == setting.r_max else None


def is_supply_simple(setting: Setting) -> bool:
    """Whether every replica is to be had at once, for ever and at one price, as the floor takes for granted."""
    stated = [node.supply for node in setting.infrastructure.types]
    lasting = all(supply.lost_per_hour == 0.0 and not supply.start_s for supply in stated)
    return lasting and is_supply_ample(setting) and not setting.infrastructure.prices


def ask_floor(setting: Setting) -> FloorQuery | None:
    """The question after the floor under a setting's cost; None where none is known."""
    lone, rates = lone_task(setting), setting.trace.rates
    if lone is not None and lone.one_at_a_time:
        return FloorQuery(lone, rates)
    stated, operators = tasks(setting), setting.application.operators
    task = stated[0]
    if len(stated) > 1 or setting.path_bounds:
        return FloorQuery(task, rates, whole=setting) if has_application_floor(setting) else None
    if task.one_at_a_time or task.bound != setting.r_max or not has_floor(task):
        return None
    plant = "backlog" if setting.plant == "batches" and task.batches is None else setting.plant
    prices = price_slots(setting.infrastructure, setting.trace)
    staggered = plant != "memoryless" and may_stagger(setting)
    slot_s, start_s = setting.inertia.slot_s, least_start_seconds(setting)
    world = SizedWorld(first_deployment(setting, operators[0]), plant, slot_s, prices, staggered, start_s)
    return FloorQuery(task, rates, world=world)


def may_stagger(setting: Setting) -> bool:
    """Whether the replicas of an exchange of node types may start one after another."""
    supplies = [node.supply for node in setting.infrastructure.types]
    starts = {seconds for supply in supplies for seconds in supply.start_s or (setting.inertia.start_s,)}
    return len(supplies) > 1 and len(starts) > 1


def least_start_seconds(setting: Setting) -> float:
    """Start-up time that no replica undercuts; 0 where replicas are taken away, which then start anew."""
    supplies = [node.supply for node in setting.infrastructure.types]
    if any(supply.lost_per_hour > 0.0 for supply in supplies):
        return 0.0
    return min(seconds for supply in supplies for seconds in supply.start_s or (setting.inertia.start_s,))


def compute_floor(question: FloorQuery) -> Floor:
    """Compute the floor; the rates are marked read-only, so that the pass is compiled once."""
    rates = question.rates[:]
    rates.flags.writeable = False
    if question.whole is not None:
        return Floor(application_floor(question.whole))
    if question.world is not None:
        return Floor(sized_floor(question.task, rates, question.world))
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
    world = question.world
    said = (question.task, question.changed, question.at, question.tail, question.rates.size)
    whole = question.whole
    joint = None if whole is None else (tasks(whole), whole.application, whole.path_bounds, whole.r_max, whole.first)
    sized = None if world is None else (world.first.tolist(), world.plant, world.slot_s, world.staggered, world.start_s)
    digest = hashlib.sha256(repr((said, sized, joint)).encode())
    for array in (question.rates, *([] if world is None else [world.prices])):
        digest.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
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
