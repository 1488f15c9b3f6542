"""Write reports of many agents; each is answered when it is committed, many of them in one transaction.

A commit costs the same for one report as for a hundred, so one thread writes all that queued up during the last
transaction. Where the database refuses a batch because of one report, the batch is halved until that one stands alone,
so that nobody pays for another's report.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from scaler.model.errors import BadInput, Retry
from scaler.model.sample import Sample
from tuner.store.connection import Session, Store
from tuner.store.decisions import save_decisions
from tuner.store.orders import save_scalers
from tuner.store.records import DecisionRecord, Scaler
from tuner.store.samples import save_samples

log = logging.getLogger(__name__)
Answer = asyncio.Future[None]
FULL = "the service has more reports waiting than it can write; send this one again in a moment"
CLOSED = "the service is shutting down; send this again in a moment"


@dataclass(frozen=True, slots=True)
class Report:
    """One agent's report; an acknowledgement leaves the stored detail of the agent alone."""

    scaler: Scaler
    samples: Sequence[Sample] = ()
    decisions: Sequence[DecisionRecord] = ()
    acknowledges: bool = False


@dataclass(slots=True)
class Intake:
    """Queue of reports to write, with the answers that wait for them."""

    store: Store
    max_batch: int = 500  # reports in one transaction
    max_queue: int = 5_000  # reports that wait for theirs; beyond, agents must send again later
    waiting: deque[tuple[Report, Answer | None]] = field(default_factory=deque)
    arrival: threading.Condition = field(default_factory=threading.Condition)
    closed: bool = False
    writer: threading.Thread | None = None


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
            count = min(len(intake.waiting), intake.max_batch)
            batch = [intake.waiting.popleft() for _ in range(count)]
        faults = write_batch(intake.store, [report for report, _ in batch])
        answers = [(answer, fault) for (_, answer), fault in zip(batch, faults, strict=True) if answer is not None]
        if not answers:
            continue
        try:
            answers[0][0].get_loop().call_soon_threadsafe(resolve_answers, answers)
        except RuntimeError:  # the loop is closed, and nobody waits any more
            log.warning("%d reports were written, and nobody waited for an answer", len(answers))


def resolve_answers(answers: Iterable[tuple[Answer, Exception | None]]) -> None:
    for answer, fault in answers:
        if not answer.done():  # else its client went away
            answer.set_result(None) if fault is None else answer.set_exception(fault)


def write_batch(store: Store, reports: Sequence[Report]) -> list[Exception | None]:
    """The fault of each report: None where it is committed."""
    try:
        store.write(lambda session: save_reports(session, reports))
        return [None] * len(reports)
    except Retry as error:  # the database, not a report
        return [error] * len(reports)
    except Exception as error:
        if len(reports) == 1:
            if not isinstance(error, BadInput):
                log.exception("a report of %s could not be written", reports[0].scaler.application)
            return [error]
        half = len(reports) // 2
        return write_batch(store, reports[:half]) + write_batch(store, reports[half:])


def save_reports(session: Session, reports: Sequence[Report]) -> None:
    """Save reports in the order of their keys, so that two services at one database do not deadlock."""
    samples = [sample for report in reports for sample in report.samples]
    decisions = [decision for report in reports for decision in report.decisions]
    save_samples(session, sorted(samples, key=lambda s: (s.application, s.operator, s.start, s.end, s.node_type or "")))
    save_decisions(session, sorted(decisions, key=lambda d: (d.application, d.operator, d.time)))
    reporting, acknowledging = join_scalers(reports)
    save_scalers(session, reporting)
    save_scalers(session, acknowledging, keep_detail=True)


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
