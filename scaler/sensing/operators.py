"""Find the operators of a session's streaming queries.

A query is an operator; one whose stages have several resource profiles of their own is an operator a profile, named
query/profileN as the tuner's pipeline names them. Stages in the default profile beside others are nobody's. What
`scaler.pin` made of an operator is known by the profile of its stage, and gives it its name.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scaler.acting.profiles import Pinned
from scaler.model.errors import BadInput
from scaler.sensing.driver import Driver, walk_plan

LOG = logging.getLogger("scaler.agent")
MISSES_TO_WARN = 5  # polls without a pinned operator while queries run
PROFILE_NODES = (
    "MapInPandas",
    "MapInArrow",
    "PythonMapInArrow",
)  # nodes of plans that a resource profile can be given to


@dataclass(frozen=True, slots=True)
class StreamOperator:
    name: str
    query: str  # id, which restarts from a checkpoint keep
    run: str
    profiles: tuple[int, ...] = ()  # of its stages; none: the default one, or not known
    entry: bool = True  # what arrives at the query arrives here
    leaving: bool = True  # what the query writes is written here


def find_operators(spark: Any, queries: Iterable[Any] | None = None) -> tuple[StreamOperator, ...]:
    """Operators of these queries (pyspark's, or their names or ids), or of all that are active; in their order."""
    driver = Driver(spark)
    active = driver.list_queries() if queries is None else [pick_query(driver, query) for query in queries]
    return tuple(operator for query in active for operator in read_query(query))


class PinnedOperators:
    """Find pinned operators among those that run, poll after poll, and warn once of each that is never found."""

    def __init__(self, pinned: Iterable[Pinned]) -> None:
        self.pinned = tuple(pinned)
        self.missed = Counter[str]()  # polls
        self.seen: set[str] = set()

    def find(self, running: Sequence[StreamOperator]) -> list[StreamOperator]:
        """Pinned operators under the names that they were pinned by, with the profiles of all their types."""
        found = []
        for one in self.pinned:
            operator = match_pinned(one, running)
            if operator is not None:
                self.seen.add(one.operator)
                found.append(replace(operator, name=one.operator, profiles=tuple(one.types.values())))
            elif running and one.operator not in self.seen:
                self.miss(one, running)
        return found

    def miss(self, one: Pinned, running: Sequence[StreamOperator]) -> None:
        self.missed[one.operator] += 1
        if self.missed[one.operator] == MISSES_TO_WARN:
            LOG.warning(
                "operator %r is pinned and not scaled: no streaming query has a stage with its profile, number %d "
                "(found: %s); give the stage profile=, or the query its name",
                one.operator,
                one.stage,
                ", ".join(operator.name for operator in running),
            )


def match_pinned(one: Pinned, running: Iterable[StreamOperator]) -> StreamOperator | None:
    """Match by the profile of the stage, whatever the query's name; by name where profiles are not known."""
    fits = [o for o in running if one.stage in o.profiles or (not o.profiles and o.name == one.operator)]
    return min(fits, key=lambda operator: (not operator.profiles, operator.name != one.operator), default=None)


def pick_query(driver: Driver, query: Any) -> Any:
    if not isinstance(query, str):
        if not hasattr(query, "_jsq"):
            raise BadInput(f"{query!r} is no streaming query; hand over what writeStream.start() returned, or its name")
        return query._jsq
    active = driver.list_queries()
    for found in active:
        if query in (found.name(), found.id().toString()):
            return found
    names = ", ".join(sorted(str(found.name() or found.id().toString()) for found in active)) or "none"
    raise BadInput(f"no streaming query {query!r} is active; active are: {names}")


def read_query(query: Any) -> tuple[StreamOperator, ...]:
    identity, run = query.id().toString(), query.runId().toString()
    return name_operators(query.name() or identity[:8], identity, run, find_profiles(query))


def name_operators(name: str, query: str, run: str, profiles: Sequence[int]) -> tuple[StreamOperator, ...]:
    """Operators of a query; `profiles`: those of its own stages, in the order in which they work."""
    if len(profiles) < 2:
        return (StreamOperator(name, query, run, tuple(profiles)),)
    last = len(profiles) - 1
    return tuple(
        StreamOperator(f"{name}/profile{profile}", query, run, (profile,), entry=i == 0, leaving=i == last)
        for i, profile in enumerate(profiles)
    )


def find_profiles(query: Any) -> list[int]:
    """Profiles in the order in which tuples meet them; none where the plan cannot be read."""
    try:
        found = [read_profile(node) for node in walk_plan(query.streamingQuery().analyzedPlan())]
    except Exception as error:  # it is internal to Spark, and other versions may have it elsewhere
        LOG.debug("the plan of a streaming query could not be read", exc_info=error)
        return []
    return list(dict.fromkeys(profile for profile in found if profile))


def read_profile(node: Any) -> int:
    """Resource profile of a node of a plan; 0 where it has none."""
    if node.getClass().getSimpleName() not in PROFILE_NODES:
        return 0
    profile = node.profile()
    return int(profile.get().id()) if profile.isDefined() else 0
