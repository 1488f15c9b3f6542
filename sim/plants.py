"""Plants by name: what a replay asks of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scaler.model.kernel import Integers, Problem
from sim.batch_plant import batch_queue, change_batches, hold_of_batches, price_leaving_batches, serve_batches
from sim.holding import Hold
from sim.plant import Answer, Queue, backlog, fluid_queue, memoryless, no_queue, none_leaving, unchanged
from sim.replicas import disturb, hold_of, price_leaving


class PlantKernels(NamedTuple):
    """Serve a slot, change the deployment, measure what waits, find what is held, price what is replaced."""

    serve: Callable[[Problem, Any, Integers, int, int, float], Answer]
    change: Callable[[Problem, Any, Integers, int], None]
    measure_queue: Callable[[Any], Queue]
    find_hold: Callable[[Any], Hold]
    price_leaving: Callable[[Problem, Any], float]


PLANTS = {
    "memoryless": PlantKernels(memoryless, unchanged, no_queue, hold_of, none_leaving),
    "backlog": PlantKernels(backlog, disturb, fluid_queue, hold_of, price_leaving),
    "batches": PlantKernels(serve_batches, change_batches, batch_queue, hold_of_batches, price_leaving_batches),
}
