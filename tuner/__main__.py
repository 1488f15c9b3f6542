"""Run the command line: the command `tuner`, and `python -m tuner`."""

from __future__ import annotations

import sys

BAD_INPUT = 2


def main() -> None:
    """Run the command line, or name the extra that brings it: a driver needs this package without."""
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
    run(prog_name="tuner")


if __name__ == "__main__":
    main()
