"""Run the command line: the command `tuner`, and `python -m tuner`."""

from __future__ import annotations

import gc
import sys

BAD_INPUT = 2
YOUNG = 50_000  # new objects between two collections: what libraries make as they load is there to stay


def main() -> None:
    """Run the command line, or name the extra that brings it: a driver needs this package without."""
    gc.set_threshold(YOUNG)
    try:
        from tuner.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print(
            "Error: the command line needs the package click, which is not installed; "
            "install it with: pip install 'stream-scaler[tuner]'",
            file=sys.stderr,
        )
        raise SystemExit(BAD_INPUT) from None
    try:
        run(prog_name="tuner")
    finally:
        gc.freeze()  # else the interpreter's end looks through all of them once more, half a second after a search


if __name__ == "__main__":
    main()
