"""Compare ordered replicas with those that serve: arrived, pending, timed out and cancelled.

A replica that misses the deadline of its node type is cancelled: the target falls to what serves, so that nothing
arrives and is paid long after it was needed. The type is then backed off, for twice as long after each further miss.
An operator without any replica never gets a target of none: one is ordered, of each type in turn, and of an only type
again and again, after pauses that double. Replicas that were to go and stay beyond the deadline count as wanted.
A decision that waited for the one before it would add a replica each time that one arrives; one that counts pending
replicas (`expect_arrivals`) adds as many as are needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scaler.model.errors import find_pause
from scaler.model.nodes import Deployment, NodeType
from scaler.model.policy import Observation

REACHED, WAITING, FAILED, STAYED, UNKNOWN, NOTHING_ORDERED = (
    "reached", "waiting", "failed", "stayed", "unknown", "nothing ordered",
)  # fmt: skip
SATURATED = 1.0


@dataclass(frozen=True, slots=True)
class ArrivalTimeouts:
    """Seconds."""

    arrival: Mapping[str, float] = field(default_factory=dict)  # by node type, from the order until it serves
    default: float = 120.0  # for types that it leaves out
    back_off: float = 300.0  # after a first miss
    longest: float = 3600.0

    def find_timeout(self, node_type: str) -> float:
        return self.arrival.get(node_type, self.default)

    def pause(self, misses: int) -> float:
        return find_pause(misses, self.back_off, self.longest)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Missing replicas of a type, and since when no further one arrived."""

    missing: int
    since: float


@dataclass(frozen=True, slots=True)
class Miss:
    """Replicas of a type timed out: how often in a row, until when the type is backed off, how many served."""

    times: int
    until: float
    serving: int


@dataclass(frozen=True, slots=True)
class PendingReplicas:
    """Orders of one operator."""

    target: Mapping[str, int] = field(default_factory=dict)  # empty: nothing was ordered
    since: float = 0.0  # of the target
    short: Mapping[str, Shortage] = field(default_factory=dict)
    met: frozenset[str] = frozenset()  # types that were once all there, so that what is missing was lost
    missed: Mapping[str, Miss] = field(default_factory=dict)
    rest: Mapping[str, int] = field(default_factory=dict)  # still to order (below 0: to remove); see staged_change

    @property
    def goal(self) -> dict[str, int]:
        """The target once all of the changes under way is ordered."""
        return {name: count + self.rest.get(name, 0) for name, count in self.target.items()}

    def count_unsettled(self, serving: Mapping[str, int]) -> dict[str, int]:
        """Replicas still to come (below 0: to go) until the goal is reached, by node type; without those that are."""
        missing = {name: count - serving.get(name, 0) for name, count in self.goal.items()}
        return {name: count for name, count in missing.items() if count or self.rest.get(name)}


@dataclass(frozen=True, slots=True)
class PendingOutcome:
    state: str
    message: str
    pending: PendingReplicas
    new_target: Mapping[str, int] | None = None  # to apply: the lowered target, or the same where none is lower
    failed: Mapping[str, int] = field(default_factory=dict)  # replicas that did not come (or go: less than 0), by type
    late: Mapping[str, int] = field(default_factory=dict)  # of these, ordered ones that missed their deadline


def order(pending: PendingReplicas, target: Mapping[str, int], now: float) -> PendingReplicas:
    """Record a target that the actuator accepted; what is pending keeps its deadline, though more be ordered."""
    if pending.target == target:
        return pending
    before = pending.target
    same = {name for name, count in target.items() if before.get(name) == count}
    short = {name: one for name, one in pending.short.items() if name in same}
    for name, count in target.items():
        more = count - before.get(name, 0)
        if name in pending.short and more > 0:  # of those that come, each renews the deadline
            one = pending.short[name]
            short[name] = replace(one, missing=one.missing + more)
    return replace(pending, target=dict(target), since=now, short=short, met=pending.met & same)


def compare(
    pending: PendingReplicas, serving: Mapping[str, int] | None, now: float, timeouts: ArrivalTimeouts | None = None
) -> PendingOutcome:
    """Compare with the replicas that serve; None where these are not known, and then deadlines wait."""
    timeouts = timeouts or ArrivalTimeouts()
    target = pending.target
    if not target:
        return PendingOutcome(NOTHING_ORDERED, "nothing was ordered", pending)
    if serving is None:
        return PendingOutcome(UNKNOWN, "how many replicas serve cannot be told now", pending)
    short = {name: find_shortage(pending, name, count - serving.get(name, 0), now) for name, count in target.items()}
    short = {name: one for name, one in short.items() if one.missing > 0}
    late = {name: one for name, one in short.items() if now - one.since >= timeouts.find_timeout(name)}
    met = pending.met | {name for name in target if name not in short}
    missed = {n: one for n, one in pending.missed.items() if n in short or serving.get(n, 0) <= one.serving}
    found = replace(pending, short=short, met=met, missed=missed)
    if late:
        return cancel_late(found, serving, late, now, timeouts)
    if short:
        return PendingOutcome(WAITING, f"{describe_missing(found, short)} to come", found)
    extra = {name: count - target.get(name, 0) for name, count in serving.items() if count > target.get(name, 0)}
    if not extra and found.rest:
        return PendingOutcome(WAITING, f"{describe_rest(found)} once all that is ordered serves", found)
    if not extra:
        return PendingOutcome(REACHED, "all ordered replicas serve, and no others", found)
    who, passed = ", ".join(f"{count} {name}" for name, count in extra.items()), now - pending.since
    if passed < max(map(timeouts.find_timeout, extra)):
        return PendingOutcome(WAITING, f"{who} still to go", found)
    after = replace(found, target={**target, **{name: serving[name] for name in extra}}, rest={})
    stayed = add_up(found.rest, {name: -count for name, count in extra.items()})
    return PendingOutcome(STAYED, f"{who} did not go in {passed:.0f} s", after, failed=stayed)


