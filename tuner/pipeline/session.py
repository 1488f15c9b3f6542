"""Start a Spark session; a local one listens on loopback alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tuner.pipeline.java import provide_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "ERROR",
}


def start_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start a session on `master`; a local one listens on loopback alone."""
    from pyspark.sql import SparkSession

    provide_java(os.environ)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else the first python3 on PATH, which knows nothing
    builder = SparkSession.builder.master(master).appName("stream-scaler")
    for key, value in {**DEFAULTS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
