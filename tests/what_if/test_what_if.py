"""`tuner what-if`: one event log in, the answer for other numbers of executors out, against records known by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from tests.pipeline import logs
from tests.pipeline.logs import START, Job, Task
from tests.what_if.record import FIXED_MS, LAST_MS, TASKS, make_query, read, stamp, write_log
from tuner.cli import main
from tuner.pipeline.sources import task_lines
from tuner.views.what_if_table import describe_answer, list_rows
from tuner.what_if.batches_on_executors import model_query
from tuner.what_if.recorded_batches import read_queries
from tuner.what_if.what_if import WhatIf, ask, parse_numbers

WAVING = [int(size) for size in 800 + 300 * np.sin(np.arange(120) / 9.0)]


def run(*arguments: object) -> tuple[int, str]:
    shown = CliRunner().invoke(main, ["what-if", *map(str, arguments)])
    return shown.exit_code, shown.output


def sentences(answer: WhatIf) -> str:
    return "\n".join(describe_answer(answer))


def test_recorded_executors_get_their_own_durations_back(tmp_path: Path) -> None:
    query = read(write_log(tmp_path, [80, 160, 240, 80, 400]))
    model = model_query(query)
    assert model.gap_s == pytest.approx(0.0, abs=1e-9)
    assert model.place(1).placed == pytest.approx([batch.duration_s for batch in query.batches])


@pytest.mark.parametrize(("executors", "waves"), [(1, 4), (2, 2), (3, 2), (4, 1), (8, 1)])
def test_other_executors_run_tasks_in_waves(tmp_path: Path, executors: int, waves: int) -> None:
    query = read(write_log(tmp_path, [80, 160, 240]))
    expected = [(FIXED_MS + waves * size * 10 / TASKS + LAST_MS) / 1000.0 for size in (80, 160, 240)]
    assert model_query(query).place(executors).placed == pytest.approx(expected)


def test_answer_names_the_least_and_the_useful_executors(tmp_path: Path) -> None:
    answer = ask(read(write_log(tmp_path, WAVING, cores=2)), range(1, 9), 5.5, 0.95, 2.0)
    assert answer.recorded_executors == 1
    assert [one.as_quick for one in answer.predictions] == [None, None, 2, None, 4, 4, 4, 4]  # eight tasks, two slots
    assert answer.scaling.useful == 4
    means = [one.batch_mean_s for one in answer.predictions]
    assert means == sorted(means, reverse=True)
    assert answer.least == 4 or answer.predictions[(answer.least or 9) - 2].p95_s > 5.5
    assert [one.price_per_hour for one in answer.predictions] == [2.0 * k for k in range(1, 9)]
    assert answer.sizes_seen
    assert "Of these numbers only 1, 2 and 4 are worth having" in sentences(answer)


def test_a_stream_that_one_executor_cannot_carry_falls_behind(tmp_path: Path) -> None:
    path = write_log(tmp_path, [1600, 2400, 2000, 1800, 2200] * 20, cores=8)  # 20 s of work every 5 s on eight slots
    halved = replace(read(path), slots_each=2)
    answer = ask(halved, [1, 2, 4], 12.0, 0.95, 1.0)
    assert [one.behind for one in answer.predictions] == [True, True, False]
    assert answer.least == 4


def test_recorded_overload_needs_a_bound_of_its_own() -> None:
    query = make_query([800.0, 900.0, 850.0] * 20, slots=1)  # 8 s of work every 5 s
    with pytest.raises(BadInput, match="falls behind for good; state the latency bound that you want with --r-max"):
        ask(query, [1, 4], None, 0.95, 1.0)
    assert "with 1 executor, too, the stream falls behind" in sentences(ask(query, [1], 12.0, 0.95, 1.0))
    assert ask(query, [1, 4], 12.0, 0.95, 1.0).least == 4


def test_bound_beyond_reach_is_said_with_what_is_reached() -> None:
    answer = ask(make_query(WAVING), range(1, 9), 0.2, 0.95, 1.0)
    assert answer.least is None
    assert "No number of executors in the table meets it" in sentences(answer)
    assert "No trigger meets it either" in sentences(answer)


@pytest.mark.parametrize(("rest", "said"), [(0.3, False), (2.6, True)])
def test_trigger_without_reserve_is_noted(rest: float, said: bool) -> None:
    answer = ask(make_query([400.0, 420.0] * 20, rest=rest), [2], 20.0, 0.95, 1.0)  # 2.1 s of tasks every 5 s
    assert ("without reserve" in list_rows(answer)[0][-1]) == said


def test_overhead_bound_stream_is_told_to_raise_its_trigger() -> None:
    answer = ask(make_query([100.0, 150.0] * 20, per_record=1e-4, rest=6.0), range(1, 9), 30.0, 0.95, 1.0)
    assert not answer.scaling.helps
    assert answer.scaling.least_trigger_s == pytest.approx(6.0, rel=0.02)
    assert "More executors than recorded cannot help" in sentences(answer)
    assert "The trigger of 5 s is shorter than such batches can be; raise it to 6" in sentences(answer)


def test_warm_up_is_left_out_and_said(tmp_path: Path) -> None:
    answer = ask(read(write_log(tmp_path, [400] * 20, slow=(0, 1))), [1, 2], None, 0.95, 1.0)
    assert answer.left_out == 2
    assert answer.predictions[0].batch_p50_s == pytest.approx((FIXED_MS + 4 * 500 + LAST_MS) / 1000.0)
    assert "2 batches warmed up and are left out of the prediction" in sentences(answer)


@settings(max_examples=30)
@given(st.lists(st.floats(20.0, 900.0), min_size=10, max_size=80), st.floats(3.0, 12.0))
def test_following_the_load_never_costs_more_than_the_least(sizes: list[float], bound: float) -> None:
    answer = ask(make_query(sizes), range(1, 9), bound, 0.9, 1.0)
    if answer.least is None:
        assert answer.hours_following is None
    else:
        assert answer.hours_static == pytest.approx(answer.least * answer.seconds / 3600.0)
        assert 0.0 < (answer.hours_following or 0.0) <= (answer.hours_static or 0.0) * (1 + 1e-9)


def test_following_the_load_saves_where_it_changes() -> None:
    quiet_then_busy = [100.0] * 200 + [900.0] * 50
    answer = ask(make_query([size + i % 7 for i, size in enumerate(quiet_then_busy)]), range(1, 9), 8.0, 0.95, 1.0)
    assert answer.least == 4
    assert (answer.hours_following or 0.0) < 0.8 * (answer.hours_static or 0.0)


def test_command_prints_a_table_or_json(tmp_path: Path) -> None:
    path = write_log(tmp_path, [400, 800, 600, 300] * 10)
    code, shown = run(path, "--executors", "1:6", "--r-max", "8")
    assert code == 0, shown
    assert "words: 40 batches in 3.28 min, recorded on 1 executor of 2 slots." in shown
    assert "The least that meets it is" in shown
    document = json.loads(run(path, "--executors", "1:6", "--r-max", "8", "--json")[1])
    assert [one["executors"] for one in document["predictions"]] == [1, 2, 3, 4, 5, 6]
    assert document["least"] == next(one["executors"] for one in document["predictions"] if one["meets"])


def test_unnamed_query_is_shown_by_its_id(tmp_path: Path) -> None:
    path = write_log(tmp_path, [400, 800, 600], name=None)
    assert run(path, "--query", logs.QUERY)[1].startswith(f"{logs.QUERY[:8]}: 3 batches")


def test_tasks_of_the_largest_profile_are_placed(tmp_path: Path) -> None:
    lines = logs.start("app")[:2]
    lines += [logs.executor("1", 0), logs.executor("2", 1, cores=1), logs.executor("3", 1, cores=1), logs.profile(1)]
    for i in range(4):
        begin = START + 5000 * i
        lines.append(logs.job(Job(i, i, stages=((2 * i, (), 1), (2 * i + 1, (2 * i,), 0)), time=begin)))
        lines += [
            logs.task_end(Task(10 * i + k, 2 * i, launch=begin + 1000 * (k // 2), wall_ms=1000)) for k in range(4)
        ]
        lines.append(logs.task_end(Task(10 * i + 9, 2 * i + 1, launch=begin + 2000, wall_ms=500)))
        lines.append(logs.progress_event(logs.progress(i, stamp(begin), 100, 2600)))
    query = read(logs.write(tmp_path / "app", lines))
    assert (query.executors, query.slots_each) == (2, 1)
    assert [batch.rest_s for batch in query.batches] == pytest.approx([0.6] * 4)


@pytest.mark.parametrize(("tasks", "said"), [(2, True), (8, False)])
def test_tasks_that_may_follow_the_cores_are_said(tasks: int, said: bool) -> None:
    answer = ask(make_query([100.0, 150.0] * 10, slots=2, tasks=tasks), [1, 2, 4], None, 0.95, 1.0)
    assert answer.tasks_as_slots == said
    assert ("as many tasks as the recorded executors have slots, 2" in sentences(answer)) == said


WITHOUT_SPARK = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pyspark", "orjson", "pandas", "cramjam", "py4j"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Refuse())
from tuner.cli import main
main()
"""


