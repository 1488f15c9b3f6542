"""Start a manager of the demo's own, with its tokens, and have it push an objective."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput
from tuner.demo.cluster import ROOT, wait_for
from tuner.demo.process_guard import guarded
from tuner.history.manager_client import Manager
from tuner.service.access.scopes import SCOPES
from tuner.service.access.token import make_token
from tuner.store.connection import open_store

SCALERS, PEOPLE = "scalers", "people"  # tokens of the demo's own manager


def pursue(manager: Manager, document: Mapping[str, Any], weights: Mapping[str, float], bounds: Mapping[str, float],
           why: str) -> None:  # fmt: skip
    """Describe the application, and push an objective made by hand to its agents."""
    manager.ask("PUT", "", {"document": document})
    made = manager.ask("POST", "/objectives", {"weights": weights, "bounds": bounds, "why": why})
    manager.ask("POST", f"/objectives/{made['version']}/push", {"stage": "full", "why": why})


@contextmanager
def serve(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Run a `tuner serve` on a new database until the block ends; its URL. Its tokens are in files of mode 0600."""
    store = folder / "manager.db"
    make_tokens(store, folder)
    command = [sys.executable, "-m", "tuner", "serve", "--port", "0", "--no-daemon"]
    log = folder / "manager.log"
    with guarded([*command, "--store", str(store)], environment, log, ROOT) as process:
        yield wait_for(log, r'"url": ?"(http[^"]+)"', process=process)


def make_tokens(address: Path, folder: Path) -> None:
    """Make one token for the agents, of scope report alone, and one for the demo."""

    with closing(open_store(address)) as store:
        for name, scopes in ((SCALERS, ("report",)), (PEOPLE, tuple(SCOPES))):
            with store.begin() as session:
                _, secret = make_token(session, name, scopes, "tuner live demo", time.time())
            file = os.open(name_token_file(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as sink:
                sink.write(secret)


def name_token_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.token"


def read_token_file(path: Path) -> str:
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"the token cannot be read from {path} ({error}); name the file that holds it") from None
    if not token:
        raise BadInput(f"the token file {path} is empty; write into it what `tuner token make` printed")
    return token
