"""Columns of samples as numpy arrays: NaN is unknown; texts are codes; rows of a group lie together.

Notation: n rows; a code is a number >= 0 by row, the same for the same value, and the greatest for none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from scaler.model.kernel import Floats
from scaler.model.sample import Sample

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
TYPES = {"str": pa.string(), "float": pa.float64(), "Mapping[str, float]": pa.string()}
SCHEMA = pa.schema([(field.name, TYPES[str(field.type).removesuffix(" | None")]) for field in fields(Sample)])


def make_table(rows: int, columns: Mapping[str, Any], schema: pa.Schema = SCHEMA) -> pa.Table:
    """A table of this schema; NaN and what is not given are unknown, texts may be one for all rows."""
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(rows, field.type))
        elif isinstance(values, str):
            arrays.append(pa.repeat(pa.scalar(values, field.type), rows))
        elif isinstance(values, pa.Array | pa.ChunkedArray):
            arrays.append(values.cast(field.type))
        else:
            arrays.append(pa.array(values, field.type, from_pandas=True))
    return pa.table(arrays, schema=schema)


def get_numbers(table: pa.Table, name: str) -> Floats:
    """A column of numbers [n]; NaN where it is unknown."""
    numbers: Floats = table[name].cast(pa.float64()).to_numpy()
    return numbers


def encode(column: pa.ChunkedArray) -> Ints:
    """A text's code among all texts, as they come [n]; what is unknown comes last."""
    coded = to_dictionary(column)
    return pc.fill_null(coded.indices.cast(pa.int64()), len(coded.dictionary)).to_numpy(zero_copy_only=False)


def rank(column: pa.ChunkedArray) -> Ints:
    """A text's place among all texts in their order [n]; what is unknown comes last."""
    dictionary = to_dictionary(column).dictionary
    ranks = np.empty(len(dictionary) + 1, np.int64)
    ranks[pc.array_sort_indices(dictionary).to_numpy()] = np.arange(len(dictionary))
    ranks[-1] = len(dictionary)
    return ranks[encode(column)]


def to_dictionary(column: pa.ChunkedArray) -> pa.DictionaryArray:
    coded = column.combine_chunks()
    return coded if isinstance(coded, pa.DictionaryArray) else coded.dictionary_encode()


def combine(*columns: NDArray[Any]) -> Ints:
    """One code by row for the codes or numbers of several columns together, in no order."""
    total = np.zeros(columns[0].size, np.int64)
    for column in columns:
        each = number(column)
        total = number(total * (int(each.max(initial=0)) + 1) + each)
    return total


def number(values: NDArray[Any]) -> Ints:
    """Numbers from 0 on for different values, as they come [n]; by hashes, which sorting takes three times as long."""
    codes: Ints = pa.array(values + 0).dictionary_encode().indices.to_numpy().astype(np.int64)  # of -0., as of 0.
    return codes


def run_max(values: Floats, first: Flags) -> Floats:
    """The greatest known value of the rows before each in its group; NaN where none is. Groups begin at `first`."""
    known = ~np.isnan(values)
    found, ranks = np.unique(values[known], return_inverse=True)
    place = np.zeros(values.size, np.int64)
    place[known] = ranks + 1
    group = np.cumsum(first) * (found.size + 1)
    reached = np.maximum.accumulate(place + group) - group
    before = np.where(first, 0, np.concatenate([[0], reached[:-1]]))
    result: Floats = np.concatenate([[np.nan], found])[before]
    return result


@dataclass(frozen=True, slots=True)
class Groups:
    """Rows of the same code, in ascending order of codes."""

    order: Ints  # [n] rows, those of a group together
    starts: Ints  # [groups] into `order`

    @classmethod
    def of(cls, codes: Ints, within: Sequence[NDArray[Any]] = ()) -> Groups:
        """Group rows by code; in a group by these columns, the first counting most."""
        order = np.lexsort((*reversed(within), codes)) if within else np.argsort(codes, kind="stable")
        ordered = codes[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if codes.size else order[:0]
        return cls(order, starts)

    @property
    def first(self) -> Flags:
        """Whether a row in this order begins a group [n]."""
        marks = np.zeros(self.order.size, np.bool_)
        marks[self.starts] = True
        return marks

    @property
    def heads(self) -> Ints:
        """The first row of each group."""
        return self.order[self.starts]

    def sum(self, values: Floats) -> Floats:
        """Sum of what is known by group; NaN where nothing is."""
        known = ~np.isnan(values)
        if not known.any():
            return np.full(self.starts.size, np.nan)
        sums = np.add.reduceat(np.where(known, values, 0.0)[self.order], self.starts)
        counts = np.add.reduceat(known[self.order].astype(np.int64), self.starts)
        return np.where(counts > 0, sums, np.nan)

    def max(self, values: Floats) -> Floats:
        """The greatest value that is known by group; NaN where none is."""
        if not values.size:
            return values
        found: Floats = np.fmax.reduceat(values[self.order], self.starts)
        return found

    def spread(self, of_groups: NDArray[Any]) -> NDArray[Any]:
        """A value of each group for each of its rows [n]."""
        rows = np.empty(self.order.size, of_groups.dtype)
        rows[self.order] = np.repeat(of_groups, np.diff(np.append(self.starts, self.order.size)))
        return rows
