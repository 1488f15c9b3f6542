"""Runs in, one self-contained HTML page out: no request leaves it, no script runs in it."""
