"""The folder that `tuner demo` writes to: its own, made anew each time; an earlier demo's goes when the new one ended.

While a demo runs, the earlier one lies beside it under a hidden name, and comes back where the new one is stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scaler.model.errors import BadInput

MARK = ".tuner-demo"


@contextmanager
def demo_folder(folder: Path) -> Iterator[Path]:
    """Make the folder; unless the block ends well it is as it was before."""
    if folder.exists() and not (folder / MARK).is_file():
        raise BadInput(f"{folder} is there, and is no folder of a demo; name another one with --folder")
    aside = folder.with_name(f".{folder.name}.before")
    try:
        set_aside(folder, aside)
        folder.mkdir(parents=True)
        (folder / MARK).touch()
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); name another one with --folder") from error
    try:
        yield folder
    except BaseException:
        restore(folder, aside)
        raise
    discard(aside)


def set_aside(folder: Path, aside: Path) -> None:
    """Rename an earlier demo's folder; where a demo was killed, the one before it is the earlier one."""
    if (aside / MARK).is_file():
        restore(folder, aside)
    discard(aside)
    if folder.exists():
        folder.rename(aside)


def restore(folder: Path, aside: Path) -> None:
    discard(folder)
    if (aside / MARK).is_file():
        aside.rename(folder)


def discard(folder: Path) -> None:
    """Remove the folder, its mark first: what is left of one that was being removed is no demo's."""
    (folder / MARK).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
