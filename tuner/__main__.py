"""Run the command line as `python -m tuner`."""

from tuner.cli import main

if __name__ == "__main__":
    main(prog_name="tuner")
