"""Sources that are set for an application: the daemon reads what is new there into samples, by a real Spark."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scaler.model.errors import BadInput
from tests.pipeline import logs
from tuner.retuning.ingestion import read_sources
from tuner.retuning.state import DaemonContext
from tuner.store.connection import open_store
from tuner.store.samples import count_samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.xdist_group("spark")
def test_what_is_new_in_the_sources_becomes_samples(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "logs"
    source.mkdir()
    logs.write(source / "log", logs.large(0.2))
    with closing(open_store(tmp_path / "t.db")) as store:
        hand = DaemonContext(store, "me")
        read_sources(hand, "shop", [str(source)], 60.0)
        with store.read() as session:
            first = count_samples(session, "shop")
        read_sources(hand, "shop", [str(source)], 60.0)
        with store.read() as session:
            assert count_samples(session, "shop") == first
    assert sum(first.values()) > 0


def test_a_source_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "t.db")) as store, pytest.raises(BadInput, match="nowhere"):
        read_sources(DaemonContext(store, "me"), "shop", [str(tmp_path / "nowhere")], 60.0)
