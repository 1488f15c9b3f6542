"""Parse StreamingQueryProgress documents, from files or an address, to events.

Documents may be lines, one array, printed over several lines, or a listener's events with the document as `progress`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow as pa

from scaler.model.bounded_file import OversizedText
from scaler.model.errors import BadInput
from tuner.pipeline.sources.codec import TruncatedStream
from tuner.pipeline.sources.event_lines import read_trigger
from tuner.pipeline.sources.found import InputFile
from tuner.pipeline.sources.log_file import LONGEST, FilePiece, arrow_schema, pack, read_blocks
from tuner.pipeline.sources.task_lines import DamagedLine, part

TIMEOUT = 30.0  # s
BETWEEN = re.compile(r"[\s,\[\]]*")


def is_address(file: InputFile) -> bool:
    return file.path.startswith(("http://", "https://"))


def fetch(address: str) -> str:
    try:
        with urlopen(address, timeout=TIMEOUT) as answer:
            return str(answer.read(LONGEST).decode("utf-8", errors="replace"))
    except (URLError, OSError, ValueError) as error:
        raise BadInput(f"{address} does not answer ({error}); give an address that returns progress as JSON") from error


def read_file(piece: FilePiece) -> Iterator[pa.RecordBatch]:
    yield from pack(read_documents(piece), arrow_schema())


def read_documents(piece: FilePiece) -> Iterator[dict[str, Any]]:
    """Parse line by line where the first line is JSON; else the text as a whole."""
    lines = (line for block in read_blocks(piece) for line in block.split(b"\n") if line.strip())
    try:
        first = next(lines, b"")
        by_line = is_json(first)
        parts: Iterable[bytes] = chain((first,), lines) if by_line else [join_lines(first, lines, piece.path)]
        for text in parts:
            for event in parse_text(text.decode("utf-8-sig", errors="replace"), piece.log):
                yield event | {"number": 1} if event["kind"] == "corrupt" and by_line else event
    except OversizedText as error:
        yield {"log": piece.log, "kind": "oversized", "name": str(error)}
    except (TruncatedStream, OSError):
        yield {"log": piece.log, "kind": "cut"}


def join_lines(first: bytes, rest: Iterable[bytes], path: str) -> bytes:
    """The text of a document over many lines, which has to be in memory as a whole."""
    lines, length = [first], len(first)
    for line in rest:
        lines.append(line)
        length += len(line) + 1
        if length > LONGEST:
            raise OversizedText(f"{path} has a document of more than {LONGEST >> 20} MiB; write one document a line")
    return b"\n".join(lines)


def is_json(line: bytes) -> bool:
    try:
        json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return False
    return True


def take(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise DamagedLine("no object")
    return read_trigger(part(document, "progress") or document)


def parse_text(text: str, log: str) -> Iterator[dict[str, Any]]:
    """Parse document after document, wherever one begins and ends."""
    decoder = json.JSONDecoder()
    damaged = 0
    place = skip(text, 0)
    while place < len(text):
        try:
            document, place = decoder.raw_decode(text, place)
            yield {"log": log} | take(document)
        except DamagedLine:
            damaged += 1
        except (ValueError, RecursionError):
            damaged += 1
            place = following if (following := text.find("\n{", place) + 1) else len(text)
        place = skip(text, place)
    if damaged:
        yield {"log": log, "kind": "corrupt", "number": damaged}


def skip(text: str, place: int) -> int:
    """Past spaces, commas and brackets, for an array is read like documents one after the other."""
    found = BETWEEN.match(text, place)
    return found.end() if found else place
