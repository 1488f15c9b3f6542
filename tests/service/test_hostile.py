"""Hostile requests to every route are refused in one sentence, and nothing is written."""

from __future__ import annotations

import random
from urllib.parse import quote

import httpx
import pytest

from scaler.model.errors import BadInput
from tests.service.conftest import BOUNDS, SHOP, WEIGHTS, sentence
from tuner.service.exchange.wire_documents import MAX_DEPTH, read_document, to_bytes
from tuner.store.applications import list_applications
from tuner.store.connection import Store
from tuner.store.decisions import list_decisions

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


def test_documents_are_read_as_json_has_them() -> None:
    text = b'{"a": [1, -2.5e-3, true, null, "\\u00e9\\ud83d\\ude00"], "b": {"c": -9223372036854775808, "d": 1e-400}}'
    assert read_document(text) == {"a": [1, -0.0025, True, None, "é😀"], "b": {"c": -(2**63), "d": 0.0}}
    assert read_document(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH) is not None
    with pytest.raises(BadInput, match="nested"):
        read_document(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2))
