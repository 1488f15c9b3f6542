"""Gather how the objective that is being rolled out does: its stage's check as of now, and its newest slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scaler.model.decision import ShadowDecision, parse_shadow
from scaler.model.errors import BadInput
from tuner.rollout.issued_orders import CANDIDATES
from tuner.rollout.retuning_settings import RetuningSettings, read_retuning
from tuner.rollout.stage_checks import StageVerdict, check_stage
from tuner.service.page.address import link_candidate
from tuner.service.page.overview_page import describe
from tuner.store.applications import load_application
from tuner.store.connection import Session
from tuner.store.decisions import list_decisions
from tuner.store.objectives import ObjectiveEvidence, StageEvidence, list_objectives
from tuner.store.records import DecisionRecord, ObjectiveRecord
from tuner.store.runs import find_retuning

NEWEST = 5  # slots of the candidate that are listed


@dataclass(frozen=True, slots=True)
class CandidateSlot:
    """A slot in which the candidate led, or in shadow was computed beside the real decision."""

    real: DecisionRecord
    imagined: ShadowDecision | None


@dataclass(frozen=True, slots=True)
class CandidateView:
    """The candidate, what the stage's own check says of it as of now, and its newest slots."""

    objective: ObjectiveRecord
    stage: StageEvidence
    verdict: StageVerdict
    wanted: int  # slots, after which the stage can pass
    slots: Sequence[CandidateSlot]
    link: str  # to this part by itself

    @property
    def known(self) -> int:
        return self.verdict.figures.slots or 0


def gather_candidate(session: Session, app: str, now: float) -> CandidateView | None:
    """None where no objective is in shadow or a canary, or the application's description cannot be read."""
    described = describe(load_application(session, app).document)
    objective = next((o for o in list_objectives(session, app) if o.state in CANDIDATES), None)
    if objective is None or described.shape is None or described.qos is None:
        return None
    settings = read_stage_settings(session, app)
    stage = ObjectiveEvidence.from_json(objective.evidence).stages.get(objective.state, StageEvidence())
    since = objective.changed or 0.0 if stage.since is None else stage.since
    return CandidateView(
        objective,
        stage,
        check_stage(session, objective, settings, now),
        settings.shadow_slots if objective.state == "shadow" else settings.canary_slots,
        list_slots(session, objective, stage, since, now),
        link_candidate(app),
    )


def read_stage_settings(session: Session, app: str) -> RetuningSettings:
    """As the daemon checks the stage; the defaults where no settings can be read."""
    retuning = find_retuning(session, app)
    try:
        return RetuningSettings() if retuning is None else read_retuning(retuning.settings)
    except BadInput:
        return RetuningSettings()


def list_slots(
    session: Session, objective: ObjectiveRecord, stage: StageEvidence, since: float, now: float
) -> list[CandidateSlot]:
    """The newest slots of the canary's operators under this objective; in shadow those with its own decisions."""
    shadow = objective.state == "shadow"
    operators = list(stage.operators) or None
    version = None if shadow else objective.version
    rows = list_decisions(session, objective.application, operators, None, since, now, NEWEST, version=version)
    slots = [CandidateSlot(row, parse_shadow(row.shadow) if shadow else None) for row in rows]
    return [slot for slot in slots if not shadow or (slot.imagined and slot.imagined.version == objective.version)]
