"""`tuner simulate`: a table, a document, a report, or one sentence and exit code 2."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from fnmatch import fnmatch
from html import unescape
from importlib.resources import files
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tuner.cli import COMMANDS, main
from tuner.cli.interruption import run_interruptibly
from tuner.cli.lazy_group import Entry
from tuner.cli.simulate_command import simulate
from tuner.scenario.layout import FLAGS
from tuner.scenario.scenario import read_scenario
from tuner.simulation.workers import run_all

ROOT = Path(__file__).parents[1]
QUICK = ["--slots", "200", "--policy", "static", "--policy", "threshold-c"]
RUN = [sys.executable, "-c", "from tuner.cli import main; main(prog_name='tuner')"]
HEAVY = ["torch", "numba", "pyspark", "numpy", "rich", "pyarrow", "sim", "tuner.scenario.scenario"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def start(*arguments: str, folder: Path = ROOT, **streams: int) -> subprocess.Popen[str]:
    """A real process; kernels interpreted, because compiling them takes longer than replaying so little."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    return subprocess.Popen([*RUN, *arguments], cwd=folder, env=environment, text=True, **streams)  # type: ignore[call-overload, no-any-return]


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code and output of a process that ends by itself; one that does not is killed."""
    with process:
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, out, err


def piped(*arguments: str, folder: Path = ROOT) -> subprocess.Popen[str]:
    return start(*arguments, folder=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_the_table_has_a_row_per_policy_and_lines_up() -> None:
    result = run("simulate", *QUICK)
    assert result.exit_code == 0, result.output
    head, rule, *rows = result.stdout.splitlines()
    heads = ["policy", "cost", "x floor", "violated %", "reconf. %", "resources", "A1", "A2", "A3", "memory", "slots/s"]
    assert head.split() == " ".join(heads).split()
    assert [row.split()[0] for row in rows[:2]] == ["static", "threshold-c"]
    assert len({len(line) for line in (head, rule, *rows[:2])}) == 1
    assert "standard error" in rows[2]


def test_json_is_one_document_that_agrees_with_the_table() -> None:
    table = run("simulate", *QUICK, "--seeds", "2").stdout.splitlines()
    result = run("simulate", *QUICK, "--seeds", "2", "--json")
    document = json.loads(result.stdout)
    assert result.stderr == ""
    assert document["seeds"] == [0, 1]
    for line, row in zip(table[2:4], document["policies"], strict=True):
        words = line.split()
        assert words[0] == row["policy"]
        assert words[1] == f"{row['cost']['mean']:.4f}"
        assert words[4] == f"{row['times_floor']:.2f}"
        assert words[5] == f"{100 * row['violations']['mean']:.2f}"
        assert words[7] == f"{row['resources']['mean']:.2f}"


def test_a_report_can_be_repeated_from_what_it_says(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    result = run("simulate", *QUICK, "--json", "--html", str(page))
    assert str(page) in result.stderr
    text = page.read_text(encoding="utf-8")
    again = tmp_path / "again.toml"
    again.write_text(unescape(text.partition("<pre>")[2].partition("</pre>")[0]))
    repeated = json.loads(run("simulate", str(again), "--json").stdout)
    first = json.loads(result.stdout)
    assert [row["cost"] for row in repeated["policies"]] == [row["cost"] for row in first["policies"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.toml", "report.html"]


def test_the_same_command_twice_says_the_same_but_for_its_speed() -> None:
    first, second = (run("simulate", *QUICK).stdout.splitlines() for _ in range(2))
    assert [line.rsplit(None, 2)[0] for line in first] == [line.rsplit(None, 2)[0] for line in second]


BAD = {
    "--policy nope": "there is no policy 'nope'",
    "--weights 0.5,0.2,0.2": "sum to 0.9, and must sum to 1",
    "--k-max 0": "k_max is 0",
    "--n-res 0": "n_res is 0",
    "--infrastructure nope": "there is no infrastructure 'nope'",
    "--infrastructure twice.toml": "'a' is named twice",
    "--infrastructure free.toml": "price is 0",
    "--infrastructure stuck.toml": "speedup is 0",
    "--application nope.toml": "nope.toml cannot be read",
    "--trace hole.csv": "hole.csv, line 4: the time is 120 s after",
    "--trace nope.csv": "nope.csv cannot be read",
    "--trace hole.csv --generator step": "give one of them",
    "--generator poisson": "needs the parameter 'mean_rate'",
    "--parameter hihg=3": "did you mean 'high'?",
    "--parameter high=x": "must be a finite number",
    "--policy static --option x=1": "static has no option 'x'",
    "--seed 1 --seeds 2": "give one of them",
    "--seeds 0": "there are no seeds",
    "--r-max 0": "R_max is 0",
    "--plant nope": "there is no plant 'nope'",
    "nope.toml": "nope.toml cannot be read",
    "typo.toml": "typo.toml, [weigths]",
    "--html nowhere/report.html": "there is no folder nowhere",
    "--html .": "is a folder",
}
NODE = "name = 'x'\n[[node]]\nname = 'a'\nspeedup = 1\nprice = 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "hole.csv").write_text("time,rate\n2026-01-01T00:00,1\n2026-01-01T00:01,2\n2026-01-01T00:03,3\n")
    (tmp_path / "typo.toml").write_text("[weigths]\nperf = 1\n")
    (tmp_path / "twice.toml").write_text(NODE + NODE.partition("\n")[2])
    (tmp_path / "free.toml").write_text(NODE.replace("price = 1", "price = 0"))
    (tmp_path / "stuck.toml").write_text(NODE.replace("speedup = 1", "speedup = 0"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_gets_one_sentence_exit_code_2_and_writes_nothing(folder: Path, arguments: str) -> None:
    before = sorted(folder.iterdir())
    html = [] if "--html" in arguments else ["--html", "report.html"]
    result = run("simulate", *arguments.split(), *html)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert BAD[arguments] in result.stderr
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("arguments", ["--bogus", "--slots x", "--weights a,b", "--option x", "a.toml b.toml"])
def test_a_wrong_flag_gets_click_s_own_answer(arguments: str) -> None:
    result = run("simulate", *arguments.split())
    assert result.exit_code == 2
    assert "Usage: " in result.stderr
    assert "Traceback" not in result.stderr


def test_every_flag_that_a_sentence_names_exists() -> None:
    known = {name for option in simulate.params for name in option.opts}
    assert {name for flags in FLAGS.values() for flag in flags.values() for name in flag.split("/")} <= known


def test_the_overview_loads_nothing_heavy_and_lists_every_command() -> None:
    code = (
        "import sys; from tuner.cli import main\n"
        "try: main(['--help'], prog_name='tuner')\n"
        f"finally: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert all(name in done.stdout for name in ("simulate", "demo"))


def test_a_command_that_is_not_installed_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "later", Entry("tuner.cli.later:later", "Not written yet."))
    assert "later" not in run("--help").output
    result = run("later")
    assert (result.exit_code, "No such command" in result.output) == (2, True)


@click.command()
def stop() -> None:
    raise KeyboardInterrupt


def test_an_interruption_is_one_line_and_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "stop", Entry("tests.test_cli_simulate:stop", "Stop."))
    result = run("stop")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "Interrupted.\n")


def wait_until_it_works(process: subprocess.Popen[str]) -> None:
    """Wait until the process replays: it has loaded the compiler, or has started workers that will."""
    here = Path(f"/proc/{process.pid}")
    while process.poll() is None:
        if "llvmlite" in (here / "maps").read_text() or any(one.read_text() for one in here.glob("task/*/children")):
            return
        time.sleep(0.02)
    raise AssertionError(finish(process))


def test_ctrl_c_in_the_middle_of_the_work_leaves_nothing_behind(tmp_path: Path) -> None:
    many = ("--slots", "300000", "--seeds", "500", "--policy", "ql")
    process = piped("simulate", *many, "--html", "report.html", folder=tmp_path)
    wait_until_it_works(process)
    process.send_signal(signal.SIGINT)
    code, out, err = finish(process)
    assert (code, out, err) == (130, "", "Interrupted.\n")
    assert list(tmp_path.iterdir()) == []


INTERRUPTED_KERNELS = """
import signal
from sim.simulate import simulate
from tuner.cli.interruption import run_interruptibly
from tuner.scenario.scenario import read_scenario
setting = read_scenario(None, {"trace": {"slots": 300_000}, "policy": {"names": ["threshold-c"]}}).settings[0]
simulate(setting)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
heard = 0
for i in range(40):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (1 + i % 10))
        while True:
            run_interruptibly(lambda: simulate(setting))
    except KeyboardInterrupt:
        heard += 1
