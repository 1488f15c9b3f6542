"""Request lists, orders and changes of one application from its manager over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from scaler.link.http import ManagerConnection, read_address
from scaler.model.errors import BadInput, Retry

MOST = 1000  # rows of a page


class Manager:
    """One application's, over HTTP; for one thread."""

    def __init__(self, url: str, token: str, app: str, ca_file: Path | None = None) -> None:
        self.connection = ManagerConnection(read_address(url), token, ca_file)
        self.app = app

    def ask(self, method: str, path: str, document: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        answer = self.connection.request(
            method, f"/v1/applications/{quote(self.app, safe='')}{path}", document, headers
        )
        if answer.status >= 400:
            kind = BadInput if answer.status < 500 and answer.status != 429 else Retry
            raise kind(f"the manager at {self.connection.address} says {self.connection.describe(answer)}")
        return answer.document()

    def list_all(self, what: str, **asked: Any) -> list[dict[str, Any]]:
        """The newest rows of a list, a page of them."""
        query = urlencode({**asked, "limit": min(MOST, asked.get("limit", MOST))})
        rows: list[dict[str, Any]] = self.ask("GET", f"/{what}?{query}")["items"]
        return rows

    def find_revision(self) -> int | None:
        """Of the newest orders; None where there are none, or where the token does not let us see them."""
        path = f"/v1/applications/{quote(self.app, safe='')}/orders?wait=0"
        answer = self.connection.request("GET", path)
        document = answer.document()
        return int(document["revision"]) if answer.status == 200 and isinstance(document, dict) else None

    def close(self) -> None:
        self.connection.close()


def read_token_file(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the token cannot be read from {path} ({error}); name the file that holds it") from None
    if not token:
        raise BadInput(f"the token file {path} is empty; write into it what `tuner token make` printed")
    return token
