"""Write a checkpoint as one file, whole or the one before: arrays, and the ordered replicas by node type."""

from __future__ import annotations

import io
import json
import logging
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from scaler.model.files import write_durably

LOG = logging.getLogger("scaler.agent")
LONGEST_NAME = 200
TARGET = "target"


def name_file(folder: Path, operator: str) -> Path:
    return folder / f"{quote(operator, safe='')[:LONGEST_NAME]}.npz"


def write_checkpoint(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """A crash at any moment leaves this one or the one before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    named: dict[str, Any] = {f"a.{name}": value for name, value in arrays.items()}  # no argument of savez's own
    content = io.BytesIO()
    np.savez(content, **named)
    write_durably(path, content.getvalue())


def read_checkpoint(path: Path) -> dict[str, NDArray[Any]] | None:
    """None where there is none, or where it is damaged."""
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:  # opened here, for it leaks else
            return {name.removeprefix("a."): file[name] for name in file.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        LOG.warning("checkpoint %s cannot be read (%s); the scaler starts anew", path, error)
        return None


def put_target(arrays: Mapping[str, NDArray[Any]], target: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    return {**arrays, TARGET: np.array(json.dumps(dict(target)))}


def read_target(arrays: Mapping[str, NDArray[Any]]) -> dict[str, int]:
    """Replicas by node type; none where the checkpoint does not say."""
    try:
        return {str(name): int(count) for name, count in json.loads(str(arrays[TARGET])).items()}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
