"""Hostile requests to every route are refused in one sentence, and nothing is written."""

from __future__ import annotations

import csv
import io
import random
import time
from urllib.parse import quote

import httpx
import pytest

from scaler.model.errors import BadInput
from scaler.model.sample import Sample
from tests.commands import succeed
from tests.service.conftest import BOUNDS, SHOP, WEIGHTS, sentence
from tuner.service.exchange.wire_documents import MAX_DEPTH, read_document, to_bytes
from tuner.service.page.address import TimeRange
from tuner.service.page.application_page import View, gather_application
from tuner.service.page.decision_page import Filters
from tuner.service.page.overview_order import OverviewOrder, gather_overview
from tuner.store.applications import add_application, list_applications
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions
from tuner.store.samples import save_samples

JSON = {"Content-Type": "application/json"}
TAKERS = {  # routes that take a body, and one that is right
    ("POST", "reports"): {"instance": "a", "operator": "parse", "detail": {}},
    ("POST", "acknowledgements"): {"instance": "a", "operator": "parse", "revision": 1},
    ("PUT", ""): {"document": SHOP},
    ("POST", "tunings"): {},
    ("PUT", "retuning"): {"settings": {}},
    ("POST", "objectives"): {"weights": WEIGHTS, "bounds": BOUNDS},
    ("POST", "objectives/1/push"): {"stage": "shadow", "why": "x"},
    ("POST", "rollback"): {"why": "x"},
    ("PUT", "controls/bounds"): {"settings": {}},
}
DEEP = 100_000
NEVER = {  # no route takes these, and why
    b"": "not JSON",
    b"null": "the body is null",
    b"5": "the body is 5",
    b"[]": "the body is a list",
    b'"x"': "the body is 'x'",
    b"{": "not JSON",
    b'{"x": 1}': "",
    b"[" * DEEP: "nested more than",
    b"[" * DEEP + b"]" * DEEP: "nested more than",
    b'{"a":' * DEEP + b"1" + b"}" * DEEP: "nested more than",
    b'{"a":' * 13 + b"1" + b"}" * 13: "nested more than",
    b'{"detail": NaN}': "NaN is no JSON",
    b'{"detail": -Infinity}': "-Infinity is no JSON",
    b'{"detail": 1e999}': "1e999 is too large",
    b'{"detail": ' + b"9" * 5000 + b"}": "more than 64 bit",
    b'{"detail": 0.' + b"9" * 5000 + b"}": "too large",
    b'{"detail": 9223372036854775808}': "more than 64 bit",
    b'{"a": 1, "a": 2}': "'a' stands twice",
    b'{"detail": {"x": "a\\u0000b"}}': "NUL",
    b'{"detail": {"\\ud800": 1}}': "surrogate",
    b'{"detail": "\x00"}': "not JSON",
    b'{"detail": "\xff"}': "not UTF-8",
    b'\xef\xbb\xbf{"detail": 1}': "not JSON",
    b'\xff\xfe{\x00}\x00': "not UTF-8",
}  # fmt: skip


def test_bodies_that_no_route_takes(shop: httpx.Client) -> None:
    for method, place in TAKERS:
        for body, says in NEVER.items():
            answer = shop.request(method, f"/v1/applications/shop/{place}".rstrip("/"), content=body, headers=JSON)
            assert says in sentence(answer, 422), (method, place, body[:50])


def test_only_json_is_taken(shop: httpx.Client) -> None:
    for method, place in TAKERS:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
            where = f"/v1/applications/shop/{place}".rstrip("/")
            answer = shop.request(method, where, content=b"{}", headers={"Content-Type": kind})
            assert "Content-Type" in sentence(answer, 415)


def test_who_may_not_is_not_told_what_is_wrong_with_the_body(url: str) -> None:
    for method, place in TAKERS:
        where = f"{url}/v1/applications/shop/{place}".rstrip("/")
        assert sentence(httpx.request(method, where, content=b"{", headers=JSON), 401)


