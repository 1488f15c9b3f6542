"""The one switch between interpreted and compiled: numba's jit where numba is installed, the identity where it is not.

A policy's hot functions are decorated by `jit` once and run everywhere: plain Python in a Spark driver, machine code
inside the simulator. A driver is interpreted though numba be installed: one decision a minute is not worth the hundred
megabytes that a compiler takes; unless kernels were loaded before `scaler.attach` was, by a simulation. Compiled code
is kept on disk under a digest of the sources, because numba looks for staleness only in the file of the outermost
function.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import scaler

F = TypeVar("F", bound=Callable[..., Any])

WANTED = not scaler.EMBEDDED and os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
COMPILED = WANTED and importlib.util.find_spec("numba") is not None


def digest_sources() -> str:
    """Name the present state of every kernel's source; no other folders hold kernels."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent.parent
    for package in ("scaler/model", "scaler/policies", "sim"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def place_cache() -> None:
    """Point numba at a cache directory of this source state, unless the user has chosen one."""
    import numba

    if "NUMBA_CACHE_DIR" not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        numba.config.CACHE_DIR = str(home / "stream-scaler" / digest_sources())  # type: ignore[attr-defined]


def identity(function: F) -> F:
    return function


def compiler() -> Callable[[F], F]:
    """Numba's jit, set up for kernels.

    Without reference counts (kernels allocate nothing) and with every callee inlined: passing a problem's many arrays
    down a call costs more than the call. Division by zero gives infinity, as in numpy.
    """
    import numba

    place_cache()
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": False}
    return numba.njit(**options)


jit: Callable[[F], F] = compiler() if COMPILED else identity
