"""Write reports of many agents; each is answered when it is committed, many of them in one transaction.

A commit costs the same for one report as for a hundred, so one thread writes all that queued up during the last
transaction. Where the database refuses a batch because of one report, the batch is halved until that one stands alone,
so that nobody pays for another's report.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fastapi import HTTPException

from scaler.model.errors import BadInput, Retry
from scaler.model.sample import Sample
from tuner.service.access.gate import Quotas
from tuner.store.audit_log import add_event
from tuner.store.connection import Session, Store
from tuner.store.corrections import MAX_CORRECTIONS, Outcome, correct_decision
from tuner.store.decisions import save_decisions
from tuner.store.faults import DatabaseFault, IntegrityError
from tuner.store.orders import find_agents, save_scalers
from tuner.store.records import DecisionRecord, EventRecord, Scaler
from tuner.store.samples import save_samples

log = logging.getLogger(__name__)
Answer = asyncio.Future[None]
Difference = tuple[DecisionRecord, DecisionRecord, Outcome]  # what was sent, what stood, and which of them stands
Agent = tuple[str, str, str]  # application, operator, instance
Faults = dict[Agent, Exception]
Writer = tuple[str, str, str, Outcome]  # application, operator, token, and what became of its reports
RECORDED_S = 3600.0  # between two events of the same writer
MAX_WRITERS, MAX_AGENTS = 10_000, 50_000  # remembered
FULL = "the service has more reports waiting than it can write; send this one again in a moment"
UNFIT = "the report lacks a value that the database must have, or holds one that it has no place for"
REFUSED_S = 10.0
CLOSED = "the service is shutting down; send this again in a moment"


@dataclass(frozen=True, slots=True)
class Report:
    """One agent's report; an acknowledgement leaves the stored detail of the agent alone."""

    scaler: Scaler
    samples: Sequence[Sample] = ()
    decisions: Sequence[DecisionRecord] = ()
    acknowledges: bool = False
    who: str = ""  # the token's name


@dataclass(slots=True)
class Intake:
    """Queue of reports to write, with the answers that wait for them."""

    store: Store
    max_batch: int = 500  # reports in one transaction
    max_rows: int = 4_000  # samples and decisions, after which no other report joins the transaction
    max_queue: int = 5_000  # reports that wait for theirs; beyond, agents must send again later
    waiting: deque[tuple[Report, Answer | None]] = field(default_factory=deque)
    arrival: threading.Condition = field(default_factory=threading.Condition)
    closed: bool = False
    recorded: dict[Writer, float] = field(default_factory=dict)  # whose differences are in an event, until when
    writer: threading.Thread | None = None
    quotas: Quotas | None = None
    agents: dict[Agent, None] = field(default_factory=dict)  # that have a row; those that reported last are last
    refused_at: float = -math.inf  # when the database last refused a batch; -inf after one that it took


def is_refused(intake: Intake) -> bool:
    """Whether the database refused the last reports; forgotten after a while, for unready services get none."""
    return time.monotonic() - intake.refused_at < REFUSED_S


def start_intake(intake: Intake) -> None:
    intake.writer = threading.Thread(target=write_all, args=(intake,), name="intake", daemon=True)
    intake.writer.start()


def close_intake(intake: Intake) -> None:
    """Write the queue, then stop."""
    with intake.arrival:
        intake.closed = True
        intake.arrival.notify()
    if intake.writer is not None:
        intake.writer.join()


async def submit(intake: Intake, report: Report) -> None:
    """Return when the report is committed; raise the fault that prevented it."""
    answer: Answer = asyncio.get_running_loop().create_future()
    with intake.arrival:
        if intake.closed or len(intake.waiting) >= intake.max_queue:
            raise Retry(CLOSED if intake.closed else FULL)
        intake.waiting.append((report, answer))
        intake.arrival.notify()
    await answer


def submit_unanswered(intake: Intake, report: Report) -> None:
    """Queue a report without an answer; it is dropped while the queue is half full."""
    with intake.arrival:
        if not intake.closed and len(intake.waiting) < intake.max_queue // 2:
            intake.waiting.append((report, None))
            intake.arrival.notify()


