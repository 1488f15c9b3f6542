"""Strategies of state migration: what a change from k to k' replicas holds back, for how long, and what it costs.

    stop         the whole application stops: snapshot, redeployment, restore (stop and restart)
    pause        the operator and its input pause until the moved state has arrived (partial pause)
    at-once      only the keys that move wait, all for the whole migration
    progressive  the keys that move wait bin by bin (Megaphone, VLDB 2019)
    spark        nothing moves at first: the next batch waits for its slowest task, which loads stores one by one

Notation: S bytes of state, P partitions, B_r, B_w, B_n bytes/s of one replica (read and write durable storage,
network), c seconds per step, n bins of moved keys, b bins at once, l seconds to load one store, a the checkpoint's age.

    moved share f   out (k' - k) / k', in (k - k') / k; of a hash modulo k 1 - min(k, k') / lcm(k, k'); of `stop` 1
    stop            t_stop + S / (k B_w) + t_deploy + S / (k' B_r), without a savepoint lambda a / mu for its writing
    pause, at-once  c + f S / (L B_n), L the lesser of senders and receivers
    progressive     c + b f S / (n L B_n) a step, n / b steps
    spark           out l ceil(P / k'), in l ceil(P (k - k') / (k k')),  l = open + S / (P B_r) + changelogs

Start-ups are the plant's: state moves once the new replicas serve. Where senders and receivers differ in number, the
step of `progressive` has L as `pause` has, so that its steps come to the pause and n / b - 1 times c. The steps of
`progressive` are taken for apart: each one's queue is gone before the next step's release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from scaler.model.errors import BadInput, suggest
from scaler.model.hold import HoldTimes, late_seconds
from sim.hold_law import AT_ONCE, KINDS, PAUSE, PROGRESSIVE, SPARK, STOP, HoldLaw, Moves, plan_hold
from sim.toml_table import NUMBER, TEXT, WHOLE, Kind, check_table

HASHES = ("consistent", "modulo")


@dataclass(frozen=True, slots=True)
class Migration:
    """How an operator's state moves, and how fast; rates of one replica, in bytes per second."""

    kind: str = "none"
    state_bytes: float = 0.0
    partitions: int = 0
    read_rate: float = 100e6
    write_rate: float = 100e6
    network_rate: float = 100e6
    stop_s: float = 2.0
    deploy_s: float = 10.0
    checkpoint_age_s: float = 0.0  # of the one restored; 0: a savepoint is taken
    step_s: float = 0.1
    bins: int = 256  # that the moved keys are cut into
    at_once: int = 0  # bins of a step; 0: as many as keep within the slack
    hash: str = "consistent"
    interference: float = 0.0  # share of their capacity that senders and receivers lose while state moves
    tuple_bytes: float = 100.0  # that a held tuple takes in memory
    open_s: float = 0.1  # to open one store
    changelogs: int = 10  # files replayed on top of a snapshot
    changelog_s: float = 0.01  # each

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadInput(f"there is no migration {self.kind!r}; {suggest(self.kind, KINDS)}")
        if self.hash not in HASHES:
            raise BadInput(f"keys are placed by hash {self.hash!r}; choose one of {', '.join(HASHES)}")
        if not all(0.0 < rate < math.inf for rate in (self.read_rate, self.write_rate, self.network_rate)):
            raise BadInput("the rates at which state is read, written and sent must be positive, in bytes per second")
        times = (self.stop_s, self.deploy_s, self.checkpoint_age_s, self.step_s, self.open_s, self.changelog_s)
        if not all(0.0 <= value < math.inf for value in (*times, self.tuple_bytes, float(self.changelogs))):
            raise BadInput("the times of a migration, its changelogs and a tuple's bytes must be 0 or more")
        if not (self.bins >= 1 and 0 <= self.at_once <= self.bins):
            raise BadInput(
                f"a step moves {self.at_once} of {self.bins} bins; state at least one bin, and a step of 0 (chosen) "
                "to all of them"
            )
        if not 0.0 <= self.interference < 1.0:
            raise BadInput(f"interference is {self.interference}, and must be a share from 0 to below 1")
        check_state(self.state_bytes, self.partitions)


