"""Post an operator's target to a URL as JSON, and read from the answer what is deployed.

    POST URL    Idempotency-Key: 5f2a...    Authorization: Bearer (the first line of the token's file)
    {"verb": "scale", "application": "orders", "operator": "count", "target": {"small": 2}, "key": "5f2a..."}

Any 2xx means that the order was taken (replicas may come later). 408, 425, 429, 5xx and no answer mean that it is sent
again, with the same key, and not before Retry-After says; any other status means that it is refused. The same with the
verb "deployed" is answered by `{"deployed": {"small": 2}}`. Nothing goes by way of proxies, and redirects are refused.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scaler.acting.actuator import Calls, RetryAfter, Room, TargetOrder, read_replicas
from scaler.link.credential import read_token_file
from scaler.link.http import ManagerAddress, ManagerConnection, ManagerResponse
from scaler.model.errors import BadInput, Retry

LOG = logging.getLogger("scaler.agent")
RETRY_STATUSES = (408, 425, 429)


class Webhook:
    """`token_file` is read at each call, so that a token can be changed; `ca_file`: certificates to trust."""

    can_count = True

    def __init__(
        self, app: str, url: str, token_file: str | None = None, timeout: float = 10.0, pause: float = 1.0,
        ca_file: str | None = None,
    ) -> None:  # fmt: skip
        self.address = read_url(url)
        if not timeout > 0:
            raise BadInput(f"timeout is {timeout:g}; it is a number of seconds above 0")
        self.app, self.url, self.timeout = app, url, timeout
        self.token_file = Path(token_file) if token_file else None
        self.ca_file = Path(ca_file) if ca_file else None
        self.connect()  # so that files that are missing are known before the first order
        self.calls = Calls(app, self.send, pause)

    def connect(self) -> ManagerConnection:
        """One connection a call: calls are minutes apart, and each may have another token."""
        return ManagerConnection(self.address, self.read_token() or None, self.ca_file, self.url)

    def prepare(self) -> None:
        pass

    def check_room(self, operator: str, more: Mapping[str, int]) -> Room:
        return self.calls.check_room(operator, more)

    def apply(self, operator: str, target: Mapping[str, int]) -> None:
        self.calls.put(operator, target)

    def close(self) -> None:
        self.calls.close()

    def find_starts(self, operator: str) -> Mapping[str, Sequence[float]] | None:  # noqa: ARG002
        return None

    def deployed(self, operator: str) -> Mapping[str, int] | None:
        try:
            replicas = read_replicas(
                self.post(TargetOrder(self.app, operator, {}, "").document("deployed"), {}).document()
            )
        except (BadInput, Retry) as error:
            LOG.warning("%s", error)
            return None
        if replicas is None:
            LOG.warning("%s tells in no JSON what is deployed for operator %r", self.url, operator)
        return replicas

    def send(self, order: TargetOrder) -> None:
        self.post(order.document(), {"Idempotency-Key": order.key})

    def post(self, document: Mapping[str, Any], headers: Mapping[str, str]) -> ManagerResponse:
        with closing(self.connect()) as connection:
            answer = connection.request("POST", "", document, headers, self.timeout)
        if 200 <= answer.status < 300:
            return answer
        stated = f"{self.url} answered {answer.status}"
        if answer.status in RETRY_STATUSES or answer.status >= 500:
            raise RetryAfter(stated, answer.retry_after or 0.0)
        raise BadInput(f"{stated}; the order is refused")

    def read_token(self) -> str:
        if self.token_file is None:
            return ""
        return read_token_file(self.token_file)


def read_url(url: str) -> ManagerAddress:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput(f'url is {url!r}; write it like "https://scaler.example/scale"')
    if parts.username is not None or parts.password is not None:
        raise BadInput("url holds a user or a password; give a token by its file")
    secure = parts.scheme == "https"
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return ManagerAddress(secure, str(parts.hostname), parts.port or (443 if secure else 80), target)