def write_all(intake: Intake) -> None:
    """Write all queued reports in one transaction, again and again; the writer thread's function."""
    while True:
        with intake.arrival:
            while not intake.waiting and not intake.closed:
                intake.arrival.wait()
            if not intake.waiting:
                return
            batch = take_batch(intake)
        faults = write_batch(intake, [report for report, _ in batch])
        refused = any(isinstance(fault, Retry | DatabaseFault) for fault in faults)
        intake.refused_at = time.monotonic() if refused else -math.inf
        answers = [(answer, fault) for (_, answer), fault in zip(batch, faults, strict=True) if answer is not None]
        if not answers:
            continue
        try:
            answers[0][0].get_loop().call_soon_threadsafe(resolve_answers, answers)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            log.warning("%d reports were written, and nobody waited for an answer", len(answers))


def take_batch(intake: Intake) -> list[tuple[Report, Answer | None]]:
    """The reports of the next transaction: at least one, and no more rows than memory should hold at a time."""
    batch: list[tuple[Report, Answer | None]] = []
    rows = 0
    while intake.waiting and len(batch) < intake.max_batch and rows < intake.max_rows:
        batch.append(intake.waiting.popleft())
        rows += len(batch[-1][0].samples) + len(batch[-1][0].decisions)
    return batch


def resolve_answers(answers: Iterable[tuple[Answer, Exception | None]]) -> None:
    for answer, fault in answers:
        if not answer.done():  # else its client went away
            answer.set_result(None) if fault is None else answer.set_exception(fault)


def write_batch(intake: Intake, reports: Sequence[Report]) -> list[Exception | None]:
    """The fault of each report: None where it is committed."""
    try:
        refused = refuse_newcomers(intake, reports)
        if refused:
            return write_admitted(intake, reports, refused)
        differing = intake.store.write(lambda session: save_reports(session, reports))
        if differing:
            record_differences(intake, reports, differing)
        return [None] * len(reports)
    except (Retry, DatabaseFault) as error:  # the database, not a report
        log.warning("%d reports were not written, their senders keep them: %s", len(reports), error)
        return [error] * len(reports)
    except Exception as error:
        if len(reports) == 1:
            if not isinstance(error, BadInput):
                log.exception("a report of %s could not be written", reports[0].scaler.application)
            return [BadInput(UNFIT) if isinstance(error, IntegrityError) else error]
        half = len(reports) // 2
        return write_batch(intake, reports[:half]) + write_batch(intake, reports[half:])


def write_admitted(intake: Intake, reports: Sequence[Report], refused: Faults) -> list[Exception | None]:
    """Write the others; the fault of each."""
    admitted = [report for report in reports if agent_of(report) not in refused]
    faults = iter(write_batch(intake, admitted) if admitted else ())
    return [refused.get(agent_of(report)) or next(faults) for report in reports]


def refuse_newcomers(intake: Intake, reports: Sequence[Report]) -> Faults:
    """Charge the quota of each application for agents without a row, which would be new ones; who is refused, and why.

    Names of agents are what reports say, so that anybody with a token could fill the table.
    """
    unknown = {agent for agent in map(agent_of, reports) if agent not in intake.agents}
    if intake.quotas is None or not unknown:
        return {}
    with intake.store.read() as session:
        unknown -= find_agents(session, unknown)
    refused: Faults = {}
    for agent in sorted(unknown):
        try:
            intake.quotas.charge_agent(agent[0])
        except HTTPException as error:
            refused[agent] = error
    for report in reports:
        if (agent := agent_of(report)) not in refused:
            intake.agents.pop(agent, None)
            intake.agents[agent] = None
    while len(intake.agents) > MAX_AGENTS:
        del intake.agents[next(iter(intake.agents))]
    return refused


def agent_of(report: Report) -> Agent:
    return report.scaler.application, report.scaler.operator, report.scaler.instance


