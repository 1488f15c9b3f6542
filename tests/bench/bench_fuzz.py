"""The campaign of 20,000 requests against a real service: 5xx but 503, memory at most, acknowledged records lost.

python -m tests.bench.bench_fuzz [--piece 1 --pieces 8] [--requests 2500 --heavy 120 --threads 6] [--postgres] [--whole]

Each piece is a service of its own with requests of its own by chance (its number is the seed), of the OpenAPI document
and of the pages; on the way the database fails in all ways that tests/service/injected_faults.py knows, unless --whole.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.bench.bench_service import start_postgres
from tests.service.fuzzing import THREADS
from tests.service.injected_faults import make_role
from tests.service.test_fuzz import MAX_MEMORY, Outcome, run_piece
from tests.store.conftest import make_database


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--piece", type=int, default=1)
    parser.add_argument("--pieces", type=int, default=8)
    parser.add_argument("--requests", type=int, default=2500)
    parser.add_argument("--heavy", type=int, default=120)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--whole", action="store_true")
    asked = parser.parse_args()
    with ExitStack() as stack:
        server = start_postgres(stack) if asked.postgres else ""
        made = make_database(server) if server else ""
        served = make_role(server, made) if server else ""
        for number in range(asked.piece, asked.piece + asked.pieces):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            address, begun = served or str(Path(folder) / "tuner.db"), time.monotonic()
            outcome = run_piece(
                address, number, asked.requests, not asked.whole, server, asked.heavy, made, asked.threads
            )
            show(number, outcome, time.monotonic() - begun)


def show(number: int, outcome: Outcome, seconds: float) -> None:
    campaign = outcome.campaign
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(campaign.statuses.items()))
    print(f"piece {number}: {sum(campaign.statuses.values()):,} requests in {seconds:.0f} s; {statuses}")
    print(f"  faults       {', '.join(f'{name} {count}' for name, count in Counter(outcome.faults).items()) or 'none'}")
    now, most = outcome.memory
    print(f"  memory, MiB  {now:.0f} at the end, {most:.0f} at most, {MAX_MEMORY:.0f} allowed")
    print(f"  acknowledged {len(campaign.acknowledged):,} records, {len(campaign.objectives):,} objectives")
    print(f"  lost         {len(outcome.lost)}")
    print(f"  wrong        {len(campaign.wrong)}")
    for one in campaign.wrong[:10]:
        print(f"    {one}")
    for trace, count in Counter(outcome.traces).most_common(5):
        print(f"    {count} x ...{trace}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
