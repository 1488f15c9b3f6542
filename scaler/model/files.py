"""A path and a text in; the file with all of it, or as it was before, out."""

from __future__ import annotations

import os
from pathlib import Path

from scaler.model.errors import BadInput


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be, before the work for it is done."""
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file")
    if not path.parent.is_dir():
        raise BadInput(f"{path} cannot be written, for there is no folder {path.parent}; make it first")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"{path} cannot be written, for {path.parent} is not yours to write to; name another folder")


def write_whole(path: Path, text: str) -> None:
    """Write beside the file, then put it in its place."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror}); name another file") from error
    finally:
        part.unlink(missing_ok=True)
