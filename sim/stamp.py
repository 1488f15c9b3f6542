"""One loop, compiled once per policy: a template function and the functions it calls in, a kernel of its own out.

Numba keeps on disk only functions whose callees are globals. So the template's code is given a copy of its globals in
which the policy's functions stand under the template's names, and a name of its own, under which numba files it.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache
from typing import Any

from scaler.model.jit import jit


@cache
def stamp(template: Callable[..., Any], name: str, **bound: Callable[..., Any]) -> Callable[..., Any]:
    """The template with these globals bound, compiled under `<template>_<name>`."""
    scope = {**template.__globals__, **bound}
    copy = types.FunctionType(template.__code__, scope, f"{template.__name__}_{name}", template.__defaults__)
    copy.__qualname__ = copy.__name__
    copy.__module__ = template.__module__
    return jit(copy)
