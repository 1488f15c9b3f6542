"""A user's program for the command actuator: python -m tests.live.program FOLDER VERB.

It writes each order down, keeps what was asked for, and misbehaves where a file in the folder says so: `exit` (a code),
`sleep` (seconds), `noise` (bytes on its output).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path


def main(folder: Path, verb: str) -> int:
    order = json.loads(sys.stdin.read())
    with (folder / "orders.jsonl").open("a") as file:
        file.write(json.dumps({**order, "time": time.time()}) + "\n")
    told = {name: (folder / name).read_text() for name in ("exit", "sleep", "noise") if (folder / name).exists()}
    if "noise" in told:
        sys.stdout.write("x" * int(told["noise"]))
    time.sleep(float(told.get("sleep", "0")))
    if "exit" in told:
        print("the cloud\nsays no", file=sys.stderr)
        return int(told["exit"])
    state = folder / f"{order['operator']}.state"
    if verb == "scale":
        state.write_text(json.dumps(order["target"]))
    else:
        print(state.read_text() if state.exists() else "{}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
