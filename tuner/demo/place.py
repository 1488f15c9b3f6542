"""The folder that `tuner demo` writes to: its own, made anew each time, and gone where the demo did not end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scaler.model.errors import BadInput

MARK = ".tuner-demo"


@contextmanager
def demo_folder(folder: Path) -> Iterator[Path]:
    """Make the folder, in place of an earlier demo's; remove it unless the block ends well."""
    if folder.exists() and not (folder / MARK).is_file():
        raise BadInput(f"{folder} is there, and is no folder of a demo; name another one with --folder")
    try:
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir(parents=True)
        (folder / MARK).touch()
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); name another one with --folder") from error
    try:
        yield folder
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