def find_shortage(pending: PendingReplicas, node_type: str, missing: int, now: float) -> Shortage:
    """How short the type is; each replica that comes gives the others a deadline of their own."""
    before = pending.short.get(node_type)
    if before is not None:
        return Shortage(missing, now if missing < before.missing else before.since)
    return Shortage(missing, now if node_type in pending.met else pending.since)


def cancel_late(
    pending: PendingReplicas, serving: Mapping[str, int], late: Mapping[str, Shortage], now: float,
    timeouts: ArrivalTimeouts,
) -> PendingOutcome:  # fmt: skip
    """Lower the target to what serves of the late types; one of the next type where nothing would be left."""
    target = pending.target
    lowered = {name: serving.get(name, 0) if name in late else count for name, count in target.items()}
    if not any(lowered.values()):
        names = list(target)
        lowered[names[(names.index(next(iter(late))) + 1) % len(names)]] = 1
    if lowered == target:
        return order_again(pending, late, now, timeouts)
    missed = dict(pending.missed)
    for name in late:
        times = missed[name].times + 1 if name in missed else 1
        missed[name] = Miss(times, now + timeouts.pause(times), serving.get(name, 0))
    waits = ", ".join(f"{name} for {missed[name].until - now:.0f} s" for name in late)
    longest = max(now - one.since for one in late.values())
    message = f"{describe_missing(pending, late)} did not come in {longest:.0f} s; given back, and no more {waits}"
    short = {name: one for name, one in pending.short.items() if name not in late}
    met = (pending.met | set(late)) - {name for name in lowered if lowered[name] > target.get(name, 0)}
    after = replace(pending, target=lowered, since=now, short=short, met=met, missed=missed, rest={})
    given_up = {name: one.missing for name, one in late.items()}
    if pending.rest:
        message = f"{message}; {describe_rest(pending)} was given up with it"
    return PendingOutcome(FAILED, message, after, lowered, add_up(pending.rest, given_up), given_up)


def add_up(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """The sum by node type, without zeros."""
    total = {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}
    return {name: count for name, count in total.items() if count}


def order_again(
    pending: PendingReplicas, late: Mapping[str, Shortage], now: float, timeouts: ArrivalTimeouts
) -> PendingOutcome:
    """Order the only replica of the only type again: the actuator may not check that it is alive."""
    ((name, one),) = late.items()
    what = describe_missing(pending, late)
    before = pending.missed.get(name)
    # What was missed while others served says nothing of the last one.
    times = 0 if before is None or before.serving else before.times
    if before is not None and times and now < before.until:
        return PendingOutcome(WAITING, f"{what} to come, and ordered again in {before.until - now:.0f} s", pending)
    pause = timeouts.pause(times + 1)
    message = f"{what} did not come in {now - one.since:.0f} s; ordered again, and not once more for {pause:.0f} s"
    short = {**pending.short, name: replace(one, since=now)}
    after = replace(pending, short=short, missed={**pending.missed, name: Miss(times + 1, now + pause, 0)})
    missing = {name: one.missing}
    return PendingOutcome(FAILED, message, after, pending.target, missing, missing)


def describe_missing(pending: PendingReplicas, short: Mapping[str, Shortage]) -> str:
    lost = {name: " that was lost" if name in pending.met else "" for name in short}
    return ", ".join(f"{one.missing} {name}{lost[name]}" for name, one in short.items())


def describe_rest(pending: PendingReplicas) -> str:
    """ "-1 large, +2 small": what is still to be ordered."""
    return ", ".join(f"{delta:+d} {name}" for name, delta in pending.rest.items())


def find_refusal(pending: PendingReplicas, node_type: str, now: float) -> str | None:
    """Why one more of this type should not be ordered now, or None."""
    missed = pending.missed.get(node_type)
    if missed is None or now >= missed.until:
        return None
    often = "once" if missed.times == 1 else f"{missed.times} times in a row"
    return f"a replica of {node_type} was ordered and did not come, {often}; not again for {missed.until - now:.0f} s"


def expect_arrivals(seen: Observation, target: Deployment, nodes: Sequence[NodeType]) -> Observation:
    """Predict the operator once its pending replicas serve; what serves beyond the target is on its way out.

    The arrival rate stays, and the work seen is shared with the pending replicas by the speed of the slowest. Their
    response time is not known before they serve.
    """
    now, then = find_speed(seen.deployment, nodes), find_speed(target, nodes)
    share = 1.0 if then <= 0.0 or (seen.utilisation == SATURATED and then > now) else now / then
    return replace(seen, deployment=target, utilisation=share * seen.utilisation)


def find_speed(deployment: Deployment, nodes: Sequence[NodeType]) -> float:
    """Replicas' worth of work under an even split."""
    speeds = [node.speedup for node, n in zip(nodes, deployment.replicas, strict=True) if n > 0]
    return deployment.parallelism * min(speeds, default=0.0)


def describe_pending(seen: Deployment, target: Deployment, names: Sequence[str]) -> str:
    """ "2 on small, now 1"."""
    pairs = zip(names, target.replicas, seen.replicas, strict=True)
    return ", ".join(f"{wanted} on {name}, now {there}" for name, wanted, there in pairs if wanted != there)
