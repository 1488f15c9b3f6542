"""Notes on what is out of the ordinary in a slot: states of the query, replicas that were lost, stages that wait.

restarted     a run began in the slot, or by the slot's start it had neither done a batch nor said that it is idle
stopped       the query ended, and no run followed
catching_up   a backlog is worked off: batches that are much larger than usual and shrink, or a backlog of several
              batches that falls
batches_full  batches took as much as they may, and left a backlog
stalled       no report came for far longer than ever, or a batch took far longer than ever; not where executors worked
              through the batch
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from scaler.model.spark_progress import Trigger
from scaler.sensing.evidence import USUAL_BATCHES, Evidence
from scaler.sensing.executor_usage import count_replicas, find_lost_replicas, find_utilisation
from scaler.sensing.reading import NoteCode, SlotNote

STALL_S = 30.0  # of silence, below which nothing is stalled
FAR_FACTOR = 5.0  # times the longest ever: far longer than ever
LARGE_FACTOR = 2.0  # times the usual batch: what gathered while nobody served it
SHRINK_FACTOR = 0.8  # of the one before, at most, where batches or backlogs shrink
BACKLOG_BATCHES = 3.0  # batches, of which a backlog must be for its fall to be a catching up
MIN_BATCHES = 3
WORKING_UTILISATION = 0.5  # from which on replicas are seen to work though no report says so: a batch that is overdue
# keeps those that are done with their share, or have just started, waiting for the others


def find_notes(evidence: Evidence) -> tuple[SlotNote, ...]:
    """States of the query in the slot, each replica that was lost, and each profile that a stage waits for."""
    states = find_states(evidence)
    if NoteCode.STALLED in states and is_worked_on(evidence):
        states = [state for state in states if state != NoteCode.STALLED]
    lost = find_lost_replicas(evidence.executors or (), evidence.start, evidence.end)
    waits = {stage.profile: SlotNote(NoteCode.STAGE_WAITS, {"stage": stage.name, "profile": str(stage.profile)})
             for stage in evidence.waiting}  # fmt: skip
    return (*map(SlotNote, states), *lost, *waits.values())


def is_worked_on(evidence: Evidence) -> bool:
    """Whether executors worked through the longest batch: then silence is no stall, but an overloaded stream's."""
    longest = find_longest_batch(evidence)
    spent = None if longest is None else evidence.find_spent(*longest)
    if longest is None or spent is None:
        return False
    start, end = longest
    used = find_utilisation(spent, count_replicas(evidence.executors or (), start, end), end - start)
    return used is not None and used >= WORKING_UTILISATION


def find_longest_batch(evidence: Evidence) -> tuple[float, float] | None:
    """When the longest batch ran of those reported in the slot and the one that is not done: of that one, in the slot.

    Work at the slot's end says whether a batch hangs by now; one that is done is judged by all of its time.
    """
    start, end = evidence.start, evidence.end
    done = [(t.done - t.time, t.time, t.done) for t in evidence.past.triggers if t.executed and start <= t.done < end]
    since = evidence.running_since
    running = [] if since is None else [(end - since, max(since, start), end)]
    longest = max([*done, *running], default=None)
    return None if longest is None or longest[0] <= 0.0 else longest[1:]


def find_states(evidence: Evidence) -> list[NoteCode]:
    """Codes in the order in which they are listed above."""
    now = [trigger for trigger in evidence.triggers if trigger.done >= evidence.start]
    earlier = [trigger for trigger in evidence.triggers if trigger.done < evidence.start]
    found = {
        NoteCode.RESTARTED: has_restarted(evidence),
        NoteCode.STOPPED: evidence.past.has_stopped(evidence.end),
        NoteCode.CATCHING_UP: catches_up(now, earlier),
        NoteCode.BATCHES_FULL: are_full(now),
        NoteCode.STALLED: has_stalled(evidence, now, earlier),
    }
    return [state for state, whether in found.items() if whether]


def has_restarted(evidence: Evidence) -> bool:
    past, known, start, end = evidence.past, evidence.triggers, evidence.start, evidence.end
    began = {sign.run: sign.time for sign in past.started if sign.time < end}
    runs = list(dict.fromkeys(trigger.run for trigger in known))
    for run in runs[1:]:  # of the first one that is known nobody said that it began
        began.setdefault(run, next(trigger.time for trigger in known if trigger.run == run))
    if not began:
        return False
    last = max(began, key=lambda run: began[run])
    ready = [trigger.done for trigger in known if trigger.run == last]
    ready += [sign.time for sign in past.idle if sign.run == last]
    return began[last] >= start or min(ready, default=end) > start


def catches_up(now: Sequence[Trigger], earlier: Sequence[Trigger]) -> bool:
    """Whether batches done in the slot, and the last before them, shrink from more than was usual until then."""
    sizes = [trigger.rows for trigger in earlier[-USUAL_BATCHES:] if trigger.rows]
    if not now or len(sizes) < MIN_BATCHES:
        return False
    usual, recent = median(sizes), (*earlier[-1:], *now)
    rows = [trigger.rows for trigger in recent if trigger.rows is not None]
    if any(after > LARGE_FACTOR * usual and after <= SHRINK_FACTOR * before for before, after in pairwise(rows)):
        return True
    backlogs = [trigger.backlog for trigger in recent if trigger.backlog is not None]
    most = max(backlogs, default=0)
    return most > BACKLOG_BATCHES * usual and backlogs[-1] <= SHRINK_FACTOR * most


def are_full(now: Sequence[Trigger]) -> bool:
    """Whether each batch done in the slot left a backlog, where the query's offsets count tuples."""
    left = [trigger.backlog or 0 for trigger in now if trigger.rows]
    return bool(left) and min(left) > 0


def has_stalled(evidence: Evidence, now: Sequence[Trigger], earlier: Sequence[Trigger]) -> bool:
    heard = evidence.past.last_heard(evidence.end)
    if heard is None or evidence.past.has_stopped(evidence.end):
        return False
    ever = max((trigger.duration or 0.0 for trigger in earlier), default=0.0)
    if evidence.end - heard > max(STALL_S, FAR_FACTOR * max(ever, evidence.usual_cycle)):
        return True
    longest = max((trigger.duration or 0.0 for trigger in now), default=0.0)
    return len(earlier) >= MIN_BATCHES and longest > max(STALL_S, FAR_FACTOR * ever)
