"""Start Spark without its output on the terminal; report its failures in one sentence."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, TypeVar

import click

from tuner.pipeline.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Result = TypeVar("Result")


def start_quietly(master: str, settings: Mapping[str, str]) -> SparkSession:
    """What Java prints goes to a file that is gone with this process; failures are raised to us anyway."""
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is not None:
        return explain(lambda: start_session(master, settings))
    with tempfile.TemporaryFile() as said, diverted(said):
        return explain(lambda: start_session(master, {**settings, "spark.log.level": "OFF"}))


@contextmanager
def diverted(into: IO[bytes]) -> Iterator[None]:
    """Let processes that start now write their errors there, while ours go where they went."""
    sys.stderr.flush()
    kept, ours = os.dup(2), sys.stderr
    try:
        os.dup2(into.fileno(), 2)
        if ours is sys.__stderr__:
            sys.stderr = os.fdopen(os.dup(kept), "w", buffering=1, encoding="utf-8")
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        if sys.stderr is not ours:
            sys.stderr.close()
            sys.stderr = ours


def explain(work: Callable[[], Result]) -> Result:
    """The work's result, or a sentence where Spark cannot do it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        return work()
    except (Py4JError, PySparkException) as error:
        raise click.ClickException(f"Spark could not do it: {find_cause(error)}") from error


def find_cause(error: Exception) -> str:
    """The innermost reason that Java gives, or the last line of a Python task's traceback."""
    cause = getattr(error, "java_exception", None)
    if cause is None:
        lines = str(error).strip().splitlines()
        errors = [line for line in lines if "Error:" in line or "Exception:" in line]
        return (errors or lines or [type(error).__name__])[-1].strip()
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.toString()).strip().splitlines()[0]