def check_state(state_bytes: float, partitions: int, growth: float = 0.0) -> None:
    """Refuse a state size that no partitions hold."""
    if not (0.0 <= state_bytes < math.inf and partitions >= 0 and 0.0 <= growth < math.inf):
        raise BadInput(
            f"the state has {state_bytes} bytes in {partitions} partitions and grows by {growth} bytes a tuple; all "
            "three must be 0 or more"
        )
    if (state_bytes > 0.0 or growth > 0.0) and partitions == 0:
        raise BadInput(
            "there is a state size without partitions; give the number of them, spark.sql.shuffle.partitions when the "
            "checkpoint was first written"
        )


def parse_migration(stated: str | Mapping[str, Any]) -> Migration:
    """A strategy by its name, or by a table of its kind and constants."""
    if isinstance(stated, str):
        return Migration(stated)
    kinds: dict[str, Kind] = {"str": TEXT, "int": WHOLE, "float": NUMBER}
    known = {
        one.name: kinds[str(one.type)] for one in fields(Migration) if one.name not in ("state_bytes", "partitions")
    }
    check_table(stated, known, lambda key: f"migration, {key}", required=("kind",))
    return Migration(**stated)


@dataclass(frozen=True, slots=True)
class MigrationCost:
    """What one change costs: its longest hold, what it holds, and what follows."""

    hold_s: float = 0.0  # of a step
    held: float = 0.0  # share of arrivals that a step holds back
    steps: int = 0
    at_once: int = 0  # bins of a step
    interference_s: float = 0.0  # replica-seconds of work lost to the migration
    moved_bytes: float = 0.0  # written, read or sent
    peak_bytes: float = 0.0  # of memory beside the usual
    late_s: float = 0.0  # infinite where the deployment afterwards cannot serve the rate


@dataclass(frozen=True, slots=True)
class Change:
    """A change of replicas under a load; rates in tuples per second."""

    before: int
    after: int
    rate: float
    capacity: float  # of one replica
    slack_s: float  # latency bound less usual response time

    def __post_init__(self) -> None:
        if min(self.before, self.after) < 1:
            raise BadInput(f"a change from {self.before} to {self.after} replicas; both must be at least 1")
        if not (0.0 <= self.rate < math.inf and 0.0 < self.capacity < math.inf):
            raise BadInput(
                f"a change under {self.rate} tuples/s at {self.capacity} tuples/s a replica; the rate must be 0 or "
                "more and the capacity positive"
            )


def price_change(migration: Migration, change: Change) -> MigrationCost:
    """Cost of one change; nothing where nothing changes or nothing is modelled."""
    if migration.kind == "none" or change.before == change.after:
        return MigrationCost()
    return STRATEGIES[migration.kind](migration, change)


def list_receivers(migration: Migration, change: Change) -> list[tuple[int, float, float]]:
    """Replicas that receive keys: how many alike, the share of all keys that each gets, and that it has already."""
    before, after = change.before, change.after
    if migration.hash == "modulo":
        stays = 1.0 / math.lcm(before, after)
        new = max(0, after - before)
        return [(after - new, 1.0 / after - stays, stays), (new, 1.0 / after, 0.0)]
    return (
        [(after - before, 1.0 / after, 0.0)] if after > before else [(after, 1.0 / after - 1.0 / before, 1.0 / before)]
    )


