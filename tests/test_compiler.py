"""Compiling kernels: numba's options, and what happens where numba refuses one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scaler.model.jit import APART, KERNELS, jit_apart
from sim import compiler
from sim.compiler import OPTIONS, WITHOUT_COUNTS, choose_options, compile_kernel, find_cache, is_on_disk
from tuner.simulation import ahead
from tuner.simulation.ahead import Loop, compiling_ahead
from tuner.simulation.workers import end_workers

numba = pytest.importorskip("numba")


@pytest.fixture
def fresh() -> Iterator[None]:
    """Options are chosen once a process."""
    choose_options.cache_clear()
    yield
    choose_options.cache_clear()


def test_kernels_compile_without_reference_counts(fresh: None) -> None:
    assert choose_options() == OPTIONS | WITHOUT_COUNTS


def test_an_option_that_numba_refuses_is_left_out(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))  # nothing compiled yet
    monkeypatch.setattr(compiler, "WITHOUT_COUNTS", {"_no_such_option": False})
    assert choose_options() == OPTIONS


@pytest.mark.parametrize(("stated", "folder"), [("/tmp/kept", "/tmp/kept"), ("", str(Path.home() / ".cache"))])
def test_cache_lies_where_the_environment_says(stated: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", stated)
    assert find_cache() == Path(folder) / "stream-scaler"


def test_a_users_cache_folder_of_numba_stands(fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    choose_options()
    assert str(tmp_path) == numba.config.CACHE_DIR


def double(x: int) -> int:
    return 2 * x


def double_and_add(x: int) -> int:
    return double(x) + 1


def test_a_kernel_apart_is_compiled_by_itself_and_kept_on_disk(
    fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Loops inlined all that they call, so that each compiled the largest kernels anew."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    jit_apart(double)
    try:
        assert not is_on_disk(double)
        assert compile_kernel(double_and_add)(3) == 7
        assert is_on_disk(double_and_add)
        assert is_on_disk(double)
        assert compile_kernel(double)(3) == 6  # called from Python, what a loop had compiled
    finally:
        KERNELS.remove(double)
        APART.remove(double)


def test_nothing_is_compiled_ahead_on_one_core_or_where_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: object) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(ahead, "started_worker", refuse)
    loops = [Loop("static", "memoryless", 2, 2)]
    for cores, ready in ((1, False), (2, True)):
        monkeypatch.setattr(ahead, "count_cores", lambda cores=cores: cores)
        monkeypatch.setattr(Loop, "is_ready", ready)
        with compiling_ahead(loops) as wait:
            wait()


@pytest.mark.slow
def test_a_compiling_worker_that_ends_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "count_cores", lambda: 2)
    monkeypatch.setattr(Loop, "is_ready", False)
    with compiling_ahead([Loop("static", "memoryless", 2, 2), Loop("planner", "memoryless", 2, 2)]) as wait:
        end_workers()
        wait()
        wait()
