"""What tests share: one Spark session a worker process, stopped at its end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine proves nothing: no example has a deadline, and none is drawn too slowly.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the tests that take minutes, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """CI has a quarter of an hour; what would take more of it than it tells there is run by hand."""
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: pytest --long runs it"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A real session on two local cores; mark what uses it `xdist_group("spark")`, so that one worker has the JVM."""
    from tuner.pipeline.session import start_session

    scratch = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = start_session("local[2]", {"spark.local.dir": str(scratch), "spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()
