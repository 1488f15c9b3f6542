"""Build the application that the simulator replays from a surrogate and a description.

An operator whose response times are those of micro-batches gets its batches, and is replayed as it was fitted on the
plant `batches`. Any other is a queue: what a tuple spends besides the M/G/1 term, waiting for schedulers, is one
constant per operator, which is taken off R_max before bounds are searched.

Reconfigurations hold what was measured in their direction; where that is not known, what Spark's loads of the stores
take, and where the state is not known either, what all reconfigurations hold alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from scaler.model.errors import BadInput
from scaler.model.hold import HoldTime, HoldTimes
from scaler.model.micro_batches import MicroBatches
from scaler.model.nodes import Supply
from scaler.model.task import Moments
from sim.application import Application, Operator, paths
from sim.infrastructure import Infrastructure
from tuner.pipeline.flows import Selectivity
from tuner.surrogate.estimate import Estimate
from tuner.surrogate.response_models import BATCHES, to_micro_batches
from tuner.surrogate.surrogate import LearnedSupply, OperatorSurrogate, Surrogate, find_operator


def build_application(
    surrogate: Surrogate, shape: Application | None = None, flows: Sequence[Selectivity] = ()
) -> Application:
    """The application of this `shape` with the measured moments; `flows` are the selectivities that were measured."""
    if shape is None:
        if len(surrogate.operators) > 1:
            names = ", ".join(o.operator for o in surrogate.operators)
            raise BadInput(
                f"application {surrogate.application!r} has the operators {names}, and nothing says how they are "
                f"joined; describe it with: tuner app add {surrogate.application} FILE.toml"
            )
        only = surrogate.operators[0]
        shape = Application((Operator(only.operator, Moments(only.mean.value, 0.0)),), name=surrogate.application)
    measured = {(flow.operator, flow.downstream): flow.value for flow in flows}
    feeders = {upstream for upstream, _ in measured}
    operators = (apply_measured(find_operator(surrogate, o.name), o, o.name in feeders) for o in shape.operators)
    edges = (replace(e, selectivity=measured.get((e.upstream, e.downstream), e.selectivity)) for e in shape.edges)
    return replace(shape, operators=tuple(operators), edges=tuple(edges), name=surrogate.application)


def apply_measured(fitted: OperatorSurrogate, shape: Operator, edges_measured: bool) -> Operator:
    """What was measured, in place of what was stated; edges measured without an output are of tuples taken in."""
    stated = 1.0 if edges_measured else shape.selectivity
    selectivity = stated if fitted.selectivity is None else fitted.selectivity.value
    found = replace(shape, moments=choose_moments(fitted), selectivity=selectivity, batches=find_batches(fitted))
    state = fitted.state
    if state is not None and state.bytes is not None and state.partitions:
        growth = 0.0 if state.growth is None else max(0.0, state.growth.value)
        found = replace(found, state_bytes=state.bytes, partitions=state.partitions, state_growth=growth)
    hold = find_hold(fitted)
    return found if hold is None else replace(found, hold=hold)


def find_hold(fitted: OperatorSurrogate) -> HoldTimes | None:
    """What was measured of reconfigurations; None where nothing is known, nor of the state."""
    known = {
        one.direction: HoldTime(one.base_s, one.each_s, one.events)
        for one in fitted.reconfiguration
        if one.base_s is not None and one.each_s is not None
    }
    if not known and fitted.state is None:
        return None
    load = None if fitted.state is None else fitted.state.load
    return HoldTimes(known.get("out"), known.get("in"), None if load is None else load.value)


def find_batches(fitted: OperatorSurrogate) -> MicroBatches | None:
    """The fitted batches; None where another model was chosen."""
    if fitted.response is None or fitted.response.model != BATCHES:
        return None
    return to_micro_batches(fitted.response.parameters)


def choose_moments(fitted: OperatorSurrogate) -> Moments:
    """Those measured; of a queue those with which M/G/1 term and constant come nearest to the responses seen."""
    if fitted.replayed is not None and find_batches(fitted) is None:
        parameters = fitted.replayed.parameters
        return Moments(parameters["mean"], parameters["variance"], round(fitted.tuples))
    mean = fitted.mean.value
    return Moments(mean, mean**2 if fitted.variance is None else fitted.variance.value, round(fitted.tuples))


def list_constants(surrogate: Surrogate) -> dict[str, float]:
    """What an answer takes at each queue besides the M/G/1 term; 0 of batches, and where no responses were seen."""
    return {
        o.operator: 0.0 if o.replayed is None or find_batches(o) is not None else o.replayed.parameters["constant"]
        for o in surrogate.operators
    }


def subtract_constants(application: Application, constants: Mapping[str, float], r_max: float) -> float:
    """R_max less the constants of the path that has most of them."""
    names = [operator.name for operator in application.operators]
    sums = {path: sum(constants.get(names[i], 0.0) for i in path) for path in paths(application)}
    path, taken = max(sums.items(), key=lambda item: item[1])
    if taken >= r_max:
        raise BadInput(
            f"R_max is {r_max:g} s, and the path {' -> '.join(names[i] for i in path)} takes {taken:.4g} s for "
            "triggers and scheduling alone; allow more, or trigger more often"
        )
    return r_max - taken


def pool_speeds(surrogate: Surrogate) -> dict[str, Estimate]:
    """Every node type's speed over all operators that showed it: a mean of logarithms, the surer the weightier."""
    found: dict[str, list[Estimate]] = {}
    for operator in surrogate.operators:
        for speedup in operator.speedups:
            if not speedup.assumed and speedup.node_type:
                found.setdefault(speedup.node_type, []).append(speedup.speed)
    return {name: pool(speeds) for name, speeds in found.items()}


