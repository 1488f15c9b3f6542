"""Documents for the database as JSON; infinities and NaN as `scaler.model.wire` writes them."""

from __future__ import annotations

from typing import Any

from scaler.model import wire
from scaler.model.errors import BadInput
from scaler.model.wire import read_json


def write_json(document: Any) -> str:
    """The document as JSON; BadInput where a value is not plain."""
    try:
        return wire.write_json(document)
    except TypeError as error:
        raise BadInput(f"a document for the database holds what JSON cannot say ({error}); make it plain") from error


def as_stored(document: Any) -> Any:
    """The document as it will come back: lists where there were tuples, plain numbers for those of numpy."""
    return read_json(write_json(document))
