"""Read files that others may have written: regular files alone, and unpacked within limits."""

from __future__ import annotations

import errno
import gzip
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from scaler.model.errors import BadInput

CHUNK = 512 << 10  # bytes; small enough to stay in the cache
NUMBER_BYTES = 8  # of a value of a Parquet column in memory, at least


class OversizedText(BadInput):
    """A file unpacks to more than its limits allow; the message says so."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Largest text that a packed file may unpack to; `remedy` says how to have more."""

    ratio: float = 200.0  # bytes of text for a byte of the file: Spark's own logs stay below 40
    text_bytes: int = 64 << 30
    free_bytes: int = 256 << 20  # of text that any file may have, however small it is
    remedy: str = "unpack it and name the plain file"

    def allow(self, file_bytes: int) -> int:
        """Bytes of text allowed to a packed file of this size."""
        return min(self.text_bytes, max(self.free_bytes, int(self.ratio * file_bytes)))


def open_regular(path: Path | str) -> BinaryIO:
    """Open a regular file; OSError where it is a pipe, a device or a folder, which may block or never end."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    kind = os.fstat(handle).st_mode
    if not stat.S_ISREG(kind):
        os.close(handle)
        raise OSError(errno.EINVAL, os.strerror(errno.EISDIR) if stat.S_ISDIR(kind) else "it is no regular file")
    return os.fdopen(handle, "rb")


def is_special(path: Path) -> bool:
    """Whether this is a pipe, a socket or a device."""
    try:
        kind = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))


def bound_text(chunks: Iterable[bytes], path: Path | str, file_bytes: int, limits: ReadLimits) -> Iterator[bytes]:
    """Yield the chunks of an unpacked file; OversizedText as soon as they are more than its limits allow."""
    left = limits.allow(file_bytes)
    for chunk in chunks:
        left -= len(chunk)
        check_size(limits.allow(file_bytes) - left, path, file_bytes, limits)
        yield chunk


def check_size(text_bytes: int, path: Path | str, file_bytes: int, limits: ReadLimits) -> None:
    """Refuse a packed file that holds more text than its limits allow."""
    allowed = limits.allow(file_bytes)
    if text_bytes > allowed:
        raise OversizedText(
            f"{path} has {file_bytes:,} bytes and holds more than the {allowed:,} bytes of text that it may; "
            f"{limits.remedy}"
        )


def read_gzip(file: BinaryIO) -> Iterator[bytes]:
    """Unpack a gzip file chunk by chunk; OSError, EOFError or zlib.error where it is none or breaks off."""
    with gzip.GzipFile(fileobj=file) as unpacked:
        while chunk := unpacked.read(CHUNK):
            yield chunk


def measure_parquet(metadata: Any) -> int:
    """Bytes that a Parquet file takes in memory, at least, by its footer (`pyarrow.parquet.FileMetaData`)."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    stated = sum(group.column(j).total_uncompressed_size for group in groups for j in range(group.num_columns))
    return int(max(stated, NUMBER_BYTES * metadata.num_rows * max(metadata.num_columns, 1)))
