"""Files in, one after the other, in pieces, twice, killed on the way; the same samples as of all at once out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from scaler.model.errors import BadInput, Retry
from scaler.model.sample import Sample
from tests.pipeline.lines import find, read_lines, read_lines_here, write_lines
from tests.pipeline.test_fold import NOW, Windows, assert_same, fold_plainly, make_mess
from tuner.pipeline.engine import IngestEngine
from tuner.pipeline.ingest import IngestSummary, IngestTarget, Report, Start, ingest, report_nothing
from tuner.pipeline.local.engine import LocalEngine
from tuner.store.connection import open_store
from tuner.store.samples import load_samples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.xdist_group("spark")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def place(tmp_path: Path) -> IngestTarget:
    return IngestTarget(open_store(tmp_path / "tuner.db"), "shop", tmp_path / "history")


@pytest.fixture(params=["local", "spark"])
def start(request: pytest.FixtureRequest) -> Start:
    """Both engines: what one wrote the other reads, and all of it comes to the same."""
    if request.param == "local":
        engine: IngestEngine = LocalEngine(read_lines_here)
    else:
        from tuner.pipeline.engines.spark_engine import SparkEngine

        engine = SparkEngine(request.getfixturevalue("spark"), read_lines)
    return lambda fresh, rows: engine


def run(start: Start, place: IngestTarget, files: Sequence[Path], report: Report | None = None) -> IngestSummary:
    chosen = report or report_nothing
    return ingest(start, place, find(*files), clock=lambda: NOW, report=chosen)


def saved(place: IngestTarget) -> Windows:
    with place.store.read() as session:
        return {(row.operator, row.node_type, row.start): row for row in load_samples(session, "shop")}


def parts_on_disk(place: IngestTarget) -> set[str]:
    return {path.name for path in place.history.glob("application=shop/part=*")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_any_split_in_any_order_comes_to_the_same(seed: int, start: Start, place: IngestTarget, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    mess = make_mess(seed, 150)
    chunks: list[list[Sample]] = [[] for _ in range(int(rng.integers(2, 5)))]
    for sample in mess:
        for chunk in rng.choice(len(chunks), size=1 + int(rng.random() < 0.2), replace=False):
            chunks[chunk].append(sample)  # one in five is in two files
    for i in rng.permutation(len(chunks)):
        run(start, place, [write_lines(tmp_path / f"{i}.json", chunks[i])])
    assert_same(saved(place), fold_plainly(mess, 60.0))
    assert sum(row.service_n is not None for row in saved(place).values()) > 10


@pytest.mark.slow
def test_a_file_that_grows_is_read_again_and_one_that_does_not_is_not(
    start: Start, place: IngestTarget, tmp_path: Path
) -> None:
    mess = make_mess(4, 80)
    first, second = write_lines(tmp_path / "a.json", mess[:30]), write_lines(tmp_path / "b.json", mess[30:50])
    assert run(start, place, [first, second]).samples == 50
    again = run(start, place, [first, second])
    assert (again.read, again.samples, again.windows) == ((), 0, 0)
    write_lines(second, mess[30:])
    grown = run(start, place, [first, second])
    assert [file.path for file in grown.read] == [str(second)]
    assert [state.known for state in grown.files] == ["same", "grown"]
    assert grown.samples == 30  # the other twenty are in the history
    assert_same(saved(place), fold_plainly(mess, 60.0))


def test_a_later_version_of_a_sample_takes_its_place_and_empties_the_window_it_left(
    start: Start, place: IngestTarget, tmp_path: Path
) -> None:
    early = Sample("shop", "parse", 0.0, 60.0, "progress", "b1", tuples_in=9.0)
    other = replace(early, key="b2", start=300.0, end=360.0, tuples_in=1.0)
    run(start, place, [write_lines(tmp_path / "a.json", [early, other])])
    late = replace(early, start=60.0, end=120.0, tuples_in=5.0)
    write_lines(tmp_path / "a.json", [late])
    result = run(start, place, [tmp_path / "a.json"])
    assert result.files[0].known == "replaced"
    assert {start: row.tuples_in for (_, _, start), row in saved(place).items()} == {60.0: 5.0, 300.0: 1.0}


def test_another_window_folds_all_again(start: Start, place: IngestTarget, tmp_path: Path) -> None:
    mess = make_mess(5, 60)
    files = [write_lines(tmp_path / "a.json", mess)]
    run(start, place, files)
    half = replace(place, window_s=30.0)
    assert run(start, half, files).read == ()
    assert_same(saved(half), fold_plainly(mess, 30.0))


class Killed(BaseException):
    """As a signal would come."""


@pytest.mark.slow
@pytest.mark.parametrize("moment", [1, 2, 3, 4])
def test_interrupted_at_any_moment_nothing_is_lost_nor_counted_twice(
    moment: int, start: Start, place: IngestTarget, tmp_path: Path
) -> None:
    mess = make_mess(6, 80)
    run(start, place, [write_lines(tmp_path / "a.json", mess[:40])])

    def report(doing: str, done: int) -> None:
        if done == moment:
            raise Killed

    write_lines(tmp_path / "b.json", mess[40:])
    with pytest.raises(Killed):
        run(start, place, [tmp_path / "b.json"], report)
    run(start, place, [tmp_path / "b.json"])
    assert_same(saved(place), fold_plainly(mess, 60.0))
    assert len(parts_on_disk(place)) == 2
    assert not list(place.history.glob("application=shop/.windows-*"))


DIE = """
import os, sys
from pathlib import Path
from tests.pipeline.lines import find, read_lines
from tuner.pipeline.ingest import IngestTarget, ingest
from tuner.pipeline.session import start_session
from tuner.pipeline.engines.spark_engine import SparkEngine
from tuner.store.connection import open_store
folder, moment = Path(sys.argv[1]), int(sys.argv[2])
spark = start_session("local[1]", {"spark.sql.shuffle.partitions": "1"})
gateway = spark.sparkContext._gateway.proc
def report(doing, done):
    if done == moment:
        gateway.kill()
        os.kill(os.getpid(), 9)
