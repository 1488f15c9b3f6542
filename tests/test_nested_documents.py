"""Documents of outside nested as deeply as Python parses at all, and a little less: refused where they are read.

Python stops at some thousand levels, stack frames included: what is parsed by a short stack cannot be compared, written
or read by a longer one. Depths just below are what makes a reader fail that looks sound.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scaler.agent.order_source import OrdersFile
from scaler.model.errors import BadInput
from scaler.model.orders import parse_orders
from scaler.model.spark_progress import read_progress, read_query_event
from scaler.model.wire import MAX_DEPTH, check_depth
from scaler.sensing.source_files import read_source_folder
from sim.toml_table import read_toml
from tests.link.manager import make_orders
from tests.live.streams import progress
from tests.pipeline import logs
from tuner.pipeline.local.record_lines import parse_sample
from tuner.pipeline.sources.log_file import FilePiece, read_piece
from tuner.service.page.slot_grid import read_document

DEPTHS = (930, 950, 960, 970, 975, 980, 985, 990, 5000)
HOLE = "a place for something deep"


def dig(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def nest(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": [value]}
    return value


def parse(text: str) -> Iterator[Any]:
    """The document, where Python parses it."""
    try:
        yield json.loads(text)
    except RecursionError:
        return


def place_holes(document: Any) -> Iterator[Any]:
    """The document with the hole in each of its places in turn."""
    yield HOLE
    inner = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in inner:
        for holed in place_holes(value):
            if isinstance(document, dict):
                yield {**document, key: holed}
            else:
                yield [*document[:key], holed, *document[key + 1 :]]


def write_deep(document: Any, depth: int) -> str:
    return json.dumps(document, separators=(",", ":")).replace(json.dumps(HOLE), dig(depth))


@pytest.mark.parametrize("place", ["guards", "change_budget", "objective", "experience", "of a newer manager"])
def test_orders_are_refused_in_a_sentence(place: str) -> None:
    flat = make_orders(**{place: {"a": nest(10)}, "objective": None})
    assert parse_orders({**flat, "guards": {"": nest(10)}, "change_budget": None, "experience": {}}).revision == 1
    for depth in DEPTHS:
        for document in parse(write_deep(make_orders(**{place: {"parse": HOLE}}), depth)):
            with pytest.raises(BadInput, match=f"nested more than {MAX_DEPTH} deep"):
                parse_orders(document)


def test_depth_counts_documents_and_lists() -> None:
    check_depth(nest(MAX_DEPTH // 2))
    for deeper in ([nest(MAX_DEPTH // 2)], nest(2000)):
        with pytest.raises(BadInput, match="nested"):
            check_depth(deeper)


def test_an_objective_in_a_file_keeps_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "objective.json"
    file.write_text(json.dumps(make_orders(3)))
    office = OrdersFile(file, "shop", 30.0)
    before = office.orders()
    for depth in DEPTHS:
        file.write_text(write_deep(make_orders(4, guards={"parse": HOLE}), depth))
        assert office.orders() == before
        with pytest.raises(BadInput, match=r"^the objective .* is (not whole|no JSON)"):
            OrdersFile(file, "shop", 30.0)


def test_reports_of_spark_are_read_or_left_out() -> None:
    whole = progress("r", 1, 1_700_006_400.0, 0.5, 0, 5, 9)["document"]
    whole["sources"][0]["metrics"] = {"avgOffsetsBehindLatest": "1"}
    read = 0
    for holed in place_holes(whole):
        for depth in (3, *DEPTHS):
            for document in parse(write_deep(holed, depth)):
                read += read_progress(document) is not None
                read_query_event(document, 0.0)
    assert read > 20


def test_lines_of_an_event_log_are_read_or_counted_as_damaged(tmp_path: Path) -> None:
    lines = [logs.executor(), logs.profile(1, []), logs.removed()]
    lines.append(logs.progress_event(logs.progress(0, "2023-11-14T22:13:20.000Z", 90)))
    deep = [
        write_deep(holed, depth) for line in lines for holed in place_holes(json.loads(line)) for depth in (990, 5000)
    ]
    file = tmp_path / "log"
    file.write_text("\n".join([*deep, *lines]))
    rows = [row for batch in read_piece(FilePiece("log", str(file))) for row in batch.to_pylist()]
    damaged = sum(row["number"] for row in rows if row["kind"] == "corrupt")
    assert 0 < damaged < len(deep)
    assert len(rows) > len(lines)


def test_lines_of_a_timer_and_of_a_decision_are_read_or_left_out() -> None:
    whole = {"application": "shop", "operator": "parse", "start": 0.0, "end": 60.0, "responses": {"1": 2.0}}
    assert parse_sample(json.dumps(whole).encode(), None) is not None
    assert parse_sample(json.dumps({**whole, "busy": 10**400}).encode(), None) is None
    for depth in DEPTHS:
        for holed in place_holes(whole):
            parse_sample(write_deep(holed, depth).encode(), None)
        read_document(dig(depth))
    assert read_document(dig(5000)) is None


def test_a_log_of_files_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    source, log = tmp_path / "source", tmp_path / "checkpoint" / "sources" / "0"
    source.mkdir()
    log.mkdir(parents=True)
    for depth in DEPTHS:
        (log / "0").write_text(f"v1\n{dig(depth)}\n")
        assert read_source_folder(str(source), str(tmp_path / "checkpoint")) is None


@pytest.mark.parametrize(
    "text",
    ["v = " + "[" * 990 + "]" * 990, "v = " + "[" * 5000, "a." * 990 + "b = 1"],
    ids=["arrays", "open arrays", "dotted keys"],
)
def test_a_description_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "app.toml").write_text(text)
    with pytest.raises(BadInput, match=f"app.toml is nested more than {MAX_DEPTH} deep"):
        read_toml(tmp_path / "app.toml")