def record_differences(intake: Intake, reports: Sequence[Report], differing: Sequence[Difference]) -> None:
    """Record as an event, once an hour of each writer, that decisions were corrected, or corrections refused."""
    senders = match_senders(reports)
    events: dict[Writer, EventRecord] = {}
    for sent, stood, outcome in differing:
        report = senders[id(sent)]
        writer = (sent.application, sent.operator, report.who, outcome)  # an instance is what a report says it is
        now = report.scaler.last_seen
        if writer in events or now < intake.recorded.get(writer, 0.0):
            continue
        message = describe_difference(sent, stood, outcome)
        about = {"operator": sent.operator, "instance": sent.instance, "stands": stood.instance, "time": sent.time}
        events[writer] = EventRecord(sent.application, now, report.who, f"decision {outcome}", message, about)
    if not events:
        return
    try:
        intake.store.write(lambda session: [add_event(session, event) for event in events.values()])
    except Exception:  # the decisions are committed, and their senders are not to send them again
        log.exception("differing reports of decisions could not be recorded")
        return
    if len(intake.recorded) + len(events) > MAX_WRITERS:
        intake.recorded.clear()
    intake.recorded.update({writer: event.time + RECORDED_S for writer, event in events.items()})


def describe_difference(sent: DecisionRecord, stood: DecisionRecord, outcome: Outcome) -> str:
    if outcome == "corrected":
        return f"{sent.instance} corrected a decision of {sent.operator}: {stood.kind} became {sent.kind}"
    if sent.instance == stood.instance:
        return f"{sent.instance} corrected a decision of {sent.operator} more than {MAX_CORRECTIONS} times"
    return (
        f"{sent.instance} sent another decision of {sent.operator} than {stood.instance or 'another'} had "
        "written for the same slot; the first one stands"
    )


def match_senders(reports: Iterable[Report]) -> dict[int, Report]:
    """The report of each decision, by the decision's identity."""
    return {id(decision): report for report in reports for decision in report.decisions}


def save_reports(session: Session, reports: Sequence[Report]) -> list[Difference]:
    """Save reports in the order of their keys, so that two services at one database do not deadlock.

    Returned are decisions that differed from what stood for their slot, but for old ones that were sent again.
    """
    samples = [sample for report in reports for sample in report.samples]
    senders = match_senders(reports)
    decisions = [decision for report in reports for decision in report.decisions]
    save_samples(session, sorted(samples, key=lambda s: (s.application, s.operator, s.start, s.end, s.node_type or "")))
    differing: list[Difference] = []
    for sent, stood in save_decisions(session, sorted(decisions, key=lambda d: (d.application, d.operator, d.time))):
        report = senders[id(sent)]
        outcome = correct_decision(session, sent, report.who, report.scaler.last_seen)
        if outcome != "repeated":
            differing.append((sent, stood, outcome))
    reporting, acknowledging = join_scalers(reports)
    save_scalers(session, reporting)
    save_scalers(session, acknowledging, keep_detail=True)
    return differing


def join_scalers(reports: Iterable[Report]) -> tuple[list[Scaler], list[Scaler]]:
    """One row for each agent: of those that report, and of those that only acknowledge."""
    known: dict[tuple[str, str, str], tuple[Scaler, bool]] = {}
    for report in reports:
        scaler = report.scaler
        key = (scaler.application, scaler.operator, scaler.instance)
        known[key] = (scaler, report.acknowledges) if key not in known else join(*known[key], report)
    ordered = [known[key] for key in sorted(known)]
    return [scaler for scaler, only in ordered if not only], [scaler for scaler, only in ordered if only]


def join(before: Scaler, only: bool, report: Report) -> tuple[Scaler, bool]:
    """Merge one more report into an agent's row."""
    now = report.scaler
    joined = replace(
        now,
        first_seen=before.first_seen,
        revision=before.revision if now.revision is None else now.revision,
        acknowledged=before.acknowledged if now.acknowledged is None else now.acknowledged,
        detail=before.detail if report.acknowledges else now.detail,
    )
    return joined, only and report.acknowledges