@pytest.mark.slow
def test_command_needs_no_spark_extra(tmp_path: Path) -> None:
    path = write_log(tmp_path, [400, 800, 600])
    (tmp_path / "app.zstd").write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    command = [sys.executable, "-c", WITHOUT_SPARK, "what-if", str(tmp_path / "app.zstd")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "words: 3 batches" in done.stdout


def test_lines_are_read_alike_without_orjson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path, [400, 800, 600])
    expected = [batch.duration_s for batch in read(path).batches]
    monkeypatch.setattr(task_lines, "parse_quickly", json.loads)
    assert [batch.duration_s for batch in read(path).batches] == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quantile", "1"], "--quantile is 1, and must lie between 0 and 1, as in 0.95"),
        (["--quantile", "nan"], "--quantile is nan, and must lie between 0 and 1"),
        (["--r-max", "0"], "--r-max is 0 s, and must be positive"),
        (["--price", "0"], "--price is 0, and must be positive"),
        (["--executors", "0:3"], "--executors is '0:3', and must be numbers of executors from 1 to 10,000"),
        (["--executors", ""], "must be numbers of executors"),
        (["--query", "orders"], "the log has no query 'orders'; it has words"),
    ],
)
def test_impossible_questions_are_one_sentence(tmp_path: Path, arguments: list[str], message: str) -> None:
    code, shown = run(write_log(tmp_path, [400, 800, 600]), *arguments)
    assert code == 2
    assert message in shown


