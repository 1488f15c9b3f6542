"""Read timers' JSON lines, whose fields are those of a sample, by the rules of `sources.sample_files`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from scaler.model.bounded_file import OversizedText, open_regular
from scaler.model.errors import BadInput
from tuner.pipeline.local.columns import SCHEMA
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.log_file import LONGEST
from tuner.pipeline.sources.task_lines import DamagedLine, load

NEEDED = ("application", "operator", "start", "end")


def read_records(found: Sequence[InputFile], application: str | None, strict: bool) -> tuple[pa.Table, tuple[str, ...]]:
    """Samples of timers' lines, and a note on those that are none."""
    samples: list[dict[str, Any]] = []
    lines = 0
    for file in found:
        for line in read_lines(file.path):
            lines += 1
            sample = parse_sample(line, application)
            if sample is not None:
                samples.append(sample)
    where = found[0].path if len(found) == 1 else f"{found[0].path} and {len(found) - 1} more"
    if not samples and strict:
        raise BadInput(f"{where}: no line says application, operator, start and end; give the lines that a timer wrote")
    lost = lines - len(samples)
    notes = (f"{where}: {lost} of {lines} lines are no samples of a timer and were left out",) if lost else ()
    return pa.Table.from_pylist(samples, SCHEMA), notes


def read_lines(path: str) -> Iterator[bytes]:
    """Lines that hold anything and are not longer than any may be."""
    with open_regular(path) as file:
        whole = True
        while line := file.readline(LONGEST):
            if whole and line.strip() and (line.endswith(b"\n") or len(line) < LONGEST):
                yield line
            whole = line.endswith(b"\n")


def parse_sample(line: bytes, application: str | None) -> dict[str, Any] | None:
    """The fields of a sample; None where one is missing that must be there, or of another type than it must be."""
    try:
        event = load(line.removeprefix(b"\xef\xbb\xbf"))
        sample = {field.name: fit(event.get(field.name), field.type) for field in SCHEMA}
    except (DamagedLine, OversizedText, OverflowError, RecursionError):
        return None
    sample["application"] = application or sample["application"]
    if any(sample[name] is None for name in NEEDED):
        return None
    return sample | {"evidence": "records", "completeness": find_share(sample["completeness"])}


def find_share(stated: str | float | None) -> str | float:
    return 1.0 if stated is None else stated


def fit(value: object, kind: pa.DataType) -> str | float | None:
    """A JSON value as a text or a number."""
    if value is None:
        return None
    if pa.types.is_string(kind):
        return value if isinstance(value, str) else json.dumps(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DamagedLine("no number")
    return float(value)
