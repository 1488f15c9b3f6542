"""Compile kernels with numba where it is installed; plain functions where it is not.

Kernels stay plain Python functions (scaler/model/jit.py): numba is told of them by `register_jitable`, so that compiled
code may call them. Compiled code is kept on disk under a digest of the sources, because numba looks for staleness only
in the file of the outermost function.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from scaler.model.jit import APART, KERNELS, use_compiler

Function = TypeVar("Function", bound=Callable[..., Any])

PACKAGES = ("scaler/model", "scaler/policies", "sim")  # where kernels are
# Kernels allocate nothing (no reference counts), and passing a problem's many arrays down a call costs more than the
# call (every callee inlined). Division by zero gives infinity, as in numpy.
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "forceinline": True}
WITHOUT_COUNTS: dict[str, Any] = {"_nrt": False}
# Large kernels that several loops have in common are compiled once and kept on disk, as called by Python or by a loop;
# a call costs a tenth of a microsecond, a hundredth of what they do.
CALLED: dict[str, Any] = {"cache": True, "no_cpython_wrapper": False}


def digest_sources() -> str:
    """Name the present state of every kernel's source."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def is_compiling() -> bool:
    """Whether numba is installed and not switched off (NUMBA_DISABLE_JIT)."""
    if importlib.util.find_spec("numba") is None:
        return False
    import numba

    return not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def probe() -> int:
    """The least that can be compiled, to try options on."""
    return 0


@cache
def choose_options() -> dict[str, Any]:
    """Options of every kernel; without `_nrt`, which only numba's docstrings describe, where numba refuses it."""
    import numba

    if not numba.config.CACHE_DIR:  # type: ignore[attr-defined]  # NUMBA_CACHE_DIR, the user's choice
        numba.config.CACHE_DIR = str(find_cache() / digest_sources())  # type: ignore[attr-defined]
    try:
        numba.njit(probe, cache=True, **OPTIONS, **WITHOUT_COUNTS)()
    except KeyError:
        return OPTIONS
    return OPTIONS | WITHOUT_COUNTS


def choose_outer_options() -> dict[str, Any]:
    """Options of a kernel that is called from Python, or by loops that do not inline it."""
    return {name: value for name, value in choose_options().items() if name != "forceinline"}


registered: set[Callable[..., Any]] = set()


def register_kernels() -> None:
    """Make every kernel that was imported so far callable from compiled code."""
    from numba.extending import register_jitable

    for kernel in KERNELS:
        if kernel not in registered:
            registered.add(kernel)
            register_jitable(**(choose_outer_options() | CALLED if kernel in APART else choose_options()))(kernel)


@cache
def compile_kernel(kernel: Function) -> Function:
    """The kernel as machine code, compiled at its first call or read from disk; itself where nothing compiles."""
    if not is_compiling():
        return kernel
    import numba

    register_kernels()
    compiled: Function = numba.njit(kernel, cache=True, **choose_outer_options())
    return compiled


def is_on_disk(kernel: Callable[..., Any]) -> bool:
    """Whether compiled code of a kernel is on disk, for whatever arguments; of a plain function there is none."""
    import numba

    choose_options()
    name = getattr(kernel, "py_func", kernel).__qualname__
    folder: str = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    return any(Path(folder).rglob(f"*.{name}-*.nbi"))


def start_compiling() -> None:
    """Have policies' own loops compiled in this process, too."""
    use_compiler(compile_kernel)


def find_cache() -> Path:
    """The user's cache folder of this project (XDG_CACHE_HOME), for kernels and floors; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-scaler"
