"""Compare ordered replicas with those that serve: arrived, pending, timed out and cancelled.

Values in, values out: a `Ledger` for each operator, the time from the caller's clock. A replica that does not arrive
before the deadline of its node type is given back: the target falls to what is there, so that nothing comes and is paid
long after it was needed. Then the type is not to be asked for again for a while, which doubles at each further miss. An
operator that has no replica at all never ends with a target of none: one is asked for, of each type in turn, and where
there is but one type, again and again, after pauses that double. What was to go and does not go in that time stays, and
counts as wanted.

    ledger = ask(ledger, target, now)           # once the actuator took it
    outcome = compare(ledger, actuator.deployed(operator), now)
    if outcome.state == FAILED:                     # ACTUATION_FAILED, because of outcome.says
        actuator.ask(operator, outcome.give_back)   # on Retry keep the old ledger: the next slot says the same again
    ledger = outcome.ledger
    refuse(ledger, "large", now)                # why not to ask for one more now, or None
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scaler.model.errors import find_pause

REACHED, WAITING, FAILED, STAYED, UNKNOWN, NOTHING_ASKED = (
    "reached", "waiting", "failed", "stayed", "unknown", "nothing asked",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArrivalTimeouts:
    """Seconds."""

    arrival: Mapping[str, float] = field(default_factory=dict)  # by node type, from asking to serving
    default: float = 120.0  # for types that it leaves out
    back_off: float = 300.0  # after a first miss
    longest: float = 3600.0

    def until(self, node_type: str) -> float:
        return self.arrival.get(node_type, self.default)

    def pause(self, misses: int) -> float:
        return find_pause(misses, self.back_off, self.longest)


@dataclass(frozen=True, slots=True)
class OrderedReplicas:
    target: Mapping[str, int]
    since: float


@dataclass(frozen=True, slots=True)
class Short:
    """A type of which replicas are missing: how many, and since when no further one came."""

    missing: int
    since: float


@dataclass(frozen=True, slots=True)
class Missed:
    """A type of which replicas never came: how often in a row, until when not to ask, how many there were."""

    times: int
    until: float
    had: int


@dataclass(frozen=True, slots=True)
class PendingReplicas:
    """What is remembered of one operator."""

    asked: OrderedReplicas | None = None
    short: Mapping[str, Short] = field(default_factory=dict)
    met: frozenset[str] = frozenset()  # types that were once all there, so that what is missing was lost
    missed: Mapping[str, Missed] = field(default_factory=dict)

    def target(self) -> Mapping[str, int]:
        return {} if self.asked is None else self.asked.target


@dataclass(frozen=True, slots=True)
class PendingOutcome:
    state: str
    says: str
    ledger: PendingReplicas
    give_back: Mapping[str, int] | None = None  # to be asked for: the lowered target, or the same where none is lower
    failed: Mapping[str, int] = field(default_factory=dict)  # replicas that did not come (or go: less than 0), by type


def order(ledger: PendingReplicas, target: Mapping[str, int], now: float) -> PendingReplicas:
    """The ledger once an actuator took the target; what is still awaited keeps its deadline, though more be asked."""
    before = {} if ledger.asked is None else ledger.asked.target
    if before == target and ledger.asked is not None:
        return ledger
    same = {name for name, count in target.items() if before.get(name) == count}
    short = {name: one for name, one in ledger.short.items() if name in same}
    for name, count in target.items():
        if name in ledger.short and count > before.get(name, 0):  # of those that come, each renews the deadline
            one = ledger.short[name]
            short[name] = Short(one.missing + count - before.get(name, 0), one.since)
    return replace(ledger, asked=OrderedReplicas(dict(target), now), short=short, met=ledger.met & same)


def compare(
    ledger: PendingReplicas, came: Mapping[str, int] | None, now: float, patience: ArrivalTimeouts | None = None
) -> PendingOutcome:  # fmt: skip
    """`came` is None where it cannot be told, and then nothing is held against anyone: deadlines wait."""
    patience = patience or ArrivalTimeouts()
    if ledger.asked is None:
        return PendingOutcome(NOTHING_ASKED, "nothing was asked for", ledger)
    if came is None:
        return PendingOutcome(UNKNOWN, "how many replicas serve cannot be told now", ledger)
    target = ledger.asked.target
    short = {name: find_shortage(ledger, name, count - came.get(name, 0), now) for name, count in target.items()}
    short = {name: one for name, one in short.items() if one.missing > 0}
    late = {name: one for name, one in short.items() if now - one.since >= patience.until(name)}
    met = ledger.met | {name for name in target if name not in short}
    missed = {name: one for name, one in ledger.missed.items() if name in short or came.get(name, 0) <= one.had}
    seen = replace(ledger, short=short, met=met, missed=missed)
    if late:
        return cancel_late(seen, came, late, now, patience)
    if short:
        return PendingOutcome(WAITING, f"{describe_missing(seen, short)} to come", seen)
    extra = {name: came[name] - target.get(name, 0) for name in came if came[name] > target.get(name, 0)}
    if extra:
        return check_extra(seen, came, extra, now - ledger.asked.since, patience)
    return PendingOutcome(REACHED, "all replicas that were asked for serve, and no others", seen)


def find_shortage(ledger: PendingReplicas, node_type: str, missing: int, now: float) -> Short:
    """How short the type is; each replica that comes gives the others a deadline of their own."""
    assert ledger.asked is not None
    before = ledger.short.get(node_type)
    if before is not None:
        return Short(missing, now if missing < before.missing else before.since)
    return Short(missing, now if node_type in ledger.met else ledger.asked.since)


def check_extra(
    ledger: PendingReplicas, came: Mapping[str, int], extra: Mapping[str, int], passed: float, patience: ArrivalTimeouts
) -> PendingOutcome:
    """Those that are still to go; once it has taken too long, they are wanted."""
    assert ledger.asked is not None
    who = ", ".join(f"{count} {name}" for name, count in extra.items())
    if passed < max(patience.until(name) for name in extra):
        return PendingOutcome(WAITING, f"{who} still to go", ledger)
    after = replace(
        ledger,
        asked=OrderedReplicas({**ledger.asked.target, **{name: came[name] for name in extra}}, ledger.asked.since),
    )
    stayed = {name: -count for name, count in extra.items()}
    return PendingOutcome(STAYED, f"{who} did not go in {passed:.0f} s", after, failed=stayed)


def cancel_late(
    ledger: PendingReplicas, came: Mapping[str, int], late: Mapping[str, Short], now: float, patience: ArrivalTimeouts
) -> PendingOutcome:
    assert ledger.asked is not None
    target = ledger.asked.target
    lowered = lower(target, came, late)
    if lowered == target:
        return order_again(ledger, late, now, patience)
    missed = dict(ledger.missed)
    for name in late:
        times = missed[name].times + 1 if name in missed else 1
        missed[name] = Missed(times, now + patience.pause(times), came.get(name, 0))
    waits = ", ".join(f"{name} for {missed[name].until - now:.0f} s" for name in late)
    longest = max(now - one.since for one in late.values())
    says = f"{describe_missing(ledger, late)} did not come in {longest:.0f} s; given back, and no more {waits}"
    short = {name: one for name, one in ledger.short.items() if name not in late}
    met = (ledger.met | set(late)) - {name for name in lowered if lowered[name] > target.get(name, 0)}
    after = replace(ledger, asked=OrderedReplicas(lowered, now), short=short, met=met, missed=missed)
    return PendingOutcome(FAILED, says, after, lowered, {name: one.missing for name, one in late.items()})


def order_again(
    ledger: PendingReplicas, late: Mapping[str, Short], now: float, patience: ArrivalTimeouts
) -> PendingOutcome:
    """One replica of the only type there is: whoever took the order for it may not look whether it lives."""
    ((name, one),) = late.items()
    what = describe_missing(ledger, late)
    before = ledger.missed.get(name)
    # What was missed while others served says nothing of the last one.
    times = 0 if before is None or before.had else before.times
    if before is not None and times and now < before.until:
        return PendingOutcome(WAITING, f"{what} to come, and asked for again in {before.until - now:.0f} s", ledger)
    until = now + patience.pause(times + 1)
    says = f"{what} did not come in {now - one.since:.0f} s; asked for again, and not once more for {until - now:.0f} s"
    after = replace(
        ledger,
        short={**ledger.short, name: Short(one.missing, now)},
        missed={**ledger.missed, name: Missed(times + 1, until, 0)},
    )
    return PendingOutcome(FAILED, says, after, ledger.target(), {name: one.missing})


def lower(target: Mapping[str, int], came: Mapping[str, int], late: Mapping[str, Short]) -> dict[str, int]:
    """To what is there of the types that are late; one of the next type where nothing would be left."""
    lowered = {name: came.get(name, 0) if name in late else count for name, count in target.items()}
    if not any(lowered.values()):
        names = list(target)
        after = names.index(next(iter(late))) + 1
        lowered[names[after % len(names)]] = 1
    return lowered


def describe_missing(ledger: PendingReplicas, short: Mapping[str, Short]) -> str:
    return ", ".join(
        f"{one.missing} {name}{' that was lost' if name in ledger.met else ''}" for name, one in short.items()
    )


def find_refusal(ledger: PendingReplicas, node_type: str, now: float) -> str | None:
    """Why one more of this type should not be asked for now, or None."""
    missed = ledger.missed.get(node_type)
    if missed is None or now >= missed.until:
        return None
    often = "once" if missed.times == 1 else f"{missed.times} times in a row"
    return f"a replica of {node_type} was asked for and did not come, {often}; not again for {missed.until - now:.0f} s"
