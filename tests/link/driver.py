"""A driver-like process, to be killed: `python -m tests.link.driver FOLDER MANAGER FIRST`.

It reports decisions numbered from FIRST on, and writes down in FOLDER/written each one that was on disk, or sent, when
it looked.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from scaler.link import Link, LinkSettings
from tests.link.manager import TOKEN


def drive(folder: Path, manager: str, first: int) -> None:
    link = Link(
        manager,
        "shop",
        ["parse"],
        TOKEN,
        folder / "link",
        f"driver-{os.getpid()}",
        settings=LinkSettings(seed=first, wait_s=1.0),
    )
    link.start()
    number = first
    with (folder / "written").open("a", buffering=1) as written:
        while True:
            link.report("parse", [{"time": float(number), "kind": "NO_CHANGE", "reason": "x" * 50}])
            number += 1
            if number % 20 == 0:
                while link.sender.stored < number - first:
                    time.sleep(0.001)
                written.write(f"{number - 1}\n")


if __name__ == "__main__":
    drive(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
