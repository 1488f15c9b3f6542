"""Guards on when a change may happen: cooldown, stabilisation, flap budget and blocked hours."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

from scaler.guards.guard import MAX_CHANGES, WAYS, Guard, GuardCase, GuardOptions, direction, object_to
from scaler.model.decision import Objection
from scaler.model.nodes import Reconfiguration

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MIN = 24 * 60


@dataclass(frozen=True, slots=True)
class Waits:
    """Seconds to wait before a change, longer before a scale-in than before a scale-out."""

    out_s: float
    in_s: float

    def before(self, change: Reconfiguration) -> tuple[float, str]:
        """The wait, and the setting that states it: of a change in both directions the longer."""
        waits = [(self.out_s, "out_s")] if change.added else []
        return max([*waits, (self.in_s, "in_s")] if change.removed else waits)


def read_waits(table: GuardOptions, in_s: float) -> Waits:
    return Waits(out_s=table.number("out_s", 0.0), in_s=table.number("in_s", in_s))


def read_cooldown(table: GuardOptions) -> Guard:
    """Cooldown: minimum time between two changes."""
    return partial(cool_down, read_waits(table, in_s=600.0))


def cool_down(waits: Waits, case: GuardCase) -> Objection | None:
    wait, setting = waits.before(case.proposed)
    if not case.history.changes or case.seen.time - case.history.changes[-1] >= wait:
        return None
    since = case.seen.time - case.history.changes[-1]
    message = f"the last change was {since:.0f} s ago, and {setting} is {wait:g}"
    return object_to("cooldown", message, setting=setting, value=wait, since_s=since)


def read_stabilisation(table: GuardOptions) -> Guard:
    """Stabilisation: a change waits until the policy has wanted it for some time."""
    return partial(stabilise, read_waits(table, in_s=300.0))


def stabilise(waits: Waits, case: GuardCase) -> Objection | None:
    wait, setting = waits.before(case.proposed)
    way = direction(case.proposed)
    wished = WAYS[way] == case.history.wish
    lasted = case.seen.time - case.history.wished_since if wished else 0.0
    if lasted >= wait:
        return None
    verb = "migrate" if way == "over" else f"scale {way}"
    message = f"the policy has wanted to {verb} for {lasted:.0f} s, and {setting} is {wait:g}"
    return object_to("stabilisation", message, setting=setting, value=wait, lasted_s=lasted)


def read_flap_budget(table: GuardOptions) -> Guard:
    """Flap budget: at most so many changes in any stretch of so many hours."""
    changes, hours = table.count("changes", low=0, high=MAX_CHANGES), table.number("hours", 24.0, low=1e-3)
    return partial(limit_changes, changes, hours)


def limit_changes(changes: int, hours: float, case: GuardCase) -> Objection | None:
    spent = sum(case.seen.time - when < hours * 3600.0 for when in case.history.changes)
    if spent < changes:
        return None
    message = f"{spent} changes in the last {hours:g} h, and changes is {changes}"
    return object_to("flap_budget", message, changes=changes, hours=hours, spent=spent)


@dataclass(frozen=True, slots=True)
class BlockedHours:
    """A span of the day without changes.

    One that passes midnight belongs to the weekday on which it begins. Where clocks are put forward, an hour of the
    span does not happen; where they are put back, it happens twice and is blocked both times.
    """

    from_min: int  # minutes after midnight
    to_min: int  # not blocked any more; earlier than `from_min`: on the next day
    days: frozenset[int]  # Monday is 0
    zone: ZoneInfo


def read_blocked_hours(table: GuardOptions) -> Guard:
    """Blocked hours: no change within a span of the day, on the days of the week that are stated."""
    from_min, to_min = read_clock(table, "from"), read_clock(table, "to")
    if from_min in (to_min, DAY_MIN):
        raise table.wrong("from", write_clock(from_min), "another time than 'to', 23:59 at the latest")
    return partial(block_hours, BlockedHours(from_min, to_min, read_days(table), read_zone(table)))


def block_hours(hours: BlockedHours, case: GuardCase) -> Objection | None:
    local = datetime.fromtimestamp(case.seen.time, hours.zone)
    if not covers(hours, local):
        return None
    now = f"{DAYS[local.weekday()]} {local:%H:%M} in {hours.zone.key}"
    span = f"{write_clock(hours.from_min)} to {write_clock(hours.to_min)}"
    days = ", ".join(DAYS[i] for i in sorted(hours.days))
    return object_to("blocked_hours", f"it is {now}, and {span} is blocked on {days}", now=now, span=span, days=days)


def covers(blocked: BlockedHours, local: datetime) -> bool:
    """Whether a change is blocked at this local time."""
    minute, today = local.hour * 60 + local.minute, local.weekday()
    if blocked.from_min < blocked.to_min:
        return today in blocked.days and blocked.from_min <= minute < blocked.to_min
    late, early = minute >= blocked.from_min, minute < blocked.to_min
    return (late and today in blocked.days) or (early and (today - 1) % 7 in blocked.days)


def read_clock(table: GuardOptions, name: str) -> int:
    """A time of day, "00:00" to "24:00", in minutes after midnight."""
    value = table.read(name)
    hours, colon, minutes = str(value).partition(":")
    fits = colon and len(hours) == len(minutes) == 2 and (hours + minutes).isascii() and (hours + minutes).isdigit()
    if not fits or int(minutes) > 59 or int(hours) * 60 + int(minutes) > DAY_MIN:
        raise table.wrong(name, value, 'a time of day like "08:30"')
    return int(hours) * 60 + int(minutes)


def write_clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def read_days(table: GuardOptions) -> frozenset[int]:
    value: Any = table.read("days", list(DAYS))
    if not isinstance(value, list | tuple) or not value or any(day not in DAYS for day in value):
        raise table.wrong("days", value, f"a list of {', '.join(DAYS)}")
    return frozenset(DAYS.index(day) for day in value)


def read_zone(table: GuardOptions) -> ZoneInfo:
    value = table.read("zone", "UTC")
    try:
        return ZoneInfo(str(value))
    except (ValueError, OSError, LookupError) as error:  # ZoneInfoNotFoundError is a LookupError
        raise table.wrong("zone", value, 'a time zone of this machine like "Europe/Vienna" or "UTC"') from error