def mangle(value: object, rng: random.Random) -> object:
    """The same with one thing in it that does not belong there."""
    strange = (None, True, -1, 2**62, 1e308, 5e-324, "", "x" * 3_000, "Infinity", "NaN", [], {}, [[[]]], {"": {"": 1}})
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(sorted(value))
        return {**value, key: mangle(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = rng.randrange(len(value))
        return [*value[:place], mangle(value[place], rng), *value[place + 1 :]]
    return rng.choice(strange)


def test_one_thing_wrong_is_never_a_failure_of_ours(shop: httpx.Client) -> None:
    rng = random.Random(0)
    for (method, place), right in TAKERS.items():
        for _ in range(60):
            body = to_bytes(mangle(right, rng))
            answer = shop.request(method, f"/v1/applications/shop/{place}".rstrip("/"), content=body, headers=JSON)
            assert answer.status_code < 500, (method, place, body, answer.text)
            if answer.status_code >= 400:
                sentence(answer, answer.status_code)


NAMES = {
    "a\x00b": 422, "a\nb": 422, " a": 422, "\x1b[31m": 422, "\u200b": 422, "x" * 201: 422, "\u202e": 422,
    "<script>alert(1)</script>".replace("/", "\\"): 200, "'; DROP TABLE applications; --": 200, "%00": 200,
    "{{7*7}}": 200, "ünï cødé 名前": 200, "x" * 200: 200, "..": 200, "a?b#c&d=e": 200, '"quoted"': 200,
}  # fmt: skip


def test_names_are_refused_or_kept_as_they_are(client: httpx.Client, store: Store) -> None:
    for name, status in NAMES.items():
        place = f"/v1/applications/{quote(name, safe='').replace('.', '%2E')}"
        report = {"instance": name, "operator": name, "decisions": [{"time": 1.0, "kind": "HELD", "reason": name}]}
        assert client.post(f"{place}/reports", json=report).status_code == status, name
        assert client.put(place, json={"document": SHOP}).status_code == status, name
        if status == 200:
            assert client.get(place).json()["application"] == name
            [shown] = client.get(f"{place}/decisions", params={"operator": name}).json()["items"]
            assert (shown["operator"], shown["reason"]) == (name, name)
        else:
            assert "characters" in sentence(client.get(place), 422)
    with store.read() as session:
        known = sorted(name for name, status in NAMES.items() if status == 200)
        assert sorted(version.application for version in list_applications(session)) == known


@pytest.mark.parametrize("value", [1, True, 1.5, "x", {}, [1], [[]]])
def test_operators_that_are_no_list_are_refused(client: httpx.Client, value: object) -> None:
    for document in ({"application": {"operator": value}}, {"operator": value}):
        refused = client.put("/v1/applications/shop", json={"document": document})
        assert "operator" in sentence(refused, 422)


def test_application_with_too_many_paths_is_refused(client: httpx.Client, store: Store) -> None:
    """It was taken, and the overview answered 400 to everybody."""
    names = [f"o{i}" for i in range(60)]
    operators = [{"name": name, "service_rate": 200.0, "scv": 0.5} for name in names]
    dense = {
        "operator": operators,
        "edge": [{"from": a, "to": b} for i, a in enumerate(names) for b in names[i + 1 :]],
    }
    document = {**SHOP, "application": dense}
    refused = client.put("/v1/applications/dense", json={"document": document})
    assert "paths from source to sink, and may have 10000" in sentence(refused, 422)
    with store.begin() as session:  # as an older program let it in
        add_application(session, "dense", document, 1.0)
        add_application(session, "shop", SHOP, 1.0)
        gathered = gather_overview(session, 1e9, OverviewOrder())
        view = gather_application(session, View("dense", "", 1e9, TimeRange(0.0, 1e5), Filters()))
    assert [line.application for line in gathered["lines"]] == ["dense", "shop"]
    assert view["course"] is None
    assert client.get("/metrics").status_code == 200


def test_decisions_dated_ahead_are_refused(shop: httpx.Client) -> None:
    """One of a year ahead stood in explanations and metrics for a year."""
    now = time.time()
    year = {"time": now + 365 * 86_400.0, "kind": "HELD", "reason": "a clock jumped"}
    window = {"start": now, "end": now + 400.0, "evidence": "tasks"}
    for rows, place in (({"decisions": [year]}, "decisions[0].time"), ({"samples": [window]}, "samples[0].end")):
        body = {"instance": "a", "operator": "parse", **rows}
        said = sentence(shop.post("/v1/applications/shop/reports", json=body), 422)
        assert said.startswith(place)
        assert "ahead of the manager's clock, and may be 300 s at most; set the driver's clock by NTP" in said
    near = {"instance": "a", "operator": "parse", "decisions": [{**year, "time": now + 200.0}]}
    assert shop.post("/v1/applications/shop/reports", json=near).status_code == 200


@pytest.mark.parametrize("reason", ["x", "prudence: the rate is that of before", "supply: all 2 workers are taken", ""])
def test_any_reason_of_a_block_is_explained(shop: httpx.Client, reason: str) -> None:
    """A guard that was not known made every explanation of the application fail."""
    blocked = {"time": time.time() - 60.0, "kind": "BLOCKED", "reason": reason, "action": "+1 small"}
    body = {"instance": "a", "operator": "parse", "decisions": [blocked]}
    assert shop.post("/v1/applications/shop/reports", json=body).status_code == 200
    told = shop.get("/v1/applications/shop/explanation")
    assert told.status_code == 200
    assert reason in told.text


@pytest.mark.parametrize("address", ["sqlite"], indirect=True)
def test_samples_command_neither_terminal_nor_spreadsheet(shop: httpx.Client, store: Store, address: str) -> None:
    """A node type's escape code set the terminal's title; a formula went into the CSV as it was."""
    escape, formula = "\x1b]0;owned\x07\x1b[2J", '=HYPERLINK("http://x","y")'
    window = {"start": 60.0, "end": 120.0, "evidence": "tasks", "node_type": escape}
    body = {"instance": "a", "operator": "parse", "samples": [window]}
    assert "node_type must be printable characters" in sentence(
        shop.post("/v1/applications/shop/reports", json=body), 422
    )
    with store.begin() as session:  # as a file of monitoring may have them
        save_samples(session, [Sample("shop", f"{c}1+1", 60.0, 120.0, "tasks", node_type=escape) for c in "+-@"])
        save_samples(session, [Sample("shop", formula, 60.0, 120.0, "tasks", node_type="\n=1", arrived=-0.0)])
    for form in ("--csv", "--json", "--limit=0"):
        said = succeed("samples", "shop", form, "--store", address)
        assert all(line.isprintable() for line in said.split("\n"))
    rows = list(csv.reader(io.StringIO(succeed("samples", "shop", "--csv", "--store", address))))
    assert [row for row in rows if any(cell.startswith(("=", "+", "-", "@")) for cell in row)] == []
    assert {row[1] for row in rows[1:]} == {"'+1+1", "'-1+1", "'@1+1", f"'{formula}"}


def test_queries_that_ask_for_what_cannot_be(shop: httpx.Client) -> None:
    lists = ("decisions", "samples", "events", "objectives", "surrogates", "runs", "scalers", "controls", "explanation")
    strange = ("", "nan", "-1", "1e400", "9" * 30, "%00", "%ff", "'", "a" * 5_000, "1.5")
    for place in (f"/v1/applications/shop/{one}" for one in lists):
        for key in ("limit", "offset", "since", "until", "after", "before", "operator", "kind", "state", "at", "x"):
            for value in strange:
                answer = shop.get(f"{place}?{key}={value}")
                assert answer.status_code < 500, (place, key, value, answer.text)
                if answer.status_code != 200:
                    sentence(answer, answer.status_code)
    for number in ("0", "-1", "x", "1.5", str(2**31), str(2**63), "9" * 400, "%00", "१"):
        for place in ("runs/{}", "runs/{}/trials", "trials/{}", "applications/shop/objectives/{}"):
            assert shop.get(f"/v1/{place.format(number)}").status_code in (404, 422)


def test_a_large_report_is_taken_whole_or_not_at_all(client: httpx.Client, store: Store) -> None:
    rows = [{"time": float(i), "kind": "HELD", "reason": "r" * 500} for i in range(2_000)]
    body = {"instance": "a", "operator": "parse", "decisions": rows}
    assert client.post("/v1/applications/shop/reports", json=body).status_code == 200
    with store.read() as session:
        assert len(list_decisions(session, "shop", limit=None)) == 2_000
        assert list_decisions(session, "shop2") == []
    rows.append({"time": 1.0, "kind": "HELD", "reason": "r"})
    assert client.post("/v1/applications/shop2/reports", json=body).status_code == 422


SWOLLEN = {  # as attacked: bodies of 4 MB that took up to 500 MB when they were read, or when what was wrong was told
    b'{"detail":{"x":[' + b"[]," * 400_000 + b"[]]}}": (413, "send it in smaller parts"),
    b'{"decisions":[' + b"1," * 400_000 + b"1]}": (413, "send it in smaller parts"),
    b"{" + b",".join(b'"k%d":1' % i for i in range(200_000)) + b"}": (422, "an object has 200,000 keys"),
    b'{"decisions":[' + b",".join([b'{"alternatives":{%s}}' % b",".join(b'"%d":"x"' % i for i in range(1990))] * 100)
    + b"]}": (422, "instance is missing (1994 more like it)"),
}  # fmt: skip


def test_bodies_that_would_swell_are_refused_at_once(shop: httpx.Client) -> None:
    for body, (status, says) in SWOLLEN.items():
        assert len(body) < 4 * 2**20
        answer = shop.post("/v1/applications/shop/reports", content=body, headers=JSON)
        assert says in sentence(answer, status), body[:50]


def test_a_full_body_of_reports_is_taken(shop: httpx.Client) -> None:
    """Of as many values as agents ever send within the size that a body may have."""
    seen = {"utilisation": 0.61, "deployment": {"small": 1, "fast": 2}, "completeness": 1.0}
    alternatives = {"no change": 0.21, "+1 small": 0.29, "+1 fast": 0.35, "-1 small": 0.4, "-1 fast": 0.5}
    decisions = [
        {"time": 1.6e9 + 60.0 * i, "kind": "HELD", "reason": "", "code": "c", "rate": 1.0, "response": 0.1,
         "bound": 0.2, "price": 1.0, "objective_version": 1, "seen": seen, "alternatives": alternatives, "proposed": {},
         "objections": [{"source": "pin", "code": "pin", "message": "", "data": {"limit": 1}}]}
        for i in range(2_000)
    ]  # fmt: skip
    samples = [{"start": 1.6e9 + 60.0 * i, "end": 1.6e9 + 60.0 * (i + 1), "evidence": "progress", "arrived": 1.0,
                "tuples_in": 1.0, "busy": 6.1, "replicas": 1.0, "batches": 1.0} for i in range(2_000)]  # fmt: skip
    body = {"instance": "a", "operator": "parse", "decisions": decisions, "samples": samples}
    answer = shop.post("/v1/applications/shop/reports", json=body)
    assert answer.status_code == 200, answer.text


def test_documents_are_read_as_json_has_them() -> None:
    text = b'{"a": [1, -2.5e-3, true, null, "\\u00e9\\ud83d\\ude00"], "b": {"c": -9223372036854775808, "d": 1e-400}}'
    assert read_document(text) == {"a": [1, -0.0025, True, None, "é😀"], "b": {"c": -(2**63), "d": 0.0}}
    assert read_document(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    with pytest.raises(BadInput, match="nested"):
        read_document(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2))
