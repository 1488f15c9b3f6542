"""Registry of grants, which decide on the requests of an application's operators: one file and one line each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scaler.model.policy import check_options
from scaler.model.pool import GrantKernel
from scaler.model.registry import load_named

GRANTS: dict[str, str] = {
    "all": "every_request:EVERY_REQUEST",
    "no-conflict": "no_conflict:NO_CONFLICT",
    "tokens": "token_bucket:TOKENS",
}


def find_grant(name: str) -> GrantKernel:
    """The grant of this name."""
    kernel: GrantKernel = load_named("grant", GRANTS, name, __name__)
    return kernel


def start_grant(kernel: GrantKernel, operators: int, options: Mapping[str, Any]) -> object:
    """Prepare a grant's state; an option that it does not know is refused."""
    check_options(kernel.title, kernel.options, options)
    return kernel.prepare(operators, options)
