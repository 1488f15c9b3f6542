"""Fold fine samples into windows, as `tuner.pipeline.fold` does it by Spark: the same rules, the same rows.

Samples are an Arrow table with the columns of `Sample` and `INGEST`; a repeated one is told by its key.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scaler.model.kernel import Floats
from scaler.model.sample import EVIDENCE
from scaler.model.sketch import Sketch, add_buckets
from tuner.pipeline.local.columns import (
    SCHEMA,
    Flags,
    Groups,
    Ints,
    combine,
    encode,
    get_numbers,
    make_table,
    rank,
    run_max,
)
from tuner.pipeline.sources.sample_schema import AT_THE_END, BLOCKS, MEASURED, SKETCH, SPREAD, STATE_LEVELS, SUMS
from tuner.pipeline.windows import INGEST, check_window

HISTORY = SCHEMA.append(pa.field(INGEST, pa.string()))
IDENTITY = ("application", "operator", "evidence")
Figures = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Stretches of samples, each within one window [m]."""

    row: Ints  # of the sample in its table
    slot: Ints
    begin: Floats
    finish: Floats
    share: Floats  # of the sample's time
    at_the_end: Flags


def fold(samples: pa.Table, window_s: float, touched: pa.Table | None = None) -> pa.Table:
    """Put sound samples on the grid of windows at multiples of `window_s` since 1970, only the `touched` if given."""
    check_window(window_s)
    kept = drop_repeated(samples)
    if not kept.num_rows:
        return make_table(0, {})
    pieces = cut(kept, window_s)
    if touched is not None:
        pieces = choose(pieces, is_touched(kept, pieces, touched))
    place = combine(*(encode(kept[name])[pieces.row] for name in ("application", "operator", "node_type")), pieces.slot)
    ranks = rank_evidence(kept)[pieces.row]
    code = place * len(EVIDENCE) + ranks
    added, groups = add_up(kept, pieces, code, window_s)
    heads = groups.heads
    sketches = merge_sketches(kept, pieces, groups)
    added[SKETCH] = np.full(heads.size, np.nan)
    added[SKETCH][list(sketches)] = list(sketches)
    chosen, merged = merge_evidence(added, place[heads], ranks[heads])
    row, slot = pieces.row[heads][chosen], pieces.slot[heads][chosen]
    texts = {name: kept[name].take(row) for name in ("application", "operator", "node_type", "evidence")}
    times = {"start": slot * window_s, "end": (slot + 1) * window_s}
    responses = [None if np.isnan(at) else json.dumps(sketches[int(at)]) for at in merged.pop(SKETCH)]
    return make_table(chosen.size, {**texts, **times, **merged, SKETCH: pa.array(responses, pa.string())})


def rank_evidence(samples: pa.Table) -> Ints:
    """0 for the most exact kind."""
    places = {name: i for i, name in enumerate(EVIDENCE)}
    coded = samples["evidence"].combine_chunks().dictionary_encode()
    ranks = np.array([places[name] for name in coded.dictionary.to_pylist()], np.int64)
    return ranks[coded.indices.to_numpy()]


def identify(samples: pa.Table) -> Ints:
    """A code that samples have in common which are the same thing: by key, else node type, start and end."""
    key = encode(samples["key"])
    keyless = samples["key"].is_null().to_numpy()
    same = combine(*(encode(samples[name]) for name in IDENTITY), key)
    if not keyless.any():
        return same
    place = combine(encode(samples["node_type"]), get_numbers(samples, "start"), get_numbers(samples, "end"))
    return combine(same, np.where(keyless, place, -1))


def drop_repeated(samples: pa.Table) -> pa.Table:
    """Keep one row per key: the most complete, of these the last read, and then by value: order never matters."""
    same = identify(samples)
    if not same.size or int(same.max()) + 1 == same.size:
        return samples
    order: list[Any] = [falling(get_numbers(samples, "completeness"))]
    order += [-rank(samples[INGEST])] if INGEST in samples.column_names else []
    order += [falling(get_numbers(samples, name)) for name in ("end", "start")]
    order += [falling_text(samples["node_type"])]
    order += [falling(get_numbers(samples, name)) for name in MEASURED]
    groups = Groups.of(same, [*order, falling_text(samples[SKETCH])])
    return samples.take(np.sort(groups.heads))


def falling(values: Floats) -> Floats:
    """A key that sorts the highest first and what is unknown last."""
    return np.where(np.isnan(values), np.inf, -values)


def falling_text(column: pa.ChunkedArray) -> Ints:
    codes = rank(column)
    return np.where(column.is_null().to_numpy(), 1, -codes)


def cut(samples: pa.Table, window_s: float) -> Pieces:
    """Cut samples at the edges of windows."""
    start, end = get_numbers(samples, "start"), get_numbers(samples, "end")
    first = np.floor(start / window_s).astype(np.int64)
    last = np.maximum(first, np.ceil(end / window_s).astype(np.int64) - 1)
    count = last - first + 1
    row = np.repeat(np.arange(start.size), count)
    slot = np.arange(row.size) - np.repeat(np.cumsum(count) - count, count) + first[row]
    begin, finish = np.maximum(start[row], slot * window_s), np.minimum(end[row], (slot + 1) * window_s)
    length = (end - start)[row]
    whole = (first == last)[row]
    share = np.where(whole, 1.0, (finish - begin) / np.where(whole, 1.0, length))
    return Pieces(row, slot, begin, np.maximum(begin, finish), share, slot == last[row])


def choose(pieces: Pieces, kept: Flags) -> Pieces:
    return Pieces(*(getattr(pieces, name)[kept] for name in Pieces.__slots__))