place = IngestTarget(open_store(folder / "tuner.db"), "shop", folder / "history")
engine = SparkEngine(spark, read_lines)
ingest(lambda fresh, rows: engine, place, find(folder / "a.json"), clock=lambda: 1.7e9, report=report)
"""


@pytest.mark.slow
def test_killed_while_it_saves_it_goes_on_where_it_was(start: Start, place: IngestTarget, tmp_path: Path) -> None:
    mess = make_mess(7, 60)
    write_lines(tmp_path / "a.json", mess)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    died = subprocess.run(
        [sys.executable, "-c", DIE, str(tmp_path), "3"], cwd=ROOT, env=environment, capture_output=True, timeout=300
    )
    assert died.returncode == -9, died.stderr
    assert len(parts_on_disk(place)) == 1
    assert saved(place) == {}
    assert run(start, place, [tmp_path / "a.json"]).samples == len(mess)
    assert_same(saved(place), fold_plainly(mess, 60.0))
    assert len(parts_on_disk(place)) == 1


def test_one_ingest_at_a_time(place: IngestTarget, start: Start, tmp_path: Path) -> None:
    from tuner.pipeline.fine_history import locked, place_history

    with locked(place_history(place.history, "shop")), pytest.raises(Retry, match="another ingest is at work in"):
        run(start, place, [write_lines(tmp_path / "a.json", make_mess(8, 5))])


@pytest.mark.slow
def test_many_small_parts_become_one(
    start: Start, place: IngestTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.pipeline.fine_history.MANY_PARTS", 3)
    mess = make_mess(9, 60)
    for i in range(3):
        run(start, place, [write_lines(tmp_path / f"{i}.json", mess[20 * i : 20 * i + 20])])
    assert len(parts_on_disk(place)) == 1
    run(start, place, [write_lines(tmp_path / "3.json", mess[:5])])
    assert_same(saved(place), fold_plainly(mess, 60.0))


def test_what_is_wrong_is_counted_and_left_out(start: Start, place: IngestTarget, tmp_path: Path) -> None:
    good = Sample("shop", "parse", 0.0, 60.0, "progress", "b1", tuples_in=9.0)
    wrong = [replace(good, key="b2", busy=-1.0), replace(good, key="b3", start=NOW + 9e3, end=NOW + 9e3)]
    turned = replace(good, key="b4", start=70.0, end=50.0)
    result = run(start, place, [write_lines(tmp_path / "a.json", [good, *wrong, turned])])
    assert (result.faults, result.samples) == ({"future": 1, "negative": 1, "turned": 1}, 2)
    assert {start: row.tuples_in for (_, _, start), row in saved(place).items()} == {0.0: 18.0}


def test_a_file_with_nothing_in_it_leaves_no_part(start: Start, place: IngestTarget, tmp_path: Path) -> None:
    assert run(start, place, [write_lines(tmp_path / "a.json", [])]).samples == 0
    assert run(start, place, [tmp_path / "a.json"]).read == ()
    assert saved(place) == {}


@pytest.mark.slow
def test_a_lost_part_is_said(start: Start, place: IngestTarget, tmp_path: Path) -> None:
    import shutil

    from tuner.pipeline.ingest import forget

    mess = make_mess(10, 20)
    run(start, place, [write_lines(tmp_path / "a.json", mess[:10])])
    shutil.rmtree(next(place.history.glob("application=shop/part=*")))
    write_lines(tmp_path / "b.json", mess[10:])
    with pytest.raises(BadInput, match=r"the history lacks .*part=.* put it back, or start over with --forget"):
        run(start, place, [tmp_path / "b.json"])
    forget(place)
    assert saved(place) == {}
    run(start, place, [tmp_path / "a.json", tmp_path / "b.json"])
    assert_same(saved(place), fold_plainly(mess, 60.0))


@pytest.mark.slow
def test_engines_go_on_with_what_the_other_wrote(spark: SparkSession, place: IngestTarget, tmp_path: Path) -> None:
    from tuner.pipeline.engines.spark_engine import SparkEngine

    engines: list[IngestEngine] = [LocalEngine(read_lines_here), SparkEngine(spark, read_lines)]
    mess = make_mess(11, 120)
    for i, upto in enumerate((30, 60, 90, 120)):  # a file that grows, read by turns
        write_lines(tmp_path / "a.json", mess[:upto])
        result = run(lambda fresh, rows, engine=engines[i % 2]: engine, place, [tmp_path / "a.json"])
        assert result.samples == 30  # what the other engine wrote is known
    assert_same(saved(place), fold_plainly(mess, 60.0))
