"""A decision's kind and reason in; one of a few words that its reason can be counted under out."""

from __future__ import annotations

WITHIN = ("the limits", "patience")  # of the scaler itself, beside the guards
OTHER = "other"
USUAL = {"SCALED": "policy", "NO_CHANGE": "policy", "BLOCKED": OTHER, "HELD": OTHER, "ACTUATION_FAILED": "actuation"}
HELD_FOR = (  # the first that occurs
    ("guard of the orders", "orders"),
    ("on its way", "actuation"),
    ("metrics", "metrics"),
    ("not known", "metrics"),
    ("no replica", "metrics"),
    ("backlog", "backlog"),
    ("objective", "objective"),
    ("orders", "objective"),
)
EVENTS = (
    "registered", "asked", "proposed", "pushed", "rolled back", "control set", "control lifted", "tuning started",
    "tuning ended", "not tuned", "drift", "paused", "resumed", "scaler silent",
)  # fmt: skip


def classify(kind: str, reason: str) -> str:
    """Whatever a scaler writes, there are no more classes than stand in this file, and guards."""
    if kind == "BLOCKED":
        return find_guard(reason)
    if kind == "HELD":
        said = reason.lower()
        return next((word for words, word in HELD_FOR if words in said), OTHER)
    if kind in ("SCALED", "NO_CHANGE") and "without an objective" in reason.lower():
        return "fallback"
    return USUAL.get(kind, OTHER)


def find_guard(reason: str) -> str:
    """The first guard that objected: its sentence begins with its name and a colon."""
    from scaler.guards import GUARDS

    places = {guard: reason.find(f"{guard}: ") for guard in (*GUARDS, *WITHIN)}
    found = [(place, guard) for guard, place in places.items() if place >= 0]
    return min(found)[1].removeprefix("the ") if found else OTHER


def name_event(what: str) -> str:
    return what if what in EVENTS else OTHER
