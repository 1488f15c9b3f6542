"""List the guide's topics in reading order, and read their pages and pictures."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

TOPICS = (
    "concepts", "installation", "your-stream", "simulation", "tuning", "driver", "node-types", "service", "roll-out",
    "troubleshooting", "settings", "sizing", "database", "security", "research", "changes", "contributing",
)  # fmt: skip
PICTURES = {  # media type by file name
    "architecture.svg": "image/svg+xml",
    "page-light.png": "image/png",
    "page-dark.png": "image/png",
}


@cache
def read_page(topic: str) -> str:
    return files("tuner.guide").joinpath(f"{topic}.md").read_text(encoding="utf-8")


@cache
def read_picture(name: str) -> bytes:
    return files("tuner.guide").joinpath(name).read_bytes()


def find_title(topic: str) -> str:
    """The page's heading, which is its first line."""
    return read_page(topic).partition("\n")[0].removeprefix("# ")
