"""Bring an application's executors to their targets: set totals by resource profile, decommission those to go.

Totals are set absolutely and for all profiles at once, so Spark replaces an executor that was lost. Those to go are
decommissioned: they end the tasks they run, move their blocks, and exit. State is in the stream's checkpoint.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from scaler.acting.actuator import Room
from scaler.acting.gateway import Executor, Gateway
from scaler.acting.loans import Loans
from scaler.acting.profiles import Pinned, find_limit, find_worker
from scaler.model.errors import BadInput, Retry, find_pause

LOG = logging.getLogger("scaler.agent")
LONGEST_S = 30.0  # between two tries while Spark refuses
LOAN_SHARE = 0.2  # of the period, after which loans are checked
DEFAULT_PROFILE = 0

# What an application is started with, so that profiles get executors and those that go leave nothing behind.
SETTINGS = {
    "spark.dynamicAllocation.enabled": "true",  # else Spark refuses any profile but the default
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    # Spark's own allocation runs until a scaler that enforces is attached, and all the while beside one that does not.
    # It starts an executor of a profile as the first stage of it is submitted (with 0, stages that no operator is
    # pinned to would wait), and then neither adds nor takes away any for a day: sustainedSchedulerBacklogTimeout
    # follows schedulerBacklogTimeout.
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "100000s",
    "spark.dynamicAllocation.executorIdleTimeout": "100000s",
    "spark.executor.cores": "1",  # else one of the default profile takes a whole worker of a standalone cluster
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
}
NEEDED = ("spark.dynamicAllocation.enabled", "spark.decommission.enabled")


class Executors:
    """The actuator of one application; a thread of its own does whatever may take time."""

    can_count = True

    def __init__(
        self, gateway: Gateway, pinned: Sequence[Pinned], master_url: str | None = None, period: float = 0.5,
        timeout: float = 5.0,
    ) -> None:  # fmt: skip
        """`master_url`: the URL of a standalone master's page, to check that a worker has room for one more."""
        for name in NEEDED:
            if gateway.setting(name, "false") != "true":
                raise BadInput(f"{name} is not true; start the application with --conf {name}=true")
        self.gateway, self.master_url, self.period, self.timeout = gateway, master_url, period, timeout
        self.pinned = {one.operator: one for one in pinned}
        self.stages = {profile: one.stage for one in pinned for profile in one.types.values()}
        self.cores = {profile: one.cores for one in pinned for profile in one.types.values()}
        if len(self.stages) != sum(len(one.types) for one in pinned):
            raise BadInput("two operators share a resource profile; pin each stage to one of its own")
        self.wanted: dict[int, int] = {}  # by profile
        self.loans = Loans(self.stages)
        self.raised: set[int] = set()  # profiles of no operator that got an executor of their own
        self.initial: dict[int, int] = {}  # totals before anything was ordered
        self.accepted: dict[int, int] | None = {}  # totals that Spark accepted last
        self.frozen = False  # Spark's own allocation
        self.ordered = self.handled = self.failures = 0  # numbers of orders
        self.fault: BadInput | Retry | None = None
        self.ended = False
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Stop Spark's own allocation, and serve stages of no operator from now on; else from the first order on."""
        self.freeze()
        with self.changed:
            self.start()

    def freeze(self) -> None:
        if not self.frozen:
            self.gateway.freeze_allocation()
            self.initial = self.gateway.totals()
            self.frozen = True

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        """Executors that take this operator's tasks now, by node type."""
        one = self.find_pinned(operator)
        try:
            serving = Counter(e.made_for for e in self.gateway.executors() if self.loans.owner(e) == one.stage)
        except (BadInput, Retry) as error:
            LOG.warning("executors of operator %r cannot be counted: %s", operator, error)
            return None
        return {node_type: serving[profile] for node_type, profile in one.types.items()}

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:
        """When each executor made for this operator registered, lent ones too, by node type."""
        one = self.find_pinned(operator)
        try:
            executors = self.gateway.executors()
        except (BadInput, Retry):
            return None
        return {name: [e.since for e in executors if e.made_for == profile] for name, profile in one.types.items()}

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        """By Spark's limits and the workers' free places; types of one change share the limits."""
        one = self.find_pinned(operator)
        try:
            executors = self.gateway.executors()
        except (BadInput, Retry):
            return Room(more)
        there = Counter(executor.made_for for executor in executors)
        with self.changed:
            coming = Counter({p: n - there[p] for p, n in self.wanted.items() if n > there[p]})
        taken = sum(e.cores for e in executors) + sum(n * self.cores[p] for p, n in coming.items())
        places, reasons = {}, []
        for node_type, count in more.items():
            if node_type not in one.types:
                places[node_type] = 0
                reasons.append(f"operator {operator!r} has no profile for node type {node_type!r}")
                continue
            profile = one.types[node_type]
            free, why = find_limit(self.gateway.setting, there[profile] + coming[profile], taken, one.cores, count)
            if free and self.master_url is not None:
                # Operators compete for the workers of a type: those to come of all of them need a place there.
                alike = [other.types[node_type] for other in self.pinned.values() if node_type in other.types]
                pending, here = sum(coming[p] for p in alike), sum(there[p] for p in alike)
                free, lacking = find_worker(self.master_url, one, node_type, pending, here, free)
                why = lacking or why
            places[node_type] = free
            reasons += [why] if why else []
            coming[profile] += free
            taken += free * one.cores
        return Room(places, "; ".join(reasons))

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        """Order totals; types that the target leaves out get none. What Spark refuses or delays is withdrawn."""
        profiles = self.check_target(self.find_pinned(operator), target)
        with self.changed:
            if self.ended:
                raise Retry("the actuator is closed")
            before = {profile: self.wanted.get(profile) for profile in profiles}
            self.wanted |= profiles
            self.ordered += 1
            number = self.ordered
            self.start()
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.handled >= number or self.ended, self.timeout)
            refused = self.fault if self.handled >= number else Retry(f"Spark took no order within {self.timeout:g} s")
            if refused is None:
                return
            for profile, count in before.items():
                if self.wanted.get(profile) == profiles[profile]:
                    self.wanted.pop(profile)
                    if count is not None:
                        self.wanted[profile] = count
        raise type(refused)(*refused.args)

    def check_target(self, one: Pinned, target: Mapping[str, int]) -> dict[int, int]:
        for node_type, count in target.items():
            if node_type not in one.types:
                raise BadInput(f"operator {one.operator!r} has no node type {node_type!r}, only {', '.join(one.types)}")
            if count < 0:
                raise BadInput(f"operator {one.operator!r} cannot have {count} replicas of {node_type!r}")
        return {profile: int(target.get(node_type, 0)) for node_type, profile in one.types.items()}

    def find_pinned(self, operator: str) -> Pinned:
        if operator not in self.pinned:
            raise BadInput(f"operator {operator!r} is not pinned to a resource profile; see profiles.pin")
        return self.pinned[operator]

    def start(self) -> None:
        if self.thread is None and not self.ended:
            self.thread = threading.Thread(target=self.run, name="scaler-executors", daemon=True)
            self.thread.start()

    def run(self) -> None:
        """Until closed: bring Spark's totals and its executors to what is ordered, again and again."""
        while True:
            with self.changed:
                period = self.period if not self.loans.lent else LOAN_SHARE * self.period
                pause = find_pause(self.failures + 1, period, LONGEST_S)
                self.changed.wait_for(lambda: self.ended or self.ordered > self.handled, pause)
                if self.ended:
                    return
                number, wanted = self.ordered, dict(self.wanted)
            fault = self.reconcile(wanted)
            with self.changed:
                self.fault, self.handled = fault, number
                self.failures = self.failures + 1 if fault else 0
                self.changed.notify_all()

    def reconcile(self, wanted: Mapping[int, int]) -> BadInput | Retry | None:
        """Bring totals and executors to what is ordered; returns the fault, as nothing may end the thread."""
        try:
            aims = {**wanted, **self.find_extra()}
            self.set_totals(aims)
            executors = self.gateway.executors()
            with self.changed:
                if self.wanted != wanted:
                    return None  # meanwhile the order was replaced or withdrawn
            for executor in executors:
                stage = self.stages.get(executor.made_for, executor.serves)
                if executor.serves != stage and executor.id not in self.loans.lent:
                    self.gateway.hand_over(executor.id, stage)
            going = [name for profile, count in aims.items() for name in choose_going(executors, profile, count)]
            if going:
                LOG.info("decommissioned executors %s", ", ".join(self.gateway.decommission(going)))
            self.lend(executors)
        except (BadInput, Retry) as error:
            LOG.warning("%s", error)
            return error
        except Exception as error:
            LOG.exception("executors could not be steered")
            return Retry(f"executors could not be steered: {error}")
        return None

    def lend(self, executors: Sequence[Executor]) -> None:
        """Lend executors to stages of no operator; orders of operators do not depend on it."""
        try:
            plan = self.loans.plan(self.gateway.stages(), executors, time.monotonic())
            made_for = {executor.id: executor.made_for for executor in executors}
            for name, profile in plan.lend.items():
                LOG.info("executor %s serves stages of profile %d, which no executor serves, while they last",
                         name, profile)  # fmt: skip
                self.loans.lent[name] = profile
                self.gateway.hand_over(name, profile)
            for name in plan.give_back:
                self.gateway.hand_over(name, self.stages[made_for[name]])
                del self.loans.lent[name]
        except (BadInput, Retry) as error:
            LOG.warning("stages of no operator may have to wait: %s", error)

    def find_extra(self) -> dict[int, int]:
        """Totals of the profiles of no operator that have, or had, an executor of their own."""
        self.raised |= set(self.loans.extra)
        return {p: max(self.initial.get(p, 0), int(p in self.loans.extra)) for p in self.raised}

    def set_totals(self, aims: Mapping[int, int]) -> None:
        """Set all totals, unless Spark has accepted these and still has them; those of others stay as they are."""
        self.freeze()
        totals = self.gateway.totals()
        if self.accepted == aims and all(totals.get(profile) == count for profile, count in aims.items()):
            return
        self.accepted = None
        # Spark remembers a total that its cluster manager refused: what is not wanted goes back to what was found.
        ours = {profile: self.initial.get(profile, 0) for profile in self.stages if profile in totals}
        self.gateway.request_totals({**totals, **ours, **aims})
        self.accepted = dict(aims)

    def close(self) -> None:
        """Executors and totals stay; Spark's own allocation stays stopped, so that stages of no operator get one."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()
        if self.thread is not None:
            self.thread.join(self.timeout)
            self.thread = None
            self.end_loans()

    def end_loans(self) -> None:
        try:
            for executor in self.gateway.executors():
                if executor.id in self.loans.lent:
                    self.gateway.hand_over(executor.id, self.stages[executor.made_for])
            self.loans.lent.clear()
            totals = self.gateway.totals()
            if self.frozen and not totals.get(DEFAULT_PROFILE):
                self.gateway.request_totals({**totals, DEFAULT_PROFILE: 1})
        except (BadInput, Retry) as error:  # the session may have ended before
            LOG.debug("loans could not be ended: %s", error)


def choose_going(executors: Sequence[Executor], profile: int, count: int) -> list[str]:
    """Which of those made for the profile are too many: the idle first, then who holds the least, then the newest."""
    mine = [executor for executor in executors if executor.made_for == profile]
    mine.sort(key=lambda executor: (executor.running, executor.held, -executor.since, executor.id))
    return [executor.id for executor in mine[: max(0, len(mine) - count)]]
