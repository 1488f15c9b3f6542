"""Files that unpack to far more than they are, or never end: bounded memory, and a sentence instead of a crash."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import cramjam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from scaler.model.bounded_file import CHUNK, OversizedText, ReadLimits, read_gzip
from scaler.model.errors import BadInput
from sim import trace_file
from sim.trace_file import read_trace
from tests.pipeline import logs
from tuner.pipeline.sources import progress_documents, sample_files
from tuner.pipeline.sources.codec import HOW_TO_READ_MORE, read_chunks
from tuner.pipeline.sources.damage import note_damage
from tuner.pipeline.sources.found import InputFile, detect
from tuner.pipeline.sources.log_file import LONGEST, FilePiece, read_piece
from tuner.pipeline.sources.pieces import refuse
from tuner.pipeline.sources.progress_documents import read_documents

MIB = 1 << 20
SMALL = ReadLimits(ratio=10, free_bytes=MIB, remedy=HOW_TO_READ_MORE)


def pack_zstd(path: Path, pieces: Iterator[bytes]) -> Path:
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    path.write_bytes(b"".join([*map(packer.compress, pieces), packer.flush()]))
    return path


def spaces(mib: int) -> Iterator[bytes]:
    """The opening of a log, and one line that does not end."""
    yield "\n".join([*logs.start(), '{"Event":"x']).encode()
    yield from (b" " * MIB for _ in range(mib))


def test_zstd_unpacks_a_chunk_at_a_time(tmp_path: Path) -> None:
    path = pack_zstd(tmp_path / "app.zstd", spaces(64))
    chunks = [len(chunk) for chunk in read_chunks(str(path), "zstd")]
    assert path.stat().st_size < MIB
    assert max(chunks) <= CHUNK
    assert sum(chunks) > 64 * MIB


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy"])
def test_packed_log_ends_at_its_limit(tmp_path: Path, codec: str) -> None:
    block = b"x" * MIB
    path = tmp_path / "app"
    if codec == "zstd":
        pack_zstd(path, iter([block] * 8))
    elif codec == "lz4":
        packed = bytes(cramjam.lz4.compress_block(block, store_size=False))
        head = b"LZ4Block\x25" + len(packed).to_bytes(4, "little") + len(block).to_bytes(4, "little") + bytes(4)
        path.write_bytes((head + packed) * 8)
    else:
        packed = bytes(cramjam.snappy.compress_raw(block))
        path.write_bytes(b"\x82SNAPPY\x00" + bytes(8) + (len(packed).to_bytes(4, "big") + packed) * 8)
    read: list[int] = []
    with pytest.raises(OversizedText, match="--max-ratio or --max-text"):
        read.extend(len(chunk) for chunk in read_chunks(str(path), codec, limits=SMALL))
    assert sum(read) <= max(SMALL.free_bytes, SMALL.ratio * path.stat().st_size)
    assert sum(map(len, read_chunks(str(path), codec))) == 8 * MIB


def test_line_without_end_is_given_up(tmp_path: Path) -> None:
    path = pack_zstd(tmp_path / "app.zstd", spaces(LONGEST // MIB + 2))
    rows = [row for batch in read_piece(FilePiece("log", str(path), "zstd")) for row in batch.to_pylist()]
    assert [row["kind"] for row in rows] == ["application", "executor", "oversized"]
    assert "a line of more than 64 MiB" in rows[-1]["name"]


def test_refusal_of_a_bomb_says_how_to_read_more() -> None:
    file = InputFile("/l/app.zstd", "event-log", "/l/app")
    counts = {"/l/app": {"application": 1, "executor": 1, "oversized": 1}}
    assert "--max-ratio or --max-text" in refuse([file], counts)
    assert len(note_damage(counts)) == 1


def test_printed_document_without_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_documents, "LONGEST", MIB)
    path = tmp_path / "progress.json"
    path.write_bytes(b"{\n" + b'"x": 1,\n' * (MIB // 7))
    assert [row["kind"] for row in read_documents(FilePiece("log", str(path)))] == ["oversized"]


def test_gzip_unpacks_a_chunk_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "t.gz"
    path.write_bytes(gzip.compress(b" " * (8 * MIB)))
    with path.open("rb") as file:
        assert max(map(len, read_gzip(file))) <= CHUNK


def test_packed_table_is_bounded_before_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"operator,start,end,arrived\n" + b"x" * (4 * MIB)))
    with pytest.raises(OversizedText, match="--max-ratio or --max-text"):
        sample_files.read_header(InputFile(str(path), "table", "table", limits=SMALL))
    monkeypatch.setattr(sample_files, "LONGEST", MIB)
    with pytest.raises(OversizedText, match="has a line of more than"):
        sample_files.read_header(InputFile(str(path), "table", "table"))


def test_header_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"operator," * MIB)
    with pytest.raises(BadInput, match="the header has more than 512 KiB"):
        sample_files.read_header(InputFile(str(path), "table", "table"))


def test_parquet_of_endless_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({name: [1.0] * 200_000 for name in ("operator", "start", "end", "arrived")}), path)
    assert path.stat().st_size < 10_000
    with pytest.raises(OversizedText, match="holds more than"):
        sample_files.read_parquet_names(InputFile(str(path), "table", "table", limits=SMALL))


@pytest.mark.parametrize("name", ["t.txt.gz", "t.csv.gz", "t.parquet"])
def test_packed_trace_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(b"rate\n" + b"1" * (2 * MIB)))
    else:
        pq.write_table(pa.table({"rate": [1.0] * 200_000}), path)
    monkeypatch.setattr(trace_file, "LIMITS", ReadLimits(text_bytes=MIB, remedy="write it at a longer step"))
    with pytest.raises(OversizedText, match="write it at a longer step"):
        read_trace(path)


def test_trace_of_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_ROWS", 3)
    path = tmp_path / "t.txt"
    path.write_text("1\n" * 4)
    with pytest.raises(BadInput, match="has 4 rows, and a trace may have 3"):
        read_trace(path)
    path.write_text("1\n" * 3)
    assert read_trace(path).rates.size == 3


def test_pipe_is_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(BadInput, match="it is no regular file"):
        detect(tmp_path / "t.csv")
    with pytest.raises(BadInput, match="it is no regular file"):
        read_trace(tmp_path / "t.csv")
    rows = [row for batch in read_piece(FilePiece("log", str(tmp_path / "t.csv"))) for row in batch.to_pylist()]
    assert [row["kind"] for row in rows] == ["unreadable"]


def test_pipe_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a")
    (tmp_path / "b").write_text("\n".join(logs.start()))
    assert [Path(file.path).name for file in detect(tmp_path)] == ["b"]