def is_touched(samples: pa.Table, pieces: Pieces, touched: pa.Table) -> Flags:
    wanted = set(zip(touched["operator"].to_pylist(), touched["slot"].to_pylist(), strict=True))
    operators = samples["operator"].combine_chunks().dictionary_encode()
    names, codes = operators.dictionary.to_pylist(), operators.indices.to_numpy()[pieces.row]
    place = combine(codes, pieces.slot)
    groups = Groups.of(place)
    inside = [(names[codes[head]], int(pieces.slot[head])) in wanted for head in groups.heads]
    return groups.spread(np.array(inside, np.bool_))


def find_touched(samples: pa.Table, ingest: str, window_s: float) -> pa.Table:
    """Operator and slot of every window in which a sample of this reading lies, or did in an earlier version of it."""
    groups = Groups.of(identify(samples))
    fresh = get_text_flags(samples, ingest)
    hit = np.add.reduceat(fresh[groups.order].astype(np.int64), groups.starts) > 0 if fresh.size else fresh
    chosen = samples.filter(pa.array(groups.spread(hit)))
    pieces = cut(chosen, window_s)
    table = pa.table({"operator": chosen["operator"].take(pieces.row), "slot": pieces.slot})
    return table.group_by(["operator", "slot"]).aggregate([])


def get_text_flags(samples: pa.Table, ingest: str) -> Flags:
    codes = samples[INGEST].combine_chunks().dictionary_encode()
    names = codes.dictionary.to_pylist()
    return codes.indices.to_numpy() == names.index(ingest) if ingest in names else np.zeros(len(codes), np.bool_)


def add_up(samples: pa.Table, pieces: Pieces, code: Ints, window_s: float) -> tuple[Figures, Groups]:
    """Figures of each window and kind of evidence; `completeness` is the share of the window that it covers."""
    completeness = get_numbers(samples, "completeness")[pieces.row]
    groups = Groups.of(code, [pieces.begin, -completeness, pieces.finish])
    figures: Figures = {}
    for column in MEASURED:
        values = get_numbers(samples, column)
        if np.isnan(values).all():
            figures[column] = np.full(groups.starts.size, np.nan)
            continue
        values = values[pieces.row]
        if column in SPREAD:
            values = values * pieces.share
        if column in (*AT_THE_END, *STATE_LEVELS, "backlog"):
            values = np.where(pieces.at_the_end, values, np.nan)
        if column == "replicas":
            figures[column] = average_replicas(groups, pieces, values)
        elif column == "backlog":
            until = np.where(np.isnan(values), np.nan, get_numbers(samples, "end")[pieces.row])
            last = until == groups.spread(groups.max(until))
            figures[column] = groups.max(np.where(last, values, np.nan))
        else:
            figures[column] = groups.sum(values) if column in SUMS else groups.max(values)
    covered = cover(groups, pieces, pieces.finish) * completeness
    figures["completeness"] = np.minimum(1.0, groups.sum(covered) / window_s)
    return figures, groups


def cover(groups: Groups, pieces: Pieces, reached: Floats) -> Floats:
    """Seconds that each piece is the first to cover of its window, in order of time; `reached`: NaN does not cover."""
    order = groups.order
    before = np.empty(order.size)
    before[order] = run_max(reached[order], groups.first)
    return np.maximum(0.0, pieces.finish - np.fmax(pieces.begin, before))


def average_replicas(groups: Groups, pieces: Pieces, values: Floats) -> Floats:
    """Mean over the time for which they are known."""
    known = ~np.isnan(values)
    covered = groups.sum(np.where(known, cover(groups, pieces, np.where(known, pieces.finish, np.nan)), np.nan))
    seconds = groups.sum(values * (pieces.finish - pieces.begin))
    some = covered > 0.0
    return np.where(some, seconds / np.where(some, covered, 1.0), groups.max(values))


def merge_evidence(added: Figures, place: Ints, ranks: Ints) -> tuple[Ints, Figures]:
    """By window, the row of its most exact evidence, and each block of columns from the kind that knows it best."""
    windows = Groups.of(place, [ranks])
    number = np.empty(place.size, np.int64)
    number[windows.order] = np.cumsum(windows.first) - 1
    rows = np.arange(place.size)
    merged: Figures = {"completeness": windows.max(added["completeness"])}
    tenths = np.floor(added["completeness"] * 10.0 + 0.5)
    for block in BLOCKS:
        guessed = ranks == (-1 if block.guess is None else EVIDENCE.index(block.guess))
        order = ranks + guessed * len(EVIDENCE) - (tenths * 10.0 if block.total else 0.0)
        known = ~np.all([np.isnan(added[column]) for column in block.columns], axis=0)
        for column in block.columns:
            merged[column] = np.full(windows.starts.size, np.nan)
        if known.any():
            best = rows[known][Groups.of(number[known], [order[known]]).heads]
            for column in block.columns:
                merged[column][number[best]] = added[column][best]
    return windows.heads, merged


def merge_sketches(samples: pa.Table, pieces: Pieces, groups: Groups) -> dict[int, Sketch]:
    """Sum of the sketches of each group's samples, by the group's number, where any has one."""
    texts = samples[SKETCH].combine_chunks()
    have = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False)[pieces.row])
    number = groups.spread(np.arange(groups.starts.size))
    merged: dict[int, Sketch] = {}
    for piece in have.tolist():
        sketch = json.loads(texts[int(pieces.row[piece])].as_py())
        add_buckets(merged.setdefault(int(number[piece]), {}), sketch, float(pieces.share[piece]))
    return merged