def write_text(text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "file").write_text(text)
        return folder / "file"

    return write


OPENING = "\n".join(logs.start())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "none", "does not exist; name the event log of a Structured Streaming application"),
        (lambda folder: folder, "nothing there is known; name the event log"),
        (write_text("hello\n"), "nothing there is known; name the event log"),
        (write_text(""), "is empty; name the event log"),
        (write_text(json.dumps(logs.progress(1, stamp(START), 9)) + "\n"), "is no event log; name the event log"),
        (write_text('{"Event":"\n'), "holds no event that can be read"),
        (write_text(OPENING + "\n"), "the application ran no streaming query"),
        (write_text(f"{OPENING}\n{logs.job(Job())}\n"), "holds no progress report of its streaming query"),
        (
            write_text(f"{OPENING}\n{logs.job(Job())}\n{logs.progress_event(logs.progress(0, stamp(START), 9))}\n"),
            "tasks",
        ),
    ],
)
def test_files_that_say_nothing_are_one_sentence(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    code, shown = run(make(tmp_path))
    assert code == 2
    assert message in shown
    assert len(shown.strip().splitlines()) == 1


def test_damaged_lines_are_said(tmp_path: Path) -> None:
    path = write_log(tmp_path, [400, 800, 600])
    with path.open("a") as file:
        file.write('{"Event":"SparkListenerTaskEnd","Stage\n')
    assert "1 line could not be read" in read_queries(path, lambda share: None)[1][0]


@pytest.mark.parametrize("text", ["", "a", "3:1", "0", "-2", "1:99999999", "1:4,0"])
def test_impossible_numbers_of_executors_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="must be numbers of executors"):
        parse_numbers(text)


@given(st.sets(st.integers(1, 200), min_size=1, max_size=20))
def test_numbers_of_executors_are_parsed(numbers: set[int]) -> None:
    assert parse_numbers(",".join(map(str, numbers))) == sorted(numbers)
    assert parse_numbers(f"{min(numbers)}:{max(numbers)}") == list(range(min(numbers), max(numbers) + 1))
