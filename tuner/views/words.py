"""Words and plain values that pages, reports and commands share: states, kinds, facts of documents, JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from scaler.model.units import (
    NONE,
    clean,
    describe_span,
    format_flag,
    format_moment,
    format_money,
    format_number,
    format_share,
)
from scaler.model.wire import read_number, spell, to_plain

STATES = {"reverted": "rolled back", "none": "no objective", "full": "full use"}  # of objectives, where words differ
HEALTH = {"pass": "sound", "warn": "doubtful", "fail": "failed"}  # of surrogates
TRIAL_STATES = {"complete": "Complete", "pruned": "Pruned", "failed": "Failed"}
SHARES = (
    *("violations", "reconfigurations", "confidence", "utilisation", "held", "completeness"),
    *("limit", "allowed", "doubt", "late", "share"),
)  # names of figures, up to the first underscore, that are shares
PRICES = ("price", "real_price", "cost", "cost_error", "other_cost")  # names of figures that are money an hour
LABELS = {  # of documents' keys, where people say it otherwise
    "cost": "price per hour", "cost_error": "its standard error", "other_cost": "price per hour before",
    "real_price": "price paid meanwhile", "violations_limit": "violations allowed",
    "reconfigurations_limit": "reconfigurations allowed", "figures": "then", "verified_on": "verified on",
    "period_s": "period in seconds", "cost_seeds": "seeds of the price", "price": "price per hour", "who": "by",
    "share": "share of the time",
}  # fmt: skip
EARLIEST, LATEST = 1e8, 4.1e9  # seconds since 1970 that a document may mean
MAX_FACTS = 12
MAX_TYPES = 12  # of a deployment
MAX_LETTERS = 300  # of a value shown
UNIT = re.compile(r"(?<=\d) (?=[%±]|(?:ms|s|min|h|d|[KMG]i?B)\b)|(?<=±) (?=\d)")
Row = TypeVar("Row")


def format_state(state: str) -> str:
    """An objective's state: "full use"."""
    return STATES.get(state, state)


def format_ordinal(row: Any) -> str:
    """The one number of a trial or tuning run that people see and commands take."""
    return NONE if row.ordinal is None else str(row.ordinal)


def format_kind(kind: str) -> str:
    """A decision's kind: "no change"."""
    return kind.replace("_", " ").lower()


def bind_units(text: object) -> str:
    """The text with no line break between a figure and its unit: "5 %", "20 ms"."""
    return UNIT.sub("\N{NO-BREAK SPACE}", str(text))


def format_deployment(deployment: Mapping[str, float]) -> str:
    """Replicas by node type: "2 small + 1 large"."""
    parts = [f"{count:g} {clean(kind, 40)}" for kind, count in deployment.items() if count]
    return " + ".join(parts[:MAX_TYPES]) if parts else "no replica"


def is_moment(value: Any) -> bool:
    """Whether a value of a document is taken for seconds since 1970."""
    number = None if isinstance(value, bool) else read_number(value)
    return number is not None and EARLIEST < number < LATEST


def format_value(name: str, value: Any) -> str:
    """A value of a document, by its own name within it: a share, money, a moment, a number, a list or a text."""
    if isinstance(value, bool):
        return format_flag(value)
    number = read_number(value)
    if number is not None:
        if name.partition("_")[0] in SHARES and 0.0 <= number <= 1.0:
            return format_share(number)
        if name in PRICES:
            return format_money(number)
        if is_moment(value):
            return format_moment(number, "minutes")
        return f"{value:,}" if isinstance(value, int) else format_number(number, 5)
    if value is None or value in ({}, [], ()):
        return NONE
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"


def list_facts(
    document: Any, path: str = "", name: str = "", show: Callable[[str, Any], str] = format_value
) -> Iterator[tuple[str, str]]:
    """Every value of a document with the path to it in words: "canary · slots", "720"; `name` is its own key."""
    if isinstance(document, Mapping) and document:
        for key, value in document.items():
            label = LABELS.get(str(key), str(key))
            yield from list_facts(value, f"{path} · {label}" if path else label, str(key), show)
    elif isinstance(document, list | tuple) and any(isinstance(each, Mapping | list | tuple) for each in document):
        for i, value in enumerate(document):
            yield from list_facts(value, f"{path} · {i + 1}", f"{i + 1}", show)
    else:
        yield path, show(name, document)


def join_facts(document: Mapping[str, Any]) -> str:
    """The figures at the top of a document in one line: "slots 720, violations 2.9 %"."""
    stated = [
        f"{clean(key.replace('_', ' '), 40)} {format_value(key, value)}"
        for key, value in document.items()
        if isinstance(value, bool) or read_number(value) is not None
    ]
    return ", ".join(stated[:MAX_FACTS])


def shorten(name: str, letters: int) -> str:
    """A name in so many letters: its beginning and its end, which tell names apart."""
    if len(name) <= letters:
        return name
    end = (letters - 1) // 2
    return f"{name[: letters - 1 - end]}…{name[len(name) - end :]}"


def to_finite(value: Any) -> Any:
    """Values that JSON knows: None for what is not finite, the text of any other object."""
    if isinstance(value, dict):
        return {str(key): to_finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_finite(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def to_json(record: Any) -> str:
    """A record as JSON; what is infinite as the text "Infinity"."""
    return json.dumps(spell(to_plain(record)), indent=2, allow_nan=False)


class Column(NamedTuple):
    """A head, one cell per row, and how to read them."""

    head: str
    cells: tuple[str, ...]  # markup stays as it is in HTML
    reading: str
    style: str = ""  # in HTML


def make_columns(rows: Sequence[Row], shown: Iterable[tuple[str, Callable[[Row], str], str]]) -> list[Column]:
    """A column for each head, with the cell that it has of a row, and how to read it."""
    return [Column(head, tuple(map(show, rows)), reading) for head, show, reading in shown]


def describe_history(history: Any) -> str:
    """One line of a stored history, or of none: "agents begin with 14 days of history", or why they do not."""
    if history is None or not history.document:
        why = "" if history is None or not history.why else f": {history.why}"
        return f"agents begin without history{why}"
    return f"agents begin with {describe_span(history.seconds)} of history"
