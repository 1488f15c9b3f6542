"""What the simulator is given: the same moments, the same responses as predicted, and a file that reads back."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scaler.model.errors import BadInput
from scaler.model.micro_batches import steady_response
from scaler.model.nodes import NodeType
from scaler.model.task import Moments
from sim.application import Application, Edge, Operator, read_application
from sim.infrastructure import Infrastructure
from sim.setting import Setting
from sim.simulate import simulate
from sim.trace import Trace
from tests.surrogate.worlds import batch_stream, queue_stream
from tuner.scenario.document import format_application
from tuner.surrogate.fit import fit
from tuner.surrogate.fitted_application import (
    apply_speeds,
    build_application,
    list_constants,
    pool_speeds,
    subtract_constants,
)
from tuner.surrogate.surrogate import Surrogate, find_operator

DECLARED = (NodeType("small", 1.0, 1.0), NodeType("big", 2.0, 2.0), NodeType("huge", 4.0, 3.5))


@cache
def fitted() -> Surrogate:
    samples = queue_stream("gamma", 100, operator="parse", replicas=(("small", 1), ("big", 1)), speeds=(("big", 1.7),))
    return fit([*samples, *batch_stream(100, operator="count")], "shop", node_types=DECLARED)


def shape() -> Application:
    stated = Moments(1.0, 1.0)
    operators = (Operator("parse", stated, k_max=7), Operator("count", stated, k_max=5, stateful=True))
    return Application(operators, (Edge("parse", "count", 0.5),), {"parse": 2.0}, "drawn")


def test_measured_figures_replace_stated_ones_and_the_rest_stays() -> None:
    application = build_application(fitted(), shape())
    parse, count = application.operators
    assert (application.name, application.edges, application.sources) == ("shop", shape().edges, {"parse": 2.0})
    assert (parse.k_max, count.k_max, count.stateful) == (7, 5, True)
    assert parse.moments.mean == pytest.approx(0.02, rel=0.02)
    assert parse.moments.variance == pytest.approx(0.0002, rel=0.05)
    assert parse.moments.tuples > 100_000
    assert (parse.selectivity, count.selectivity) == (pytest.approx(2.0), pytest.approx(1.0))


def test_fitted_batches_give_the_responses_seen() -> None:
    count = build_application(fitted(), shape()).operators[1]
    points = [p for p in find_operator(fitted(), "count").points if p.held_out]
    b = count.batches
    assert b is not None
    assert (count.moments.mean, list_constants(fitted())["count"]) == (pytest.approx(0.004, rel=0.02), 0.0)
    replayed = [steady_response(b.trigger_s, b.overhead_s, b.delay_s, b.part, b.work * p.utilisation) for p in points]
    errors = [abs(r / p.observed - 1.0) for r, p in zip(replayed, points, strict=True)]
    assert np.mean(errors) < 0.15


def test_the_file_reads_back_as_the_same_application(tmp_path: Path) -> None:
    application = build_application(fitted(), shape())
    path = tmp_path / "shop.toml"
    path.write_text(format_application(application))
    back = read_application(path)
    same = [replace(o, moments=replace(o.moments, tuples=0)) for o in application.operators]
    assert back == replace(application, operators=tuple(same))


def test_one_operator_needs_no_edges_and_several_do() -> None:
    single = replace(fitted(), operators=fitted().operators[:1])
    assert [o.name for o in build_application(single).operators] == [single.operators[0].operator]
    with pytest.raises(BadInput, match="has the operators count, parse, and nothing says how they are joined"):
        build_application(fitted())
    with pytest.raises(BadInput, match="has no operator 'other'; it has count, parse"):
        build_application(fitted(), Application((Operator("other", Moments(1.0, 1.0)),)))


def test_the_constants_of_the_longest_path_are_taken_off() -> None:
    constants = list_constants(fitted())
    assert constants["parse"] == pytest.approx(0.05, rel=0.05)
    left = subtract_constants(shape(), constants, 3.0)
    assert left == pytest.approx(3.0 - sum(constants.values()))
    with pytest.raises(BadInput, match=r"R_max is 0\.04 s, and the path parse -> count takes .* allow more"):
        subtract_constants(shape(), constants, 0.04)


def test_speeds_are_those_seen_and_else_those_declared() -> None:
    speedups = {s.node_type: s for s in find_operator(fitted(), "parse").speedups}
    assert not speedups["big"].assumed
    assert (speedups["small"].speed.value, speedups["small"].speed.error) == (1.0, 0.0)
    assert speedups["big"].speed.low <= 1.7 <= speedups["big"].speed.high
    assert (speedups["huge"].assumed, speedups["huge"].speed.value) == (True, 4.0)
    assert "huge" not in pool_speeds(fitted())
    types = apply_speeds(Infrastructure("own", DECLARED, 3.5), fitted()).types
    assert [t.price for t in types] == [1.0, 2.0, 3.5]
    assert types[1].speedup / types[0].speedup == pytest.approx(1.7, rel=0.03)
    assert types[2].speedup == 4.0


def test_the_simulator_replays_on_it() -> None:
    application = build_application(fitted(), shape())
    trace = Trace(np.full(500, 20.0), 60.0)
    left = subtract_constants(application, list_constants(fitted()), 5.0)
    setting = Setting(
        application, Infrastructure("own", DECLARED[:2], 2.0), trace, "threshold-c", left, plant="batches"
    )
    run = simulate(setting, seed=0)
    assert 0.0 <= run.violations <= 1.0
    assert run.resources > 0.0
