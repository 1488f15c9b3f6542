"""What a page's commands find where they begin: a stream's event log, or a database with an application's past."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import closing
from importlib.resources import files
from pathlib import Path

from tests.service import showcase
from tests.service.made_decisions import CLICKS, DAY, NOW, decide
from tuner.rollout.objective_model import model_by_hand
from tuner.store.applications import add_application
from tuner.store.connection import open_store
from tuner.store.decisions import save_decisions
from tuner.store.runs import save_retuning

SLOTS = 120


def write_events(folder: Path) -> None:
    """The folder `events` with the recorded log of a real stream, that of `tuner demo`."""
    (folder / "events").mkdir()
    shutil.copy(str(files("tuner.demo").joinpath("recorded", "clicks.zstd")), folder / "events")


def furnish_shop(folder: Path) -> None:
    """The user's database with `shop`: decisions until 2026-03-12 14:20, an objective in full use, a proposed one."""
    place = folder / "data" / "stream-scaler"
    place.mkdir(parents=True)
    with closing(open_store(place / "tuner.db")) as store:
        with store.begin() as session:
            add_application(session, "shop", CLICKS.describe("shop"), NOW - 30 * DAY)
            showcase.MODELS["shop"] = model_by_hand(session, "shop").to_json()
            save_retuning(session, "shop", {}, NOW + DAY)
            trial = showcase.search(session, "shop", CLICKS, NOW - DAY)
            showcase.pursue(session, "shop", CLICKS, "full", -29 * DAY, "by hand: equal shares")
            showcase.pursue(session, "shop", CLICKS, "proposed", -DAY, "trial 12 of run 1", trial, showcase.STANDING)
            showcase.hear(session, "shop", CLICKS, silent=())
        with store.begin() as session:
            save_decisions(session, decide("shop", CLICKS, SLOTS, [(-math.inf, 1)]))


SCENES: dict[str, Callable[[Path], None]] = {  # by page; the others begin in an empty folder
    "README": write_events,
    "your-stream": write_events,
    "roll-out": furnish_shop,
    "driver": furnish_shop,
    "troubleshooting": furnish_shop,
}
