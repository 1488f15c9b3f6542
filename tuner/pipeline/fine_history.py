"""History of fine samples on disk, a part for each ingest; read by days.

    ROOT/application=NAME/part=ID/day=YYYY-MM-DD/*.parquet

A part counts once the database names it (`HistoryPart` in the application's mark), which is the last thing that an
ingest does: a part that was begun and never named is swept away by the next one. Each row has the ingest that it came
from in `ingest`, because of two versions of a sample the later read one holds.
"""

from __future__ import annotations

import fcntl
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from scaler.model.errors import BadInput, Retry
from tuner.pipeline.read_marks import HistoryPart

DAY_S = 86_400.0
MANY_PARTS = 32
LARGE_PART = 5_000_000  # rows; parts beyond it are not written again to join others


def place_history(root: Path, application: str) -> Path:
    return root / f"application={quote(application, safe='')}"


def name_part(now: float, known: Iterable[HistoryPart] = ()) -> str:
    """A name of its own that sorts after those of the parts before, even if the clock was set back."""
    after = max((int(part.id.partition("-")[0]) for part in known), default=0)
    return f"{max(int(now * 1e6), after + 1):018d}-{secrets.token_hex(4)}"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One ingest of an application at a time on this machine; a killed one holds nothing up."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / ".lock").open("a")
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); name another folder with --history") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Retry(f"another ingest is at work in {folder}; run this again when it has ended") from None
        yield


def sweep(folder: Path, ids: Iterable[str]) -> None:
    """Delete parts that are not named."""
    for id in ids:
        shutil.rmtree(folder / f"part={id}", ignore_errors=True)


def place_parts(folder: Path, parts: Sequence[HistoryPart]) -> list[Path]:
    """The folders of parts; refused where one is missing."""
    paths = [folder / f"part={part.id}" for part in parts]
    missing = [path for path in paths if not path.is_dir()]
    if missing:
        raise BadInput(
            f"the history lacks {missing[0]}, which the database counts on; put it back, or start over with --forget"
        )
    return paths
