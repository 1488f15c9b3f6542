"""Folder of cached results: compiled kernels and floors. The only place that reads XDG_CACHE_HOME."""

from __future__ import annotations

import os
from pathlib import Path


def find_cache() -> Path:
    """The user's cache folder of this project; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stream-scaler"
