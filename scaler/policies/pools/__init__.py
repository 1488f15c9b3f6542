"""Registry of pool policies, which order and release the nodes of a region: one file and one line each."""

from __future__ import annotations

from scaler.model.policy import check_options
from scaler.model.pool import PoolKernel, PoolStart
from scaler.model.registry import load_named

POOLS: dict[str, str] = {
    "static": "fixed_nodes:FIXED_NODES",
    "idle-nodes": "idle_nodes:IDLE_NODES",
    "headroom": "headroom:HEADROOM",
    "model-based": "learned_nodes:LEARNED_NODES",
}


def find_pool(name: str) -> PoolKernel:
    """The pool policy of this name."""
    kernel: PoolKernel = load_named("pool policy", POOLS, name, __name__)
    return kernel


def start_pool(kernel: PoolKernel, start: PoolStart) -> object:
    """Prepare a pool policy's state; an option that it does not know is refused."""
    check_options(kernel.title, kernel.options, start.options)
    return kernel.prepare(start)
