"""Requests by the thousand, of the OpenAPI document and of the pages, sent by several threads to a real service.

What is noted: answers that are wrong by themselves, what was acknowledged, and how much memory the process had.
"""

from __future__ import annotations

import json
import random
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.service.conftest import BOUNDS, WEIGHTS
from tests.service.test_hostile import DEEP, NEVER

THREADS = 6
THERE = {"app": "shop", "version": 1, "kind": "pin", "action": "pause", "trial": 1, "run": 1}
TIMEOUT = 90.0  # seconds; a writer waits 30 for a locked database
INNARDS = re.compile(r"sqlite|psycopg|sqlalchemy|Traceback|SELECT |tuner\.db|svc_|/tmp/", re.IGNORECASE)
PAGES = (
    "/", "/applications", "/applications/shop", "/applications/no such", "/candidate", "/objectives/1",
    "/objectives/999999", "/runs/1", "/trials/1", "/explain", "/login", "/static/page.css", "/static/..",
    "/healthz", "/metrics",
)  # fmt: skip
ACTS = ("control", "lift", "push", "rollback", "tune", "pause", "resume", "nothing")
FIELDS = (
    "app", "operator", "kind", "at", "since", "until", "last", "before", "after", "version", "stage", "why", "sort",
    "way", "page", "tab", "search", "show", "only", "days", "from", "to", "zone", "next", "token", "no such",
)  # fmt: skip
VALUES = (
    "", "shop", "parse", "pin", "direction_lock", "blocked_hours", "1", "0", "-1", "1e400", "nan", "inf", "9" * 400,
    "shadow", "full", "in", "out", "1d", "30d", "2026-11-19T08:00", "9999-12-31T23:59", "08:00", "25:99", "\x00",
    "\U0001f600", "\ud800", "a" * 5000, "<script>", "' OR 1=1 --", "../..", "=1+1", "\x1b[31m", "%s%n", "{{7*7}}",
    "Europe/Vienna", "../../etc/passwd", "SCALED", "price", "\u202e", "//elsewhere",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, as httpx takes it."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    page: bool = False


@dataclass(slots=True)
class Campaign:
    """What came of it."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    acknowledged: set[tuple[str, str, str, float]] = field(default_factory=set)  # table, application, operator, time
    objectives: set[tuple[str, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def judge(self, asked: Asked, answer: httpx.Response) -> None:
        """No 5xx but 503, which says when to come again; refusals in a sentence; nothing of what is inside."""
        status, text = answer.status_code, answer.text
        found = [f"{status}"] if status >= 500 and status != 503 else []
        if status == 503 and "retry-after" not in answer.headers:
            found.append("503 without Retry-After")
        if status >= 500 and INNARDS.search(text):
            found.append("tells what is inside")
        if status >= 400 and not asked.page:
            kind = answer.headers.get("content-type")
            if kind != "application/problem+json" or not answer.json()["detail"]:
                found.append(f"a refusal as {kind}")
        with self.lock:
            self.statuses[status] += 1
            self.wrong += [f"{one}: {asked.method} {asked.url[:200]}: {text[:300]}" for one in found]
            if status in (200, 201):
                self.note(asked, answer)

    def note(self, asked: Asked, answer: httpx.Response) -> None:
        parts = [unquote(part) for part in asked.url.partition("?")[0].split("/")]
        if asked.method != "POST" or parts[1:3] != ["v1", "applications"] or len(parts) != 5:
            return
        app = parts[3]
        if parts[4] == "objectives":
            self.objectives.add((app, answer.json()["version"]))
        if parts[4] == "reports":
            body = answer.request.read()
            told = json.loads(body)
            own = told["operator"]
            for one in told.get("decisions", ()):
                self.acknowledged.add(("decision", app, own, one["time"]))
            for one in told.get("samples", ()):
                self.acknowledged.add(("sample", app, one.get("operator") or own, one["start"]))


def list_api_requests(document: dict[str, Any], number: int, count: int) -> Iterator[Asked]:
    """About so many that fit the document and that do not, of every operation; half with the names of what is there."""
    schema = schemathesis.openapi.from_dict(document)
    operations = [result.ok() for result in schema.get_all_operations()]
    examples = max(1, count // (4 * len(operations)))
    made: list[Asked] = []
    for operation, mode in product(operations, schemathesis.GenerationMode):

        @seed(number)
        @settings(
            max_examples=examples, deadline=None, database=None, phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(case=operation.as_strategy(mode))
        def collect(case: schemathesis.Case) -> None:
            for there in ({}, THERE):
                named = {key: there.get(key, value) for key, value in (case.path_parameters or {}).items()}
                case.path_parameters = named
                if "wait" in (case.query or {}):
                    case.query["wait"] = 0.01
                made.append(prepare(case))

        collect()
    yield from made


def prepare(case: schemathesis.Case) -> Asked:
    sent = case.as_transport_kwargs(base_url="http://localhost")
    headers = {key.lower(): value for key, value in sent.pop("headers").items()}
    headers.pop("authorization", None)
    method, url = sent.pop("method"), sent.pop("url").removeprefix("http://localhost")
    sent.pop("cookies", None)
    return Asked(method, url, headers, {"content" if key == "data" else key: value for key, value in sent.items()})


def list_page_requests(number: int, count: int) -> Iterator[Asked]:
    """Pages with parameters that fit and that do not, and their forms."""
    rng = random.Random(number)
    for _ in range(count):
        fields = [(rng.choice(FIELDS), rng.choice(VALUES)) for _ in range(rng.randrange(6))]
        if rng.random() < 0.5:
            fields.append(("app", "shop"))
        query = urlencode(fields, errors="replace") + ("&operator=%ff%ed%a0%80" if rng.random() < 0.05 else "")
        if rng.random() < 0.3:
            act = rng.choice((*(f"/act/{name}" for name in ACTS), "/login", "/logout/"))
            yield Asked("POST", act, {"content-type": "application/x-www-form-urlencoded"}, {"content": query}, True)
            continue
        path = rng.choice(PAGES)
        if rng.random() < 0.2:
            path = f"{path.rstrip('/')}/{quote(rng.choice(VALUES), safe='', errors='replace')}"
        yield Asked("GET", f"{quote(path)}?{query}", page=True)


def list_heavy_requests(number: int, count: int) -> Iterator[Asked]:
    """Bodies as large as they may be, that become much more when they are read, or take long; and right ones."""
    most = 4 * 2**20 - 1000
    slots = [{"kind": "HELD", "reason": "r" * 1500, "time": 1.6e9 + 1e6 * number + 60.0 * i} for i in range(1990)]
    reports = json.dumps({"instance": "heavy", "operator": "parse", "decisions": slots}).encode()
    objective = json.dumps({"weights": WEIGHTS, "bounds": BOUNDS, "why": "w"}).encode()
    wrong = [
        b'{"detail":{"x":[' + b"[]," * (most // 3) + b"[]]}}",
        b'{"detail":{"x":[' + b"{}," * (most // 3) + b"{}]}}",
        b"{" + b",".join(b'"k%d":1' % i for i in range(most // 12)) + b"}",
        b'{"detail":{' + b",".join(b'"k%d":1' % i for i in range(most // 12)) + b',"k0":1}}',
        b'{"decisions":[' + b"1," * (most // 2) + b"1]}",
        b'{"decisions":[' + b",".join([b'{"alternatives":{%s}}' % many_keys(1990)] * 100) + b"]}",
        b'{"bounds":{%s}}' % many_keys(9_999),
        b'{"detail":{%s}}' % b",".join(b'"k%d":{%s}' % (i, many_keys(9_000)) for i in range(30)),
        b'{"detail":{"x":["\xf0\x9f\x98\x80",' + b'"ab",' * 290_000 + b'"' + b"a" * 2_500_000 + b'"]}}',
        b'{"detail":{"x":"' + b"\\u0001" * (most // 6) + b'"}}',
        b"[" * DEEP,
        *NEVER,
    ]
    rng = random.Random(number)
    paths = ("reports", "reports", "acknowledgements", "objectives", "objectives/1/push", "tunings", "rollback")
    for i in range(count):
        right = {0: ("reports", reports), 1: ("objectives", objective)}
        path, content = right.get(i % 6) or (rng.choice(paths), rng.choice(wrong))
        yield Asked("POST", f"/v1/applications/shop/{path}", {"content-type": "application/json"}, {"content": content})


def many_keys(count: int) -> bytes:
    return b",".join(b'"%d":"x"' % i for i in range(count))


def send_all(
    campaign: Campaign, url: str, secret: str, cookie: str, csrf: str, requests: Iterable[Asked], threads: int = THREADS
) -> None:  # fmt: skip
    """By several threads; what is broken off is wrong, too."""
    bearer = {"authorization": f"Bearer {secret}"}
    person = {"cookie": f"tuner={cookie}", "x-csrf-token": csrf, "origin": url}
    with httpx.Client(base_url=url, timeout=TIMEOUT) as client, ThreadPoolExecutor(threads) as pool:

        def send(asked: Asked) -> None:
            who = bearer if not asked.page or asked.url.startswith("/metrics") else person
            try:
                answer = client.request(asked.method, asked.url, headers={**asked.headers, **who}, **asked.given)
            except (httpx.TransportError, OSError) as error:
                with campaign.lock:
                    campaign.wrong.append(f"{error!r}: {asked.method} {asked.url[:200]}")
                return
            campaign.judge(asked, answer)

        list(pool.map(send, requests))


@contextmanager
def reporting(campaign: Campaign, url: str, secret: str, begin: float) -> Iterator[None]:
    """An agent that sends right reports all the time, and each until it is acknowledged."""
    over = threading.Event()

    def run() -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT) as client:
            slot = 0
            while not over.is_set():
                time_ = begin + 60.0 * slot
                body = {"instance": "steady", "operator": "steady", "decisions": [
                    {"time": time_, "kind": "HELD", "reason": "r"}], "samples": [
                    {"start": time_, "end": time_ + 60.0, "evidence": "progress", "arrived": 5.0}]}  # fmt: skip
                asked = Asked("POST", "/v1/applications/shop/reports", given={"json": body})
                try:
                    answer = client.post(asked.url, json=body)
                except httpx.TransportError:
                    continue
                campaign.judge(asked, answer)
                if answer.status_code == 200:
                    slot += 1
                elif answer.status_code != 503:
                    campaign.wrong.append(f"{answer.status_code} to a right report: {answer.text[:300]}")
                    return
                over.wait(0.01)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(TIMEOUT)


def read_memory(pid: int) -> tuple[float, float]:
    """Resident MiB of a process: now, and the most that it ever had."""
    told = Path(f"/proc/{pid}/status").read_text()
    now, most = (re.search(rf"^{name}:\s+(\d+) kB", told, re.MULTILINE) for name in ("VmRSS", "VmHWM"))
    assert now
    assert most
    return int(now[1]) / 1024.0, int(most[1]) / 1024.0
