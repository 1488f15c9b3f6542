"""Which files have something new, by what they were and what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from scaler.model.errors import BadInput
from tuner.pipeline.read_marks import HEAD, choose_fresh, compare_files, mark_file
from tuner.pipeline.sources.found import InputFile


def find(path: Path, log: str | None = None) -> InputFile:
    return InputFile(str(path), "progress" if log is None else "event-log", log or "progress")


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("size", [10, HEAD - 1, HEAD, HEAD + 5000])
@pytest.mark.parametrize(
    ("change", "known"),
    [
        (lambda data: data, "same"),
        (lambda data: data + b"more", "grown"),
        (lambda data: data[:-1], "replaced"),
        (lambda data: b"X" + data[1:], "replaced"),
        (lambda data: data[:-1] + b"X", "replaced"),
        (lambda data: b"X" + data[1:] + b"more", "replaced"),
    ],
)
def test_a_file_is_known_by_its_size_and_its_ends(size: int, change: object, known: str, tmp_path: Path) -> None:
    assert callable(change)
    data = bytes(i % 251 for i in range(size))
    found = [find(put(tmp_path / "p.json", data))]
    (state,) = compare_files(found, {})
    assert state.known == "new"
    marks = {state.path: mark_file("shop", state, 0.0, None)}
    put(tmp_path / "p.json", change(data))
    assert [state.known for state in compare_files(found, marks)] == [known]
    assert choose_fresh(found, compare_files(found, marks)) == ([] if known == "same" else found)


def test_with_a_piece_of_a_rolling_log_its_other_pieces_are_read_again(tmp_path: Path) -> None:
    names = ["a/1", "a/2", "b/1", "b/2"]
    found = [find(put(tmp_path / name, name.encode()), log=name[0]) for name in names]
    marks = {state.path: mark_file("shop", state, 0.0, None) for state in compare_files(found, {})}
    put(tmp_path / "a/2", b"a/2 and more")
    assert choose_fresh(found, compare_files(found, marks)) == found[:2]


def test_an_address_is_new_every_time() -> None:
    found = [InputFile("http://127.0.0.1:4040/progress", "progress", "progress")]
    assert [state.known for state in compare_files(found, {})] == ["new"]


def test_a_file_that_is_gone_meanwhile_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"p\.json cannot be read \(No such file or directory\); make it readable"):
        compare_files([find(tmp_path / "p.json")], {})
