"""Every policy by name. Adding one is one file and one line here; the contract tests pick it up."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from scaler.errors import BadInput

POLICIES: dict[str, str] = {
    "static": "static:STATIC",
    "threshold-c": "threshold:THRESHOLD_C",
    "threshold-s": "threshold:THRESHOLD_S",
    "threshold-o": "threshold:THRESHOLD_O",
    "ql": "q_learning:Q_LEARNING",
    "ql-pds": "pds:PDS",
    "ql-pds-plus": "pds:PDS_PLUS",
}


def find_policy(name: str) -> Any:
    """The policy of this name; its module is loaded now, so that torch is imported by those who ask for it."""
    if name not in POLICIES:
        raise BadInput(f"there is no policy {name!r}; choose one of {', '.join(POLICIES)}")
    module, _, attribute = POLICIES[name].partition(":")
    return getattr(import_module(f"scaler.policies.{module}"), attribute)
