"""What people asked of the daemons in; done, with who asked for it, out."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tuner.retuning.context import Hand, note, settings_of
from tuner.store.records import RetuningRecord
from tuner.store.retunings import find_retuning, remove_requests
from tuner.store.runs import claim_run, end_run

STEERING = ("pause", "resume", "stop")
TUNE = "tune"
SEARCHING = ("ingest", "fit", "check", "tune", "compare")  # phases between being due and an objective on its way


def is_asked(watch: RetuningRecord) -> bool:
    """Whether something is asked that can be done now: a tuning waits for what is under way."""
    return any(word in watch.asked for word in STEERING) or (TUNE in watch.asked and watch.phase == "idle")


def fulfil(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """Pause, go on, stop: in the order in which they were asked for."""
    wishes = [(word, watch.asked[word]) for word in STEERING if word in watch.asked]
    for word, wish in sorted(wishes, key=lambda one: told_of(one[1]).get("when", 0.0)):
        who = told_of(wish).get("who", "somebody")
        if word == "stop":
            watch = stop(hand, watch, who)
        elif word == "pause":
            event = ("paused", f"{who} paused the retuning of {watch.application}", {"who": who})
            watch = note(hand, watch, event=event, also=taking(watch, word), paused=who)
        else:
            event = ("resumed", f"{who} let the retuning of {watch.application} go on", {"who": who})
            watch = note(hand, watch, due=hand.clock(), event=event, also=taking(watch, word), paused=None)
    return watch if not wishes else reread(hand, watch)


def stop(hand: Hand, watch: RetuningRecord, who: str) -> RetuningRecord:
    """End the search that is under way; it is not resumed."""
    run_id = watch.detail.get("run")

    def work(session: Any) -> None:
        taking(watch, "stop")(session)
        run = None if run_id is None else claim_run(session, run_id, hand.owner, time.time())
        if run is not None:
            end_run(session, run, "stopped", time.time(), f"stopped by {who}")

    if watch.phase not in SEARCHING:
        return note(hand, watch, also=work)
    now = hand.clock()
    says = f"{who} stopped the tuning of {watch.application}"
    event = ("tuning ended", says, {"who": who, "run": run_id})
    return note(
        hand, watch, "idle", now + settings_of(watch).check_s, event, work, run=None, version=None, wish=None,
        tuned=now, says=says,
    )  # fmt: skip


def take_tuning(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """Begin what a person asked for."""
    wish = told_of(watch.asked[TUNE])
    asked = {key: wish[key] for key in ("budget", "engine", "seed") if wish.get(key) is not None}
    cause = {"kind": "asked", "why": f"{wish.get('who', 'somebody')} asked for it"}
    noted = note(hand, watch, "ingest", also=taking(watch, TUNE), cause=cause, wish=asked, says=cause["why"])
    return reread(hand, noted)


def taking(watch: RetuningRecord, word: str) -> Any:
    def work(session: Any) -> None:
        remove_requests(session, watch, (word,))

    return work


def reread(hand: Hand, watch: RetuningRecord) -> RetuningRecord:
    """With the wishes that are left."""
    from dataclasses import replace

    with hand.store.read() as session:
        there = find_retuning(session, watch.application)
    return watch if there is None else replace(watch, asked=there.asked, settings=there.settings)


def told_of(wish: Any) -> Mapping[str, Any]:
    return wish if isinstance(wish, Mapping) else {}
