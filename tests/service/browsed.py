"""Serve a database on loopback to a person who has logged in, and parse the pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser

import httpx

from tests.service.http_server import running
from tests.service.made_decisions import NOW
from tuner.service.access.envelope import wrap
from tuner.service.access.page_session import make_csrf
from tuner.service.access.token import make_token
from tuner.service.app import make_app, release_agents
from tuner.service.exchange.services import Settings
from tuner.store.connection import Store

VOID = {"meta", "link", "input", "br", "line", "path", "rect"}
PERSON = "<b>Ann</b>"


@dataclass(frozen=True, slots=True)
class Site:
    """A service that runs, and a person who has logged in to it."""

    url: str
    store: Store
    token: str
    client: httpx.Client

    @property
    def csrf(self) -> str:
        return make_csrf(self.client.cookies["tuner"])

    def see(self, path: str, status: int = 200) -> Seen:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return Seen(answer.text)

    def send(self, path: str, **fields: str) -> httpx.Response:
        return self.client.post(path, data={"csrf": self.csrf, **fields}, headers={"Origin": self.url})


@contextmanager
def browsing(store: Store, scopes: tuple[str, ...] = ("read", "tune", "push")) -> Iterator[Site]:
    app = make_app(store, Settings(clock=lambda: NOW))
    app.add_middleware(wrap)
    with store.begin() as session:
        secret = make_token(session, PERSON, scopes, "a test", NOW)[1]
    with running(app, on_stop=lambda: release_agents(app)) as url, httpx.Client(base_url=url, timeout=60.0) as client:
        answer = client.post("/login", data={"token": secret}, headers={"Origin": url})
        assert answer.status_code == 303, answer.text
        yield Site(url, store, secret, client)


class Seen(HTMLParser):
    """What a browser finds on a page: elements closed in order, words, links, and no script of the page's own."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.open)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def links(self, part: str = "") -> list[str]:
        return [href for attrs in self.all("a") if (href := attrs.get("href")) and part in href]

    def acts(self) -> set[str]:
        return {attrs.get("action") or "" for attrs in self.all("form") if attrs.get("method") == "post"}
