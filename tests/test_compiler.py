"""Compiling kernels: numba's options, and what happens where numba refuses one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sim import compiler
from sim.compiler import OPTIONS, WITHOUT_COUNTS, choose_options, find_cache

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
