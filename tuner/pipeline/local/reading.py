"""Read monitoring files into tables of samples, by the reader of Spark's workers, on the cores of this machine."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from scaler.model.errors import BadInput
from tuner.pipeline.local.batch_samples import make_batch_samples
from tuner.pipeline.local.columns import SCHEMA
from tuner.pipeline.local.log_context import Row, find_facts, find_queries, make_links
from tuner.pipeline.local.log_samples import make_replica_samples, make_task_samples, pick
from tuner.pipeline.local.record_lines import read_records
from tuner.pipeline.read_marks import Edge
from tuner.pipeline.sources.damage import note_damage
from tuner.pipeline.sources.found import InputFile, find_gaps
from tuner.pipeline.sources.log_file import FilePiece, arrow_schema, pack, read_pieces
from tuner.pipeline.sources.pieces import STREAMING, cut_pieces, refuse, weigh
from tuner.pipeline.sources.progress_documents import fetch, is_address, parse_text, read_file
from tuner.simulation.workers import count_cores, run_all

SPREAD_BYTES = 512 << 20  # of text, from which on other processes are worth their start
SHARES = 8  # of each core, so that all end at about the same time
EVENTS = arrow_schema()
ReadEvents = Callable[[Sequence[InputFile]], pa.Table]


@dataclass(frozen=True, slots=True)
class TableResult:
    """Samples as a table, links between operators, and notes on damage."""

    samples: pa.Table
    links: frozenset[Edge] = frozenset()
    notes: tuple[str, ...] = ()


def examine(
    found: Sequence[InputFile], application: str | None, strict: bool = True, scan: ReadEvents | None = None
) -> TableResult:
    """Read files into samples; those that say nothing of a stream are refused if `strict`, and else noted.

    `scan` reads the events of event logs, where not this process does.
    """
    results = []
    with paused_collection():
        if logs := [file for file in found if file.kind == "event-log"]:
            results.append(read_event_log(logs, (scan or read_events)(logs), application, strict))
        for kind, read in {"progress": read_progress, "records": read_lines}.items():
            if files := [file for file in found if file.kind == kind]:
                results.append(read(files, application, strict))
    return TableResult(
        pa.concat_tables([SCHEMA.empty_table(), *(result.samples for result in results)]),
        frozenset(chain.from_iterable(result.links for result in results)),
        tuple(chain.from_iterable(result.notes for result in results)),
    )


@contextmanager
def paused_collection() -> Iterator[None]:
    """Look for no cycles meanwhile: a million rows have none, and looking takes a sixth of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def read_event_log(
    found: Sequence[InputFile], events: pa.Table, application: str | None, strict: bool = True
) -> TableResult:
    """Make samples of the events of logs; of a rolling log all files are needed, for one explains the next."""
    tasks = events.filter(pc.equal(events["kind"], "task"))
    rare = events.filter(pc.not_equal(events["kind"], "task")).to_pylist()
    counts = count_kinds(tasks, rare)
    logs = {file.log for file in found}
    streaming = [log for log, kinds in counts.items() if STREAMING & kinds.keys()]
    if not streaming and strict:
        raise BadInput(refuse(found, counts))
    facts = find_facts(rare, application)
    samples = pa.concat_tables(
        [
            make_task_samples(tasks, facts),
            make_replica_samples(events, rare, facts),
            make_batch_samples(pick(rare, "progress"), facts.queries),
        ]
    )
    if any(file.compact for file in found):  # it repeats what its originals hold, where these are still there
        samples = drop_repeated_keys(samples)
    rest = len(logs) - len(streaming)
    idle = [f"{rest} of {len(logs)} event logs ran no streaming query and say nothing"] if rest else []
    links = frozenset(make_links(rare, facts.queries))
    return TableResult(samples, links, (*note_damage(counts), *find_gaps(found), *idle))


def drop_repeated_keys(samples: pa.Table) -> pa.Table:
    numbered = samples.append_column("row", pa.array(range(samples.num_rows)))
    first = numbered.group_by(["operator", "key"], use_threads=False).aggregate([("row", "min")])
    return samples.take(first["row_min"])


def count_kinds(tasks: pa.Table, rare: Iterable[Row]) -> dict[str, dict[str, int]]:
    """Count events by log and kind, of damaged lines the lines."""
    counts: dict[str, dict[str, int]] = {}
    for row in tasks.group_by("log").aggregate([("log", "count")]).to_pylist():
        counts[row["log"]] = {"task": row["log_count"]}
    for row in rare:
        kinds = counts.setdefault(row["log"], {})
        kinds[row["kind"]] = kinds.get(row["kind"], 0) + (row["number"] if row["kind"] == "corrupt" else 1)
    return counts


def read_events(found: Sequence[InputFile]) -> pa.Table:
    """The events of all files, on other cores too where there is much text."""
    cores = count_cores()
    if sum(map(weigh, found)) < SPREAD_BYTES or cores < 2:
        return read_pieces([piece for bundle in cut_pieces(found, 1, split=False) for piece in bundle])
    return pa.concat_tables([EVENTS.empty_table(), *run_all(read_pieces, cut_pieces(found, SHARES * cores), here=True)])


def read_progress(found: Sequence[InputFile], application: str | None, strict: bool = True) -> TableResult:
    if not application:
        raise BadInput(f"{found[0].path} does not say which application it is of; name the application")
    pieces = [FilePiece(file.log, file.path, file.codec, limits=file.limits) for file in found if not is_address(file)]
    batches = list(chain.from_iterable(map(read_file, pieces)))
    for file in found:
        if is_address(file):
            batches += pack(parse_text(fetch(file.path), file.log), EVENTS)
    rows = pa.Table.from_batches(batches, EVENTS).to_pylist()
    counts = count_kinds(EVENTS.empty_table(), rows)
    if strict and not any("progress" in kinds for kinds in counts.values()):
        raise BadInput(f"{found[0].path}: no progress of a streaming query is in it; write progress.json, one a line")
    kinds = {kind: list(pick(rows, kind)) for kind in ("stage", "query", "progress", "application")}
    queries = find_queries(kinds, application)
    samples = make_batch_samples(kinds["progress"], queries)
    return TableResult(samples, frozenset(make_links(rows, queries)), tuple(note_damage(counts)))


def read_lines(found: Sequence[InputFile], application: str | None, strict: bool = True) -> TableResult:
    samples, notes = read_records(found, application, strict)
    return TableResult(samples, notes=notes)
