"""Explain why an operator has no decision at a moment, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from scaler.model.units import find_moment, format_duration, format_moment, join_words, quote
from tuner.store.connection import Session
from tuner.store.decisions import find_decision_time
from tuner.store.objectives import ObjectiveEvidence, list_objectives
from tuner.store.orders import list_scalers
from tuner.store.records import DecisionRecord, Scaler

NEAR_SLOTS = 3  # a decision further back than this says nothing of the moment


@dataclass(frozen=True, slots=True)
class Gap:
    """That there is no decision is an answer too."""

    kind: str  # a word for programs
    message: str
    advice: str
    since: float | None = None
    until: float | None = None


def find_gap(
    session: Session, app: str, operator: str, last: DecisionRecord | None, at: float, now: float, slot_s: float
) -> Gap | None:
    """None where the last decision is near enough to the moment to speak for it."""
    if last is not None and at - last.time <= NEAR_SLOTS * slot_s:
        return None
    if at > now + slot_s:
        newest = "" if last is None else f"; the newest decision of {quote(operator)} is of {format_moment(last.time)}"
        return Gap("to come", f"This time is still to come{newest}.", "Ask about a time that is past.", since=now)
    scalers = [one for one in list_scalers(session, app) if one.operator == operator]
    following = find_decision_time(session, app, operator, at)
    if last is not None:
        return explain_silence(operator, last, following, scalers, at, now, slot_s)
    if following is not None:
        return explain_early(session, app, operator, following, scalers, at)
    if not scalers:
        return Gap(
            "never reported",
            f"No agent of operator {quote(operator)} ever reported.",
            "Start its agent in the Spark driver with this service's address and a token of scope report "
            "(tuner token make NAME --scope report --app APP), then look at the driver's log.",
        )
    return explain_idleness(session, app, operator, scalers, at)


def explain_silence(
    operator: str,
    last: DecisionRecord,
    following: float | None,
    scalers: list[Scaler],
    at: float,
    now: float,
    slot_s: float,
) -> Gap:
    since = last.time + slot_s
    ended, end = (min(at, now), "on") if following is None else (following, f"to {format_moment(following)}")
    message = f"The agent of {quote(operator)} decided nothing from {format_moment(since)} {end}"
    message += f" ({format_duration(max(0.0, ended - since))})."
    advice = "See whether its Spark driver runs and reaches this service, and what the driver's log says."
    last_seen = max((one.last_seen for one in scalers), default=None)
    if following is not None:
        advice = "See the driver's log of that time: it was down, or decided nothing; what it decides while this "
        advice += "service is away is reported later, up to a limit."
    elif last_seen is not None and last_seen > since + NEAR_SLOTS * slot_s:
        message += f" It reports all the same: last at {format_moment(last_seen)}."
        advice = "See the driver's log: it reports, but has nothing to decide on; its stream may be stopped."
    elif last_seen is not None:
        message += f" It last reported at {format_moment(last_seen)}."
    return Gap("silent", message, advice, since, following)


def explain_early(session: Session, app: str, operator: str, following: float, scalers: list[Scaler], at: float) -> Gap:
    first = min((one.first_seen for one in scalers), default=None)
    message = f"This is before the first stored slot of {quote(operator)}, at {format_moment(following)}."
    if first is not None and first <= at:
        message += f" Its agent has reported since {format_moment(first)}; older slots may have been pruned."
    if not was_pursued(session, app, at):
        message += " No objective had been pushed by then."
    return Gap(
        "before the first slot", message, f"Ask about a later time: --at {format_time(following)}", None, following
    )


def explain_idleness(session: Session, app: str, operator: str, scalers: list[Scaler], at: float) -> Gap:
    first = min(one.first_seen for one in scalers)
    if at < first:
        message = f"The agent of {quote(operator)} first reported at {format_moment(first)}, after this time."
        return Gap("before the first slot", message, "Ask about a later time.", None, first)
    instances = join_words([quote(one.instance) for one in scalers[:3]])
    message = (
        f"The agent of {quote(operator)} ({instances}) has reported since {format_moment(first)}, without a decision."
    )
    if not was_pursued(session, app, at):
        message += " Orders had no objective then, so that there was nothing to pursue."
        return Gap("no objective", message, f"Find one and push it: tuner tune {quote(app)}, or let the daemon.", first)
    return Gap("no decisions", message, "See the driver's log: the stream may be stopped, or without metrics.", first)


def was_pursued(session: Session, app: str, at: float) -> bool:
    """Whether any objective had been pushed by then."""
    for objective in list_objectives(session, app):
        stages = ObjectiveEvidence.from_json(objective.evidence).stages
        begun = [one.since for name, one in stages.items() if name != "proposed" and one.since is not None]
        if objective.state != "proposed" and min(begun, default=objective.created) <= at:
            return True
    return False


def format_time(seconds: float) -> str:
    """As `--at` takes it."""
    moment = find_moment(seconds)
    return f"{seconds:g}" if moment is None else f"{moment:%Y-%m-%dT%H:%M:%S}"
