"""Targets flow in; a JSON document is posted to a URL for each, and what the answer says is deployed flows out.

    POST URL    Idempotency-Key: 5f2a...    Authorization: Bearer (the first line of the token's file)
    {"verb": "scale", "application": "orders", "operator": "count", "target": {"small": 2}, "key": "5f2a..."}

Any 2xx means that the order was taken (replicas may come later). 408, 425, 429, 5xx and no answer mean that it is sent
again, with the same key, and not before Retry-After says; any other status means that it is refused. The same with the
verb "deployed" is answered by `{"deployed": {"small": 2}}`. Nothing goes by way of proxies, and redirects are refused.
"""

from __future__ import annotations

import http.client
import json
import logging
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request, build_opener

from scaler.acting.calls import Calls, Later, Order, read_replicas
from scaler.model.errors import BadInput, Retry

LOG = logging.getLogger("scaler.agent")
LARGEST = 64 << 10  # bytes of an answer
AGAIN = (408, 425, 429)
LONGEST_RETRY_S = 600.0
LONGEST_SENTENCE = 300


class Stay(HTTPRedirectHandler):
    """The token is for this address alone. The name and arguments are urllib's."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Webhook:
    """`token_file` is read at each call, so that a token can be changed; `authority`: certificates to trust."""

    can_count = True

    def __init__(
        self, app: str, url: str, token_file: str | None = None, timeout: float = 10.0, pause: float = 1.0,
        authority: str | None = None,
    ) -> None:  # fmt: skip
        check_url(url)
        if not timeout > 0:
            raise BadInput(f"timeout is {timeout:g}; it is a number of seconds above 0")
        self.app, self.url, self.timeout = app, url, timeout
        self.token_file = Path(token_file) if token_file else None
        self.read_token()  # so that a file that is missing is known before the first order
        self.opener = make_opener(authority)
        self.calls = Calls(app, self.send, pause)

    def prepare(self) -> None:
        pass

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        try:
            answer = self.post(Order(self.app, operator, {}, "").document("deployed"), {})
            return read_replicas(json.loads(answer))
        except (BadInput, Retry) as error:
            LOG.warning("%s", error)
        except (ValueError, RecursionError):
            LOG.warning("%s tells in no JSON what is deployed for operator %r", self.url, operator)
        return None

    def room(self, operator: str, node_type: str) -> str | None:  # noqa: ARG002
        """Orders that do not get through are not followed by larger ones."""
        return self.calls.waiting(operator)

    def ask(self, operator: str, target: Mapping[str, int]) -> None:
        self.calls.put(operator, target)

    def send(self, order: Order) -> None:
        self.post(order.document(), {"Idempotency-Key": order.key})

    def post(self, document: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
        sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        token = self.read_token()
        if token:
            sent["Authorization"] = f"Bearer {token}"
        request = Request(self.url, json.dumps(document).encode(), sent, method="POST")
        try:
            with self.opener.open(request, timeout=self.timeout) as answer:
                return read_whole(answer, time.monotonic() + self.timeout)
        except HTTPError as error:
            raise self.explain_status(error) from None
        except (URLError, OSError, http.client.HTTPException) as error:
            said = str(getattr(error, "reason", "") or error or type(error).__name__)
            raise Retry(f"{self.url} did not answer: {said[:LONGEST_SENTENCE]}") from None

    def explain_status(self, error: HTTPError) -> BadInput | Retry:
        with error:
            after = error.headers.get("Retry-After", "")
            said = f"{self.url} answered {error.code} {error.reason}"
        if error.code in AGAIN or error.code >= 500:
            seconds = min(LONGEST_RETRY_S, float(after)) if after.isascii() and after.isdigit() else 0.0
            return Later(said, seconds)
        return BadInput(f"{said}; the order is refused")

    def read_token(self) -> str:
        if self.token_file is None:
            return ""
        try:
            token = self.token_file.read_text().strip().partition("\n")[0].strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"the token's file {self.token_file} cannot be read: {error}") from None
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise BadInput(f"the first line of {self.token_file} is no token: printable ASCII without spaces")
        return token

    def close(self) -> None:
        self.calls.close()


def check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput(f'url is {url!r}; write it like "https://scaler.example/scale"')
    if parts.username is not None or parts.password is not None:
        raise BadInput("url holds a user or a password; give a token by its file")


def make_opener(authority: str | None) -> OpenerDirector:
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"{authority}: the certificates to trust cannot be read ({error})") from None
    return build_opener(ProxyHandler({}), Stay, HTTPSHandler(context=context))


def read_whole(answer: Any, deadline: float) -> bytes:
    """All of it, unless it is too long or too slow."""
    content = b""
    while piece := answer.read1(1 << 14):
        content += piece
        if len(content) > LARGEST:
            raise http.client.HTTPException(f"more than {LARGEST} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError("too slow")
    return content
