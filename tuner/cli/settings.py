"""Settings of one process, made at the edge: a flag, then the environment, then the default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.store.address import DatabaseAddress, default_address, parse_address


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """Where this user's data is: the default database and, of a database on a server, the fine samples."""

    data: Path

    def find_database(self, text: str | None) -> DatabaseAddress:
        """The database that --store or TUNER_STORE names, or the user's own."""
        return default_address(self.data) if text is None else parse_address(text, self.data)


def read_settings(environ: Mapping[str, str]) -> CommandSettings:
    home = Path(environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return CommandSettings(home / "stream-scaler")
