"""Imported once by the process that daemons are forked from: all that a search needs, with its kernels compiled."""

from __future__ import annotations

import warnings

warnings.simplefilter("ignore", DeprecationWarning)

import psycopg  # noqa: E402, F401

import tuner.retuning.loop  # noqa: E402
import tuner.rollout.improvement  # noqa: E402
import tuner.search.engines.gp  # noqa: E402
import tuner.search.tuning_run  # noqa: E402
import tuner.surrogate.fit  # noqa: E402, F401
from scaler.model.task import Moments  # noqa: E402
from sim.simulate import simulate  # noqa: E402
from tests.service.world import describe  # noqa: E402
from tuner.scenario.description import scenario_of  # noqa: E402

simulate(scenario_of({**describe("warm", {"a": Moments(0.02, 0.0)}, 0.1), "trace": {"generator": "diurnal", "low": 50.0,
                      "high": 100.0, "slots": 20}}).settings[0], 0)  # fmt: skip