def pool(speeds: list[Estimate]) -> Estimate:
    exact = [speed for speed in speeds if speed.error == 0.0]
    if exact or len(speeds) == 1:
        return (exact or speeds)[0]
    weights = [(s.value / s.error) ** 2 for s in speeds]
    middle = sum(w * math.log(s.value) for w, s in zip(weights, speeds, strict=True)) / sum(weights)
    apart = sum(w * (math.log(s.value) - middle) ** 2 for w, s in zip(weights, speeds, strict=True)) / (len(speeds) - 1)
    error = math.sqrt(max(1.0, apart) / sum(weights))  # operators that disagree widen it
    value = math.exp(middle)
    return Estimate(value, value * math.exp(-2.0 * error), value * math.exp(2.0 * error), value * error)


def apply_speeds(infrastructure: Infrastructure, surrogate: Surrogate) -> Infrastructure:
    """The declared node types, as fast as they were seen to be where they were."""
    seen = pool_speeds(surrogate)
    types = tuple(
        replace(node, speedup=seen[node.name].value) if node.name in seen else node for node in infrastructure.types
    )
    return replace(infrastructure, types=types)


def apply_supply(infrastructure: Infrastructure, surrogate: Surrogate, start_stated: bool = False) -> Infrastructure:
    """The node types with the start-up times and losses that were learned, where none are stated.

    `start_stated`: whether the run states one start-up time for all. Of the capacity only a lower bound is known, which
    would bar replicas that there are: it is never taken over.
    """
    learned = {one.node_type: one for one in surrogate.supply}
    types = tuple(
        replace(node, supply=join_supply(node.supply, learned[node.name], start_stated))
        if node.name in learned
        else node
        for node in infrastructure.types
    )
    return replace(infrastructure, types=types)


def join_supply(stated: Supply, learned: LearnedSupply, start_stated: bool) -> Supply:
    start_s = stated.start_s if stated.start_s or start_stated else learned.start_s
    rate = learned.lost_per_hour
    return Supply(stated.capacity, stated.lost_per_hour or (0.0 if rate is None else rate.value), start_s)