def lay_out_hold(
    migration: Migration, growth: float = 0.0, measured: HoldTimes | None = None, work: float = 1.0
) -> HoldLaw:
    """A migration as scalars; `measured` are seconds, of a store's load too, that stand for Spark's own."""
    out, into = (measured.out, measured.into) if measured is not None else (None, None)
    store_s = migration.open_s + migration.changelogs * migration.changelog_s
    read_rate = migration.read_rate
    if measured is not None and measured.load_s is not None:
        reading = migration.state_bytes / (max(1, migration.partitions) * read_rate)
        store_s = max(0.0, measured.load_s - reading)
        if measured.load_s < reading:
            read_rate *= reading / max(measured.load_s, 1e-9)
    return HoldLaw(
        kind=KINDS.index(migration.kind),
        modulo=migration.hash == "modulo",
        partitions=migration.partitions,
        state_bytes=float(migration.state_bytes),
        growth=growth,
        read_rate=float(read_rate),
        write_rate=float(migration.write_rate),
        network_rate=float(migration.network_rate),
        stop_s=float(migration.stop_s),
        deploy_s=float(migration.deploy_s),
        checkpoint_age_s=float(migration.checkpoint_age_s),
        step_s=float(migration.step_s),
        bins=migration.bins,
        at_once=migration.at_once,
        interference=float(migration.interference),
        tuple_bytes=float(migration.tuple_bytes),
        store_s=float(store_s),
        work=work,
        out_base_s=math.nan if out is None else out.base_s,
        out_each_s=math.nan if out is None else out.each_s,
        in_base_s=math.nan if into is None else into.base_s,
        in_each_s=math.nan if into is None else into.each_s,
    )


def plan_change(migration: Migration, change: Change, kind: int) -> Moves:
    """The hold of a change of replicas alone."""
    more = change.after - change.before
    return plan_hold(
        lay_out_hold(migration),
        kind,
        change.before,
        change.after,
        max(0, more),
        max(0, -more),
        migration.state_bytes,
        change.rate,
        change.capacity,
        change.slack_s,
    )


def count_ends(migration: Migration, change: Change) -> int:
    """Replicas that send keys, and those that receive some."""
    leaving = change.before - change.after
    senders = leaving if leaving > 0 and migration.hash != "modulo" else change.before
    return senders + sum(many for many, _, _ in list_receivers(migration, change))


def late_after_pause(change: Change, hold_s: float) -> float:
    """Late seconds of a hold of all arrivals."""
    capacity = change.after * change.capacity
    return late_seconds(hold_s, change.slack_s, change.rate, 0.0, capacity, capacity)


def stop_and_restart(migration: Migration, change: Change) -> MigrationCost:
    return hold_all(plan_change(migration, change, STOP), change)


def pause_operator(migration: Migration, change: Change) -> MigrationCost:
    return hold_all(plan_change(migration, change, PAUSE), change)


def load_stores(migration: Migration, change: Change) -> MigrationCost:
    """Spark's own: the next batch waits for the executor that loads most stores."""
    return hold_all(plan_change(migration, change, SPARK), change)


def hold_all(moves: Moves, change: Change) -> MigrationCost:
    held, hold, _, _, _, moved, peak = moves
    return MigrationCost(hold, held, 1, 0, 0.0, moved, peak, late_after_pause(change, hold))


def move_at_once(migration: Migration, change: Change) -> MigrationCost:
    return move_in_steps(migration, change, AT_ONCE)


def move_progressively(migration: Migration, change: Change) -> MigrationCost:
    return move_in_steps(migration, change, PROGRESSIVE)


def move_in_steps(migration: Migration, change: Change, kind: int) -> MigrationCost:
    """Move so many bins at a time; their keys alone wait."""
    share, step_s, sending, bins, at_once, moved, peak = plan_change(migration, change, kind)
    steps = math.ceil(bins / at_once)
    usable = change.capacity * (1.0 - migration.interference)
    afterwards = change.capacity if steps == 1 else usable
    gone = lost = late = 0.0  # gone: share of the moved keys that earlier steps have moved
    for step in range(steps):
        part = min(at_once, bins - step * at_once) / bins
        lasts = step_s + part * sending
        for many, held, own in list_receivers(migration, change):
            came, has = change.rate * held * part, change.rate * (own + held * gone)
            late += many * held * part * late_seconds(lasts, change.slack_s, came, has, afterwards, usable)
        lost += lasts * migration.interference * count_ends(migration, change)
        gone += part
    largest = at_once / bins
    return MigrationCost(step_s + largest * sending, share * largest, steps, at_once, lost, moved, peak, late)


STRATEGIES: dict[str, Callable[[Migration, Change], MigrationCost]] = {
    "stop": stop_and_restart,
    "pause": pause_operator,
    "at-once": move_at_once,
    "progressive": move_progressively,
    "spark": load_stores,
}
