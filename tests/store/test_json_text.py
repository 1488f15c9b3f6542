"""Documents come back as they were, and any reader of JSON takes what is written."""

from __future__ import annotations

import json
import math
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scaler.model.errors import BadInput
from scaler.model.wire import SPELLED, read_json
from tuner.store.json_fields import as_stored, write_json

words = st.text().filter(lambda word: word not in SPELLED)
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | words
documents = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(words, inner), max_leaves=20)


def refuse(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@given(documents)
def test_documents_come_back_and_are_json(document: object) -> None:
    written = write_json(document)
    json.loads(written, parse_constant=refuse)
    assert read_json(written) == document
    assert read_json(written.encode("utf-8", "surrogatepass")) == document


def test_what_is_no_number_comes_back_as_such() -> None:
    assert math.isnan(read_json(write_json({"x": [math.nan]}))["x"][0])


def test_what_is_not_plain_comes_back_plain() -> None:
    stated = MappingProxyType({"x": (np.float64(0.5), np.int64(3), np.bool_(True)), "r": np.float64("inf")})
    assert as_stored(stated) == {"x": [0.5, 3, True], "r": math.inf}


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(BadInput, match="holds what JSON cannot say"):
        write_json({"x": object()})
