"""Gather an application in a line, with its QoS, price, roll-out, surrogate and agents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scaler.model.errors import BadInput
from sim.application import Application, check_paths
from tuner.history.qos_history import QosFigures, load_slots, measure_qos
from tuner.rollout.issued_orders import find_slot
from tuner.scenario.description import tables_of
from tuner.scenario.document import shape_of
from tuner.scenario.layout import SLOT_S, QoS
from tuner.scenario.scenario import make_qos
from tuner.service.access.callers import Caller
from tuner.service.access.token import describe_expiry, expires_soon, list_expiring
from tuner.service.page.address import SPANS, USUAL
from tuner.store.applications import list_surrogates
from tuner.store.audit_log import list_events
from tuner.store.connection import Session
from tuner.store.decisions import find_mean_price
from tuner.store.objectives import list_objectives
from tuner.store.orders import list_scalers
from tuner.store.records import ApplicationVersion, EventRecord, ObjectiveRecord, SurrogateRecord
from tuner.store.retention import DAY_S, Retention

MAX_EXPIRING = 20  # tokens that expire soon
NOW_S = SPANS[USUAL]  # a whole day, for load comes in days
BEFORE_S = 7 * NOW_S
ALIVE_S, ALIVE_SLOTS = 180.0, 3  # since a scaler was last heard of; the longer of the two
RECENT_S = 2 * NOW_S  # for which one should know that something was rolled back
BADLY = ("fail", "warn")


@dataclass(frozen=True, slots=True)
class Described:
    """What an application's document says, as far as it can be read."""

    shape: Application | None
    qos: QoS | None
    slot_s: float

    @property
    def alive_s(self) -> float:
        """Within which a scaler must have been heard of."""
        return max(ALIVE_S, ALIVE_SLOTS * self.slot_s)


@dataclass(frozen=True, slots=True)
class RolloutStage:
    """Where the roll-out stands."""

    word: str  # a state of an objective, or "none"
    version: int | None
    full: int | None  # the version in full use


@dataclass(frozen=True, slots=True)
class ApplicationLine:
    application: str
    described: Described
    operators: tuple[str, ...]
    alive: int  # operators with an agent that lives
    heard: bool  # whether any agent ever reported
    tuned: bool  # whether an objective from a search was ever in full use
    observed: QosFigures | None
    before: float | None  # price per hour, before the first objective that was tuned
    stage: RolloutStage
    surrogate: SurrogateRecord | None
    event: EventRecord | None

    @property
    def silent(self) -> bool:
        return self.heard and self.alive < len(self.operators)

    @property
    def moving(self) -> bool:
        return self.stage.word in ("shadow", "canary")

    @property
    def doubted(self) -> bool:
        return self.surrogate is not None and self.surrogate.health in BADLY

    @property
    def late(self) -> bool:
        seen, qos = self.observed, self.described.qos
        return bool(seen and qos and seen.violations is not None and seen.violations > qos.eta_v)


def list_expiry(session: Session, caller: Caller, now: float) -> list[str]:
    """A sentence for each token in use that expires soon, of those whose applications the caller may reach."""
    mine = caller.applications
    soon = (one for one in list_expiring(session, now) if expires_soon(one.expires, now))
    seen = (one for one in soon if mine is None or (one.applications is not None and mine >= set(one.applications)))
    return [describe_expiry(one.name, one.expires) for one in seen][:MAX_EXPIRING]


def describe_retention(retention: Retention | None) -> str:
    """How long what is kept."""
    if retention is None:
        return "Nothing is deleted by itself; tuner db prune deletes old rows."
    slots, hours, samples = (
        f"{s / DAY_S:,.4g} days" for s in (retention.slots_s, retention.hours_s, retention.samples_s)
    )
    return (
        f"Decisions are stored slot by slot for {slots}, then changes and one slot an hour up to {hours}; samples for "
        f"{samples}, longer while a surrogate or retuning needs them; objectives, runs and events for good."
    )


def gather_line(
    session: Session, version: ApplicationVersion, now: float, observed: QosFigures | None = None
) -> ApplicationLine:
    """`observed` is of the last day, where it is known already."""
    app, described = version.application, describe(version.document)
    objectives = list_objectives(session, app)
    operators = () if described.shape is None else tuple(o.name for o in described.shape.operators)
    if observed is None and described.shape is not None and described.qos is not None:
        slots = load_slots(session, app, operators, now - NOW_S, now, described.slot_s)
        observed = measure_qos(slots, described.shape, described.qos)
    agents = list_scalers(session, app)
    living = {agent.operator for agent in agents if agent.last_seen >= now - described.alive_s}
    return ApplicationLine(
        application=app,
        described=described,
        operators=operators,
        alive=len(living & set(operators)),
        heard=bool(agents),
        tuned=any(o.trial_id is not None and o.state in ("full", "retired") for o in objectives),
        observed=observed,
        before=find_price_before(session, app, objectives),
        stage=find_stage(objectives, now),
        surrogate=next(iter(list_surrogates(session, app, limit=1)), None),
        event=next(iter(list_events(session, app, limit=1)), None),
    )


def describe(document: Mapping[str, Any]) -> Described:
    """Nothing of what is not written as it should be: the page shows the rest."""
    shape, qos, slot_s = None, None, SLOT_S
    try:
        found, slot_s = shape_of(document), find_slot(document)
        check_paths(found)  # an older program took any number of them
        shape, qos = found, make_qos(tables_of(document)["qos"])
    except (BadInput, LookupError, TypeError, ValueError, AttributeError):
        pass
    return Described(shape, qos, slot_s if slot_s > 0.0 else SLOT_S)


def find_price_before(session: Session, app: str, objectives: list[ObjectiveRecord]) -> float | None:
    """The mean price per hour in the week before the first objective from a search that came to full use."""
    tuned = [o.created for o in objectives if o.trial_id is not None and o.state in ("full", "retired")]
    return find_mean_price(session, app, min(tuned) - BEFORE_S, min(tuned)) if tuned else None


def find_stage(objectives: list[ObjectiveRecord], now: float) -> RolloutStage:
    """The candidate where there is one, else what was just rolled back, else what is in full use."""
    full = next((o for o in objectives if o.state == "full"), None)
    leading = next((o for o in objectives if o.state in ("canary", "shadow")), None)
    back = next((o for o in objectives if o.state == "reverted" and now - (o.changed or 0.0) < RECENT_S), None)
    if leading is None and back is not None and (full is None or (back.version or 0) > (full.version or 0)):
        leading = back
    shown = leading or full or next(iter(objectives), None)
    if shown is None:
        return RolloutStage("none", None, None)
    return RolloutStage(shown.state, shown.version, None if full is None else full.version)
