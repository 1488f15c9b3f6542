"""`tuner demo`: the whole chain, in a folder of its own that is there whole or not at all."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from scaler.model.errors import BadInput
from tests.commands import refuse, succeed
from tuner.cli.demo_command import demo
from tuner.demo.place import MARK, demo_folder
from tuner.service.access.token import SECRET

ROOT = Path(__file__).parents[1]
RECORDED = "recorded/clicks.zstd"


@pytest.mark.slow
def test_the_chain_ends_with_an_explained_decision(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = CliRunner().invoke(demo, ["--folder", str(folder)])
    assert result.exit_code == 0, (result.output, result.exception)
    steps = [line[:2] for line in result.output.splitlines() if line[:2] in {f"{i}." for i in range(10)}]
    assert steps == [f"{i}." for i in range(1, 9)]
    assert "fit for tuning" in result.output
    assert result.output.index("flink-c") < result.output.index("planner")
    assert "1,440 decisions" in result.output
    assert "SCALED +" in result.output
    store = ["--store", folder / "tuner.db"]
    assert "full" in succeed("app", "show", "clicks", *store)
    assert "parse" in succeed("explain", "clicks", *store)


def test_the_folder_of_an_earlier_demo_is_made_anew(tmp_path: Path) -> None:
    for _ in range(2):
        with demo_folder(tmp_path / "run") as folder:
            assert [path.name for path in folder.iterdir()] == [MARK]
            (folder / "left").touch()
    assert (tmp_path / "run" / "left").exists()


def test_a_folder_that_is_no_demos_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(BadInput, match="is no folder of a demo; name another one with --folder"), demo_folder(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_what_fails_in_the_middle_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), demo_folder(tmp_path / "run"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("killed", [False, True])
def test_earlier_demo_outlives_one_that_is_stopped(tmp_path: Path, killed: bool) -> None:
    folder = tmp_path / "run"
    with demo_folder(folder):
        (folder / "finished").touch()
    if killed:  # nothing was cleaned up
        folder.rename(tmp_path / ".run.before")
        folder.mkdir()
        (folder / MARK).touch()
    with pytest.raises(KeyboardInterrupt), demo_folder(folder):
        raise KeyboardInterrupt
    assert (folder / "finished").exists()
    with demo_folder(folder):
        pass
    assert [path.name for path in tmp_path.rglob("*")] == ["run", MARK]


@pytest.mark.slow
def test_ctrl_c_in_the_middle_ends_it_and_leaves_nothing(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tuner", "demo"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env={"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "PATH": ""},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )  # fmt: skip
    assert process.stdout is not None
    try:
        while not process.stdout.readline().startswith("2."):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert not (tmp_path / "tuner-demo").exists()


@pytest.mark.slow
def test_the_served_page_is_furnished_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    """As a person starts it, with the caches of the user who runs the tests."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tuner", "demo", "--serve", "--port", "0"], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        secret = next(line.strip() for line in process.stdout if SECRET.fullmatch(line.strip()))
        url = next(json.loads(line)["url"] for line in process.stderr if '"listening"' in line)
        assert url.startswith("http://127.0.0.1:")
        with httpx.Client(base_url=url, headers={"Sec-Fetch-Site": "same-origin"}, timeout=60) as client:
            assert client.get("/").headers["location"].startswith("/login")
            assert client.post("/login", data={"token": secret}).status_code == 303
            assert "clicks" in client.get("/").text
            for page, said in {
                "/applications/clicks": "parse",
                "/applications/clicks?tab=decisions": "SCALED",
                "/objectives/1?app=clicks": "full use",
                "/runs/1?app=clicks": "Tuning run 1",
                "/trials/1?app=clicks": "Trial 1 of run 1",
                "/guide/your-stream": "tuner try",
            }.items():
                answer = client.get(page)
                assert (answer.status_code, said in answer.text) == (200, True), page
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert (tmp_path / "tuner-demo" / "tuner.db").is_file()


def test_a_port_in_use_is_refused_before_the_chain(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refuse("demo", "--serve", "--port", port, "--folder", tmp_path / "run")
    assert said == f"port {port} of 127.0.0.1 is in use; choose another with --port, or 0 for any"
    assert not (tmp_path / "run").exists()


def test_the_recording_travels_with_the_package() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["tuner.demo"]
    for name in (RECORDED, "chain.toml"):
        assert files("tuner.demo").joinpath(name).is_file()
    assert any(fnmatch(RECORDED, pattern) for pattern in patterns)


def test_the_recording_is_predicted_at_the_quantile_that_init_drafts(tmp_path: Path) -> None:
    log = str(files("tuner.demo").joinpath(RECORDED))
    store = ["--store", tmp_path / "tuner.db"]
    succeed("ingest", log, "--app", "clicks", "--window", "8", *store)
    fitted = json.loads(succeed("surrogate", "fit", "clicks", "--quantile", "0.95", "--json", *store))
    (operator,) = fitted["operators"]
    assert operator["response"]["model"] == "batches"
    assert not [check for check in fitted["checks"] if check["verdict"] == "fail"]
