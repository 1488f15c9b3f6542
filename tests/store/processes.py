"""What other processes do to a database while a test looks on: `python -m tests.store.processes WHAT ADDRESS ...`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count

from sqlalchemy import text

from tuner.store.connection import open_store
from tuner.store.records import Trial
from tuner.store.runs import claim_run, name_owner
from tuner.store.trials import add_trial, load_history


def say(line: object) -> None:
    print(line, flush=True)


def hold(address: str) -> None:
    """Keep the database locked until a line comes in."""
    with open_store(address).begin() as session:
        on_server = session.get_bind().dialect.name == "postgresql"
        session.execute(text("LOCK TABLE samples IN ACCESS EXCLUSIVE MODE" if on_server else "SELECT 1"))
        say("held")
        sys.stdin.readline()


def claim(address: str, owner: str, now: str, *runs: str) -> None:
    """Claim every run that can be had, and say which."""
    store = open_store(address)
    say("ready")
    sys.stdin.readline()
    for run_id in map(int, runs):
        with store.begin() as session:
            if claim_run(session, run_id, owner, float(now)):
                say(run_id)


def write(address: str, run_id: str, owner: str, now: str) -> None:
    """Add trials without end to a run, and say each one's number when it is committed."""
    store = open_store(address)
    with store.begin() as session:
        run = claim_run(session, int(run_id), owner if owner != "itself" else name_owner(), float(now))
    assert run is not None
    with store.read() as session:
        first = len(load_history(session, int(run_id)))
    for number in count(first):
        trial = Trial(int(run_id), number, {"x": [0.5] * 40}, "complete", number, 1.0, 2.0, price=float(number))
        with store.begin() as session:
            add_trial(session, run, trial, float(now))
        say(number)


def make(address: str) -> None:
    """Open a database that may not be there yet."""
    say("ready")
    sys.stdin.readline()
    open_store(address).close()
    say("open")


if __name__ == "__main__":
    known: dict[str, Callable[..., None]] = {"hold": hold, "claim": claim, "write": write, "make": make}
    known[sys.argv[1]](*sys.argv[2:])
