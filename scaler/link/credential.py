"""The token of a connection: a text, or a file that is read again when it changes, for tokens to rotate."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from scaler.model.errors import BadInput

LOG = logging.getLogger("scaler.link")
MAX_TOKEN_BYTES = 65_536


def check_token(token: str, place: str = "what was given") -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput(f"{place} is no token: it must be printable ASCII without spaces (it is not shown here)")
    return token


def read_token_file(path: Path) -> str:
    """The first line of the file."""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        raise BadInput(f"the token cannot be read from {path} ({error}); name the file that holds it") from None
    if not text:
        raise BadInput(f"the token file {path} is empty; write into it what `tuner token make` printed")
    return check_token(text.partition("\n")[0].strip(), f"the first line of {path}")


class Credential:
    """Whose `read` is the token to send now; None where there is none. For one thread."""

    def __init__(self, given: str | Path | None) -> None:
        self.path = given if isinstance(given, Path) else None
        self._stamp = None if self.path is None else stamp(self.path)
        self._token: str | None = None
        if given is not None:
            self._token = check_token(given) if isinstance(given, str) else read_token_file(given)

    def read(self) -> str | None:
        """While the file holds none, as when a shell has just emptied it to write the next, the one before stays."""
        if self.path is None or (found := stamp(self.path)) == self._stamp:
            return self._token
        try:
            self._token = read_token_file(self.path)
            LOG.info("the token of %s is another now", self.path)
        except BadInput as error:
            LOG.warning("%s; the token before is sent", error)
        self._stamp = found  # of before it was read: what was written meanwhile has another
        return self._token

    def hide(self, text: str) -> str:
        return text if self._token is None else text.replace(self._token, "***")


def stamp(path: Path) -> tuple[int, int, int] | None:
    """Another one whenever the file was written or replaced; None where there is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
