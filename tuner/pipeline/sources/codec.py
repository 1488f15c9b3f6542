"""Read the compressed files of event logs in chunks of text, as far as they are whole.

Spark has three codecs of its own for an event log, of which common tools read zstd alone:

    zstd     plain Zstandard frames, one after the other; the last one lacks its end while the log is being written
    lz4      blocks of lz4-java: "LZ4Block", a token (16 stored, 32 compressed, plus the level), the sizes compressed
             and not and a checksum, each of 4 bytes, the lowest first; a block of size 0 ends a stream, another may
             follow
    snappy   the stream of snappy-java: 16 bytes that begin with 0x82 "SNAPPY" 0, then raw blocks, each behind its size
             in 4 bytes, the highest first; the header may come again

A file that ends in the middle, as a log does that is still being written, yields what was whole before that. However
much a file unpacks to, one chunk or block of it is in memory at a time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO

from scaler.model.bounded_file import CHUNK, ReadLimits, bound_text, open_regular
from scaler.model.errors import BadInput

LZ4_MAGIC = b"LZ4Block"
SNAPPY_MAGIC = b"\x82SNAPPY\x00"
STORED = 0x10
LARGEST = 32 << 20  # bytes of a block, the most that lz4-java writes: a larger size is damage
HOW_TO_READ_MORE = "unpack it and name the plain file, or give `tuner ingest` a higher --max-ratio or --max-text"
LIMITS = ReadLimits(remedy=HOW_TO_READ_MORE)


class TruncatedStream(Exception):
    """The rest of the stream is missing or wrong."""


def read_chunks(path: str, codec: str, start: int = 0, limits: ReadLimits = LIMITS) -> Iterator[bytes]:
    """Yield the text of a file, from byte `start` where it is not compressed; `TruncatedStream` where it breaks off."""
    with open_regular(path) as file:
        file.seek(start)
        chunks = CODECS[codec](file)
        yield from chunks if codec == "none" else bound_text(chunks, path, os.fstat(file.fileno()).st_size, limits)


def read_plain(file: BinaryIO) -> Iterator[bytes]:
    while data := file.read(CHUNK):
        yield data


def read_zstd(file: BinaryIO) -> Iterator[bytes]:
    import zstandard

    text = zstandard.ZstdDecompressor().stream_reader(file, read_size=CHUNK, read_across_frames=True, closefd=False)
    try:
        while data := text.read(CHUNK):
            yield data
    except zstandard.ZstdError as error:
        raise TruncatedStream(str(error)) from error


def read_lz4(file: BinaryIO) -> Iterator[bytes]:
    import cramjam

    while head := file.read(21):
        if len(head) < 21:
            raise TruncatedStream("a block header is cut")
        if head[:8] != LZ4_MAGIC:
            raise TruncatedStream("a block does not begin with LZ4Block")
        packed, whole = int.from_bytes(head[9:13], "little"), int.from_bytes(head[13:17], "little")
        if not whole:
            continue
        data = file.read(min(packed, LARGEST))
        if len(data) < packed or whole > LARGEST:
            raise TruncatedStream("a block is cut")
        if head[8] & 0xF0 == STORED:
            yield data
            continue
        try:
            yield bytes(cramjam.lz4.decompress_block(data, output_len=whole))
        except cramjam.DecompressionError as error:
            raise TruncatedStream(str(error)) from error


def read_snappy(file: BinaryIO) -> Iterator[bytes]:
    import cramjam

    if file.read(16)[:8] != SNAPPY_MAGIC:
        raise TruncatedStream("it does not begin with the header of snappy-java")
    while size := file.read(4):
        if size == SNAPPY_MAGIC[:4]:
            file.read(12)
            continue
        length = int.from_bytes(size, "big")
        data = file.read(min(length, LARGEST))
        if len(size) < 4 or len(data) < length:
            raise TruncatedStream("a block is cut")
        try:
            if cramjam.snappy.decompress_raw_len(data) > LARGEST:
                raise TruncatedStream("a block is damaged")
            yield bytes(cramjam.snappy.decompress_raw(data))
        except cramjam.DecompressionError as error:
            raise TruncatedStream(str(error)) from error


CODECS: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {
    "none": read_plain,
    "zstd": read_zstd,
    "lz4": read_lz4,
    "snappy": read_snappy,
}


def find_codec(name: str) -> str:
    """Codec of a log by its name."""
    stem = name.removesuffix(".compact").removesuffix(".inprogress")
    suffix = stem.rsplit(".", 1)[-1] if "." in stem else ""
    if suffix == "lzf":
        raise BadInput(f"{name} is compressed with lzf, which is not read; set spark.eventLog.compression.codec=zstd")
    return suffix if suffix in CODECS else "none"
