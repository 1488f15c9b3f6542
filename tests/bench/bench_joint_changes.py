"""Operators that change together against those that decide alone, over the optimum of both: the specification's 4.1.

    python -m tests.bench.bench_joint_changes ../shared/traces/taxi.txt.gz

The chain's chances are counted in the trace (one value a minute), and 200,000 slots are drawn from it. M/D/1 operators
of 3.7, 3.3, 2.7 and 3.3 tuples/s, at most 5 replicas, 1.9 s for three; weights .4 (late), .4 (reconfigured), .2.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from sim.trace_file import read_trace
from tests.oracles.joint_optimum import Chain
from tests.test_joint_changes import replay_chain

SERVICE_RATES = (3.7, 3.3, 2.7, 3.3)
LEVELS, QUANTUM = 37, 20.0  # tuples a minute
COMMON = 0.7  # the best utilisation of the paper's three
OWN = {  # the specification's: of operators that change together, and of those that decide alone
    3: ((0.65, 0.65, 0.7), (0.65, 0.7, 0.65)),
    4: ((0.65, 0.65, 0.8, 0.65), (0.7, 0.6, 0.75, 0.6)),
}


def make_chain(counts: np.ndarray, operators: int) -> Chain:
    found = np.minimum((counts / QUANTUM).astype(np.int64), LEVELS - 1)
    steps = np.zeros((LEVELS, LEVELS))
    np.add.at(steps, (found[:-1], found[1:]), 1.0)
    middles = (np.arange(LEVELS) + 0.5) * QUANTUM / 60.0
    limit = 1.9 * operators / 3
    return Chain(
        SERVICE_RATES[:operators], 5, limit, (0.4, 0.4, 0.2), middles, steps / steps.sum(axis=1, keepdims=True)
    )


def main() -> None:
    counts = read_trace(Path(sys.argv[1])).rates
    for operators, (together, alone) in OWN.items():
        chain = make_chain(counts, operators)
        levels = chain.draw(200_000, seed=operators)
        optimum = chain.replay(levels)
        rows = {
            "alone, a common utilisation": ((COMMON,) * operators, False),
            "alone, own bounds": (alone, False),
            "together, own bounds": (together, True),
        }
        print(f"{operators} operators: optimum {optimum:.4f}")
        for name, (shares, joint) in rows.items():
            cost = replay_chain(chain, levels, shares, joint)
            print(f"  {name:30} {cost:.4f}  {cost / optimum - 1.0:+.1%}")


if __name__ == "__main__":
    main()
