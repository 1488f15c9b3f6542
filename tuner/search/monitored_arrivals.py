"""Choose the stretch of monitored arrivals that a run is searched on, and read it back from the run's settings.

Monitoring has gaps, and what a simulator replays may have none. The newest stretch of a day or more without a long
gap is taken; where there is none of a day, the longest. What was chosen is in the settings, so that a resumed run reads
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.units import format_count, format_duration, format_moment
from sim.application import Application
from sim.trace import Trace
from tuner.pipeline.flows import LONGEST_GAP, Arrivals, build_arrivals, choose_stretch, fill, find_sources
from tuner.store.connection import Session
from tuner.store.samples import count_samples, load_samples


@dataclass(frozen=True, slots=True)
class ArrivalsAsked:
    """Which monitored arrivals to search on; None: as far as they reach."""

    since: float | None = None
    until: float | None = None
    gap: int = LONGEST_GAP  # windows in a row without monitoring that are interpolated


def choose_arrivals(session: Session, app: str, application: Application, asked: ArrivalsAsked) -> dict[str, Any]:
    """The stretch to search on, as the run's settings keep it; refused where nothing was monitored."""
    if not count_samples(session, app):
        raise BadInput(
            f"nothing says at which rates tuples come to {app!r}; name a file with --trace, put a [trace] into its "
            f"description, or read what was monitored with: tuner ingest PATH --app {app}"
        )
    whole = load_arrivals(session, app, application, asked.since, asked.until)
    chosen = choose_stretch(whole, asked.gap)
    return {
        "since": chosen.start,
        "until": chosen.start + chosen.rates.size * chosen.step_s,
        "gap": asked.gap,
        "slots": chosen.rates.size,
        "left_out": whole.rates.size - chosen.rates.size,
    }


def load_arrivals(
    session: Session, app: str, application: Application, since: float | None, until: float | None
) -> Arrivals:
    """The arrivals at the application's sources in windows that start in [since, until)."""
    found = load_samples(session, app, since=since, until=until)
    if not found:
        raise BadInput(f"there are no samples of {app!r} in this stretch of time; widen --since and --until")
    return build_arrivals(found, find_sources(dict(application.sources), found, app))


def read_arrivals(session: Session, app: str, application: Application, samples: Mapping[str, Any]) -> Trace:
    """The arrivals that a run's settings name; older programs named their end alone."""
    arrivals = load_arrivals(session, app, application, samples.get("since"), samples["until"])
    return fill(arrivals, int(samples.get("gap", LONGEST_GAP)))


def describe_arrivals(samples: Mapping[str, Any]) -> str:
    """The stretch in words: "monitored, 1,440 slots from ... to ..."; what was left out of it."""
    if "slots" not in samples:
        return "monitored arrivals"
    since, until = (format_moment(samples[key], "minutes") for key in ("since", "until"))
    told = f"monitored arrivals, {format_count(samples['slots'], 'slot', 'slots')} from {since} to {until}"
    left_out = samples.get("left_out")
    if not left_out:
        return told
    span = format_duration(left_out * (samples["until"] - samples["since"]) / samples["slots"])
    gap = format_count(samples["gap"], "slot", "slots")
    return f"{told}; {span} before or after it lie beyond a gap of more than {gap} without monitoring"
