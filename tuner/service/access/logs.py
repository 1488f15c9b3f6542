"""Format log events as JSON lines or for a terminal, without any secret."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, TextIO
from urllib.parse import quote, quote_plus

HIDDEN = "***"
MIN_SECRET = 4  # of a known secret that is looked for as such: shorter ones are parts of common words
RULES = (
    (re.compile(r"t[sp]_[A-Za-z0-9_-]{20,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer)(\s+)[A-Za-z0-9._~+/=-]{16,}"), rf"\1\2{HIDDEN}"),
    (
        re.compile(
            r"(?i)(authorization|cookie|x-csrf-token)(b?['\"]?\s*[:=,]\s*b?['\"]?)(?:bearer |basic )?[^'\"\r\n]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"(://[^\s/:@'\"]*):[^\s/'\"]*@"), rf"\1:{HIDDEN}@"),
    (re.compile(r"(?i)\b(\w*(?:password|passwd|secret|token|csrf))=[^&\s'\"]+"), rf"\1={HIDDEN}"),
)
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(9), *range(10, 32), *range(127, 160), 0x2028, 0x2029)}
LOUD = ("tuner", "uvicorn.access")
POOL = (
    "sqlalchemy.pool"  # logs what it meets while it gives a lost connection up; whoever lost it raises the same error
)


def say(logger: logging.Logger, level: int, what: str, message: str, **fields: Any) -> None:
    """One event: a word or two for programs, a sentence for people, and figures."""
    logger.log(level, "%s", message, extra={"what": what, "fields": fields})


class Lines(logging.Formatter):
    """A record in; one line out, after which nothing in it is secret."""

    def __init__(self, as_json: bool, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self.as_json = as_json
        known = {form for one in secrets if len(one) >= MIN_SECRET for form in (one, quote(one, ""), quote_plus(one))}
        self.known = sorted(known, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        event = {key: self.hide(value) for key, value in describe(record).items()}
        if self.as_json:
            return json.dumps(event, default=str)
        trace = event.pop("trace", None)
        moment, level, _, message = (str(event.pop(key)) for key in ("time", "level", "what", "message"))
        rest = " ".join(
            f"{key}={value}" for key, value in event.items() if value is not None and str(value) not in message
        )
        line = f"{moment[11:19]} {level:<7} {message}" + (f"  [{rest}]" if rest else "")
        return line.translate(CONTROLS) + (f"\n{trace.translate(CONTROLS | {10: 10})}" if trace else "")

    def hide(self, value: Any) -> Any:
        """In texts however deep, and in what would become text."""
        if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
            return value
        if isinstance(value, Mapping):
            return {self.hide(str(key)): self.hide(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.hide(item) for item in value]
        text = str(value)
        for secret in self.known:
            text = text.replace(secret, HIDDEN)
        for rule, instead in RULES:
            text = rule.sub(instead, text)
        return text


def describe(record: logging.LogRecord) -> dict[str, Any]:
    """Fields of a log record, those added by other libraries included."""
    fields = getattr(record, "fields", None)
    added = fields if isinstance(fields, Mapping) else {}
    event = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "what": getattr(record, "what", record.name),
        "message": record.getMessage(),
    }
    event |= {key: value for key, value in added.items() if key not in event}
    if record.exc_info and record.exc_info[0] is not None:
        if record.name.startswith(POOL):
            event["cause"] = str(record.exc_info[1]).strip()
        else:
            event["trace"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
    return event


def set_up_logs(
    stream: TextIO | None = None, as_json: bool | None = None, verbose: bool = False, secrets: Iterable[str] = ()
) -> None:
    """For the whole process, and instead of what was set up before; JSON unless stderr is a terminal."""
    stream = sys.stderr if stream is None else stream
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines(not stream.isatty() if as_json is None else as_json, secrets))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in LOUD:
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.captureWarnings(True)
    threading.excepthook = tell_of_thread


def tell_of_thread(ended: threading.ExceptHookArgs) -> None:
    """A thread that an error ended: its traceback would go to stderr as it is."""
    if ended.exc_value is None or isinstance(ended.exc_value, SystemExit):
        return
    name = ended.thread.name if ended.thread else "?"
    cause = (ended.exc_type, ended.exc_value, ended.exc_traceback)
    logging.getLogger("tuner.service").error("the thread %s ended by an error", name, exc_info=cause)
