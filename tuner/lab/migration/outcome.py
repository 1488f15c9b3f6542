"""`tuner lab reproduce migration`: latency over time for one change, four strategies, three sizes of state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sim.migration import Change, Migration
from tuner.lab.migration.waits import STEP_S, TracedWaits, trace_waits
from tuner.lab.paper import ClaimCheck, PaperOutcome
from tuner.lab.study import Study
from tuner.simulation.runner import OnShare

TITLE = "Elasticity policies and state migration (Kalavri 2020), one change of replicas by four strategies"
STRATEGIES = ("stop", "pause", "at-once", "progressive")
STATES = {"10 MB": 1e7, "1 GB": 1e9, "8 GB": 8e9}
PARTITIONS = 200
CHANGE = Change(before=4, after=5, rate=4000.0, capacity=1250.0, slack_s=0.5)
HORIZON_S = 400.0
MOMENTS_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0)
MANY_TIMES = 10.0  # an order of magnitude
NEAR = 0.05  # relative difference of a traced queue from the closed form
Traced = Mapping[tuple[str, str], TracedWaits]  # by size of state and strategy


def reproduce_migration(folder: Path, seeds: int, on_share: OnShare) -> PaperOutcome:
    """Nothing is random in it and no trace is read."""
    traced: dict[tuple[str, str], TracedWaits] = {}
    for size, state_bytes in STATES.items():
        for kind in STRATEGIES:
            migration = Migration(kind, state_bytes=state_bytes, partitions=PARTITIONS)
            traced[size, kind] = trace_waits(migration, CHANGE, HORIZON_S)
            on_share(len(traced) / (len(STATES) * len(STRATEGIES)))
    return PaperOutcome(
        name="migration",
        title=TITLE,
        pairs=(),
        claims=tuple(check_claims(traced)),
        remarks=(
            f"From {CHANGE.before} to {CHANGE.after} replicas of {CHANGE.capacity:g} tuples/s at {CHANGE.rate:g} "
            f"tuples/s; {CHANGE.slack_s:g} s of slack. State is read, written and sent at 100 MB/s by each replica, in "
            "256 bins. The lecture prints no figures: its statements are the claims.",
        ),
        studies=(tabulate_costs(traced), *(tabulate_waits(size, traced) for size in STATES)),
    )


def check_claims(traced: Traced) -> list[ClaimCheck]:
    """What the lecture and Megaphone's abstract say of the strategies, by size of state."""
    found = []
    for size in STATES:
        stop, pause, at_once, steps = (traced[size, kind] for kind in STRATEGIES)
        longest = [waits.longest_s for waits in (stop, pause, at_once, steps)]
        shown = ", ".join(f"{kind} {wait:.3g} s" for kind, wait in zip(STRATEGIES, longest, strict=True))
        found += [
            ClaimCheck(size, "stop and restart stalls longest", shown, longest[0] > max(longest[1:])),
            ClaimCheck(
                size,
                "all at once holds the keys that move alone, and fewer tuples wait than in a pause of the operator",
                f"{at_once.cost.held:.0%} held; {at_once.waiting:.3g} against {pause.waiting:.3g} tuple-seconds",
                at_once.cost.held < 1.0 and at_once.waiting < pause.waiting,
            ),
            ClaimCheck(
                size,
                "progressive steps keep within the slack, so that nothing is late",
                f"longest wait {steps.longest_s:.3g} s, late {steps.late_s:.3g} s",
                steps.late_s == 0.0,
            ),
            ClaimCheck(
                size,
                "progressive takes longer in all, unless one step is enough",
                f"{steps.migration_s:.3g} s against {at_once.migration_s:.3g} s in {steps.cost.steps} steps",
                steps.migration_s > at_once.migration_s or steps.cost.steps == 1,
            ),
            ClaimCheck(
                size,
                "progressive takes no more memory than all at once",
                f"{steps.cost.peak_bytes / 1e6:.3g} MB against {at_once.cost.peak_bytes / 1e6:.3g} MB",
                steps.cost.peak_bytes <= at_once.cost.peak_bytes,
            ),
            ClaimCheck(
                size,
                "the closed form prices late seconds as the traced queues have them",
                ", ".join(f"{w.cost.late_s:.3g} / {w.late_s:.3g}" for w in (stop, pause, at_once, steps)),
                all(is_near(w.cost.late_s, w.late_s) for w in (stop, pause, at_once, steps)),
            ),
        ]
    large = list(STATES)[-1]
    waits = [traced[large, kind].longest_s for kind in ("at-once", "progressive")]
    said = "Megaphone: the longest wait is orders of magnitude below that of all at once"
    found.append(
        ClaimCheck(large, said, f"{waits[1]:.3g} s against {waits[0]:.3g} s", waits[0] > MANY_TIMES * waits[1])
    )
    return found


def is_near(closed: float, traced: float) -> bool:
    return abs(closed - traced) <= NEAR * closed + 2.0 * STEP_S


def tabulate_costs(traced: Traced) -> Study:
    """What each strategy came to."""
    columns = (
        "state", "strategy", "published", "migration s", "held share", "steps", "longest wait s", "peak mean wait s",
        "late s", "late s by formula", "tuple-seconds", "moved MB", "peak memory MB",
    )  # fmt: skip
    rows: list[tuple[object, ...]] = [
        (
            size, kind, "-", w.migration_s, w.cost.held, w.cost.steps, w.longest_s, float(w.mean_s.max()), w.late_s,
            w.cost.late_s, w.waiting, w.cost.moved_bytes / 1e6, w.cost.peak_bytes / 1e6,
        )
        for (size, kind), w in traced.items()
    ]  # fmt: skip
    return Study("migration-costs", "One change by strategy and size of state", columns, rows)


def tabulate_waits(size: str, traced: Traced) -> Study:
    """The mean wait of the tuples that come so long after the beginning."""
    rows: list[tuple[object, ...]] = [
        (f"{moment:g}", "-", *(float(traced[size, kind].mean_s[round(moment / STEP_S)]) for kind in STRATEGIES))
        for moment in MOMENTS_S
    ]
    caption = f"Seconds beyond the usual that tuples wait, by when they come; {size} of state"
    return Study(f"migration-{size.replace(' ', '-')}", caption, ("second", "published", *STRATEGIES), rows)
