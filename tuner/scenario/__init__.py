"""Descriptions of applications and runs: TOML, stored document, validation."""
