"""Tests of the guide and the README: every page shows, every command runs, every setting is documented."""
