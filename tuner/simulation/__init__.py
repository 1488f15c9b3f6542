"""Replays of many policies and seeds, and the floors under them."""
