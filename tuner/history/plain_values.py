"""Read plain values out of documents that scalers of any version sent, and print their names safely."""

from __future__ import annotations

LONGEST = 300  # letters of a text that somebody else wrote


def can_be_stored(text: str) -> bool:
    """Whether a database could have this name at all."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def clean(text: str, longest: int = LONGEST) -> str:
    """Without what would move the cursor, ring the bell or begin a line of its own."""
    shown = "".join(c if c.isprintable() else " " if c in "\t\r\n" else ascii(c)[1:-1] for c in text[: longest + 1])
    return shown if len(text) <= longest else f"{shown[:longest]}..."


def quote(text: str) -> str:
    """A name within a sentence: as it is where it is plain, in quotes where it is not."""
    return text if text.replace("-", "").replace("_", "").isalnum() and len(text) < 60 else f"'{clean(text, 60)}'"


def join_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
