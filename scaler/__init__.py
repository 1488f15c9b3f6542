"""The scaler: what a Spark driver embeds. Standard library and numpy; everything else is handed in.

`scaler.attach` attaches scalers to the streams of a driver, `scaler.pin` gives an operator its executors.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scaler.acting.profiles import pin
    from scaler.agent.attach import attach
    from scaler.agent.attachment import AttachSettings
    from scaler.timing import ServiceTimer

__all__ = ["AttachSettings", "ServiceTimer", "attach", "pin"]
WHERE = {
    "attach": "scaler.agent.attach",
    "AttachSettings": "scaler.agent.attachment",
    "pin": "scaler.acting.profiles",
    "ServiceTimer": "scaler.timing",
}


def __getattr__(name: str) -> Any:
    """Load the function when it is asked for: a policy alone needs nothing that drives a cluster."""
    if name not in WHERE:
        raise AttributeError(f"module 'scaler' has no attribute {name!r}")
    return getattr(import_module(WHERE[name]), name)