print(heard)
"""


def test_an_interruption_of_compiled_code_is_heard_and_survived() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_KERNELS], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "40\n", "")


def sleep_after_a_sign(sign: Path) -> None:
    sign.touch()
    time.sleep(600)


@pytest.mark.parametrize(
    ("number", "raised"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGHUP, SystemExit)],
)
def test_a_signal_ends_the_workers_too(tmp_path: Path, number: int, raised: type[BaseException]) -> None:
    signs = [tmp_path / "1", tmp_path / "2"]

    def interrupt() -> None:
        while not all(sign.exists() for sign in signs):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, usual)  # it is ignored where the tests run under nohup, or in the background
    try:
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(raised):
            run_interruptibly(lambda: run_all(sleep_after_a_sign, signs, workers=2))
    finally:
        signal.signal(number, before)
    for _ in range(600):  # the pool's own thread may reap them, and tells of it a moment later
        if not multiprocessing.active_children():
            break
        time.sleep(0.05)
    assert multiprocessing.active_children() == []


def test_a_reader_that_has_read_enough_is_no_error() -> None:
    process = piped("simulate", "--slots", "50", "--policy", "static", "--json")
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, _, err = finish(process)
    assert err == ""


def test_a_new_user_in_an_empty_folder(tmp_path: Path) -> None:
    saved = finish(piped("demo", "--save", "mine.toml", folder=tmp_path))
    assert (saved[0], saved[2]) == (0, "")
    code, out, err = finish(piped("simulate", "mine.toml", "--slots", "100", "--seed", "0", folder=tmp_path))
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["static", "threshold-c", "ql", "ql-pds-plus"]
    assert finish(piped("demo", "--save", "mine.toml", folder=tmp_path))[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


@pytest.mark.slow
def test_the_example_is_sound_and_travels_with_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    for package, name in (("tuner.demo", "demo.toml"), ("tuner.views", "static/style.css")):
        assert files(package).joinpath(name).is_file()
        assert any(fnmatch(name, pattern) for pattern in patterns)
    scenario = read_scenario(ROOT / "tuner/demo/demo.toml")
    assert len(scenario.settings[0].application.operators) == 3
    assert len(scenario.settings[0].infrastructure.types) == 3


def test_the_version_is_told() -> None:
    assert run("--version").output.startswith("tuner ")
