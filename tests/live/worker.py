"""Orders flow in as signals; what a worker process was told, in its order, flows out to a file in a folder.

It stands for Spark's: python -m tests.live.worker FOLDER NAME. It has as many children as `NAME.children` says, which
end at SIGPWR if the folder holds `obeys`; with `broken` it does not stay up, with `stubborn` SIGTERM does not end it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path


def main(folder: Path, name: str) -> None:
    def write(what: str) -> None:
        with (folder / f"{name}.told").open("a") as file:
            file.write(f"{what}\n")

    def drain(*_: object) -> None:
        write("PWR")
        if (folder / "obeys").exists():
            for child in children:
                child.kill()
                child.wait()

    def end(*_: object) -> None:
        write("TERM")
        for child in children:
            child.kill()
        if not (folder / "stubborn").exists():
            sys.exit(0)

    if (folder / "broken").exists():
        sys.exit(1)
    count = folder / f"{name}.children"
    children = [subprocess.Popen(["sleep", "300"]) for _ in range(int(count.read_text()) if count.exists() else 0)]
    signal.signal(signal.SIGPWR, drain)
    signal.signal(signal.SIGTERM, end)
    write("up")
    while True:
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
