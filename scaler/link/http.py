"""HTTP requests to the manager over one connection, bounded in size and time; failures become one sentence.

Nothing is sent by way of proxies, redirects are not followed (the token is for this manager alone), and the token shows
up in no repr, log or message.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scaler.link.credential import Credential
from scaler.model.errors import BadInput, Retry
from scaler.model.wire import write_line

MAX_BODY_BYTES = 4 << 20  # bytes of an answer
TIMEOUT_S = 10.0
LONGEST_SENTENCE = 500
LONGEST_RETRY_S = 600.0  # a manager may ask for patience, not for silence


@dataclass(frozen=True, slots=True)
class ManagerAddress:
    secure: bool
    host: str
    port: int
    prefix: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.prefix}"


@dataclass(frozen=True, slots=True)
class ManagerResponse:
    status: int
    etag: str
    retry_after: float | None  # seconds
    body: bytes
    token_expires: float | None = None  # seconds since 1970, where the manager says that it is soon

    def document(self) -> Any:
        """The body parsed as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


def read_address(url: str) -> ManagerAddress:
    """Parse the URL of a manager."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise BadInput('the address of the manager cannot be read; write it like "https://manager:8443"') from None
    if parts.scheme not in ("http", "https") or not parts.hostname or not url.isascii() or not url.isprintable():
        raise BadInput(f'the address of the manager is {url!r}; write it like "https://manager:8443"')
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise BadInput("the address of the manager holds a user, a query or a fragment; the token is given on its own")
    secure = parts.scheme == "https"
    return ManagerAddress(secure, parts.hostname, port or (443 if secure else 80), parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Condition:
    """Headers for one connection alone: behind a later one may be a manager whose database was restored."""

    number: int  # of the connection
    headers: Mapping[str, str]


class ManagerConnection:
    """One connection to the manager, kept open between requests; for one thread, but `abort` may come from another."""

    def __init__(
        self, address: ManagerAddress, token: str | Path | None, ca_file: Path | None = None, peer: str = ""
    ) -> None:
        """`token`: itself, or the file that holds it; `peer`: as messages name it, "" is the manager."""
        self.address, self.peer = address, peer or f"the manager at {address}"
        self.credential = Credential(token)
        self.context = make_context(ca_file) if address.secure else None
        self.connection: http.client.HTTPConnection | None = None
        self.number = 0  # of the connection: 1 is the first
        self.aborted = False

    def request(
        self,
        method: str,
        path: str,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
        condition: Condition | None = None,
    ) -> ManagerResponse:
        """The answer, whatever its status; Retry where there was none."""
        body = None if document is None else write_line(document)
        while True:
            reused = self.connection is not None
            try:
                is_same = reused and condition is not None and condition.number == self.number
                sent = {**(headers or {}), **(condition.headers if condition is not None and is_same else {})}
                return self.exchange(method, path, body, sent, timeout)
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.close()  # the manager may have closed what was kept open; what is sent twice counts once
                if not reused or self.aborted or isinstance(error, TimeoutError):
                    raise self.explain(error) from None

    def exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> ManagerResponse:
        connection = self.connect(timeout)
        sent = {"Accept": "application/json, application/problem+json", "Accept-Encoding": "gzip", **headers}
        if body is not None:
            sent["Content-Type"] = "application/json"
        token = self.credential.read()
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        deadline = time.monotonic() + timeout
        connection.request(method, self.address.prefix + path, body=body, headers=sent)
        response = connection.getresponse()
        content = unpack(response, read_body(response, deadline))
        if response.will_close:
            self.close()
        etag, expires = response.headers.get("ETag", ""), read_expiry(response)
        return ManagerResponse(response.status, etag, read_seconds(response), content, expires)

    def connect(self, timeout: float) -> http.client.HTTPConnection:
        if self.aborted:
            raise ConnectionAbortedError("the link is stopping")
        if self.connection is None:
            host, port = self.address.host, self.address.port
            self.connection = (
                http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
                if self.context is None
                else http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=self.context)
            )
            self.number += 1
            self.connection.connect()
            if self.aborted:  # meanwhile, when there was no socket to shut down
                raise ConnectionAbortedError("the link is stopping")
        if self.connection.sock is not None:
            self.connection.sock.settimeout(timeout)
        return self.connection

    def explain(self, error: Exception) -> Retry:
        """Describe a failure in a sentence that holds nothing of what was sent."""
        if isinstance(error, TimeoutError):
            what = "did not answer in time"
        elif isinstance(error, ssl.SSLError):
            what = f"cannot be trusted or spoken to by TLS ({error.reason or type(error).__name__})"
        elif isinstance(error, OSError):
            what = f"cannot be reached ({error.strerror or type(error).__name__})"
        else:
            what = f"answers something that is not HTTP ({type(error).__name__})"
        return Retry(f"{self.peer} {what}")

    def describe(self, answer: ManagerResponse) -> str:
        """A refusal in the manager's own words."""
        document = answer.document()
        said = document.get("detail") or document.get("title") if isinstance(document, dict) else None
        text = f"HTTP {answer.status}"
        if isinstance(said, str):
            text += ": " + "".join(c if c.isprintable() else " " for c in said[:LONGEST_SENTENCE])
        return self.credential.hide(text)

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def abort(self) -> None:
        """End a request that waits, from another thread; there will be no other."""
        self.aborted = True
        connection = self.connection
        sock = None if connection is None else connection.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def make_context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"{ca_file}: the certificates to trust cannot be read ({error})") from error


def read_body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Read the whole body, unless it is too long or too slow."""
    pieces, size = [], 0
    while piece := response.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise http.client.HTTPException(f"more than {MAX_BODY_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:
        raise ConnectionResetError("cut short")
    response.close()  # read1 does not notice the end, and an open answer bars the next request
    return b"".join(pieces)


def unpack(response: http.client.HTTPResponse, content: bytes) -> bytes:
    """Orders of a thousand operators are long, and pack well; what would unpack to too much is refused."""
    if response.headers.get("Content-Encoding", "").lower() != "gzip":
        return content
    packed = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        whole = packed.decompress(content, MAX_BODY_BYTES)
    except zlib.error as error:
        raise http.client.HTTPException("not gzip as it says") from error
    if not packed.eof:
        raise http.client.HTTPException(f"more than {MAX_BODY_BYTES} bytes, or cut short")
    return whole


def read_seconds(response: http.client.HTTPResponse) -> float | None:
    text = response.headers.get("Retry-After", "")
    return min(float(text), LONGEST_RETRY_S) if text.isascii() and text.isdigit() and len(text) < 10 else None


def read_expiry(response: http.client.HTTPResponse) -> float | None:
    text = response.headers.get("Token-Expires", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 12 else None
