"""Render an explanation as plain lines for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from typing import TypeVar

from scaler.model.decision import (
    ACTUATION_FAILED,
    BLOCKED,
    DRY_RUN,
    GUARD,
    NO_ACTION,
    SCALED,
    Decision,
    ShadowDecision,
)
from scaler.model.units import (
    clean,
    describe_span,
    format_count,
    format_duration,
    format_moment,
    format_money,
    format_number,
    format_response,
    format_share,
    join_words,
    quote,
)
from tuner.history.explanation import Account, Alternative, Block, Explanation
from tuner.history.held_changes import HeldChange
from tuner.history.objective_origin import Pursued
from tuner.store.json_fields import write_fields
from tuner.store.objectives import Reversion, StageEvidence
from tuner.store.records import Control, SupersededDecision
from tuner.views.words import format_deployment, join_facts

LABEL = 12
NOTHING_STORED = "nothing more is stored"
STANDINGS = {"shadow": "in shadow", "canary": "in canary", "full": "in full use", "reverted": "rolled back"}
Part = tuple[str, str]  # label and text
T = TypeVar("T")


def to_lines(explanation: Explanation, width: int = 120) -> list[str]:
    """One operator after the other, every fact behind its label."""
    if not explanation.operators:
        return [*wrap(explanation.message, "", width), *wrap(explanation.advice, "", width)]
    lines: list[str] = []
    shown: set[int] = set()  # objectives, which operators share
    for account in explanation.operators:
        lines += [""] if lines else []
        lines += wrap(head(explanation, account), "", width)
        for label, text in list_parts(account, shown):
            lines += wrap(text, label, width)
    return lines


def wrap(text: str, label: str, width: int) -> list[str]:
    """A table's lines as they are, a sentence's as they fit."""
    indent = " " * (LABEL + 2) if label else ""
    begin = f"  {label:<{LABEL}}" if label else ""
    if "\n" in text:
        return [f"{indent if i else begin}{line}".rstrip() for i, line in enumerate(text.split("\n"))]
    return textwrap.wrap(text, max(40, width), initial_indent=begin, subsequent_indent=indent) or [begin]


def head(explanation: Explanation, account: Account) -> str:
    named, decision = quote(account.operator), account.decision
    if account.gap is not None:
        return f"{named}: no decision{format_if(' at {}', format_moment, explanation.at)}"
    if decision is None:
        return named
    age = format_if(f", {{}} {'ago' if explanation.at is None else 'before'}", format_duration, account.age or None)
    return f"{named} at {format_moment(decision.time)}{age}: {name_change(decision)}"


def format_if(text: str, format_value: Callable[[T], str], value: T | None) -> str:
    """The text around a value, "" where it is not known."""
    return "" if value is None else text.format(format_value(value))


def name_change(decision: Decision) -> str:
    """The decision's kind, and the change that it is about: "SCALED +2 small of +3 small, -1 large" where in part."""
    change = decision.wanted if decision.kind in (SCALED, BLOCKED, DRY_RUN, ACTUATION_FAILED) else None
    if decision.kind == SCALED and decision.action is not None and change != decision.action:
        change = f"{decision.action} of {change}"
    return f"{decision.kind}{f' {clean(change)}' if change else ''}"


def list_parts(account: Account, shown: set[int]) -> Iterator[Part]:
    if account.gap is not None:
        yield "why", account.gap.message
        yield "do", account.gap.advice
    decision = account.decision
    if decision is None:
        return
    if account.gap is not None:
        yield "last slot", f"{format_moment(decision.time)}: {name_change(decision)}"
    yield "because", clean(decision.reason, 600) or "no reason was given"
    for earlier in account.corrected:
        yield "corrected", describe_correction(earlier)
    yield "observed", describe_observation(decision)
    table = f"{tabulate_alternatives(account.alternatives)}\n" if account.alternatives else ""
    yield "costs", f"{table}{account.compared}"
    if account.holds:
        yield "changes", "; ".join(map(describe_hold, account.holds))
    for block in account.blocked:
        yield "blocked by", describe_block(block)
    for one in account.controls:
        if not any(one in block.set_by for block in account.blocked):
            yield "in force", f"{one.kind}, {describe_standing(one)}"
    yield from list_objective(account.objective, shown)
    if decision.shadow is not None:
        yield "candidate", describe_candidate(decision.shadow)


def describe_correction(earlier: SupersededDecision) -> str:
    """When and by whom, and what the slot's decision was until then."""
    before = earlier.record.decision
    first = "first" if earlier.number == 1 else "before"
    by = f" by {clean(earlier.who)}" if earlier.who else ""
    reported = f"{first} reported as {name_change(before)}"
    return f"at {format_moment(earlier.superseded)}{by}; {reported}: {clean(before.reason, 600)}"


def describe_observation(decision: Decision) -> str:
    seen, measured = decision.seen, decision.response not in (None, math.inf)
    allowed = format_if(" of {} allowed" if measured else ", {} allowed", format_response, decision.bound)
    parts = ["rate not known" if decision.rate is None else f"{format_number(decision.rate)} tuples/s"]
    parts.append(format_if("utilisation {}", format_share, seen.utilisation))
    response = "not known" if decision.response is None else format_response(decision.response)
    parts.append(f"response {response}{allowed}")
    price = format_if("{}/h", format_money, decision.price)
    parts.append(f"{format_deployment(seen.deployment)}{price and ' at '}{price}" if seen.deployment else price)
    parts.append(format_if("{} of the metrics", format_share, seen.completeness))
    parts.append(format_if("backlog {} tuples", format_number, seen.backlog or None))
    parts.append(format_if("{} tokens left for changes", format_number, seen.tokens))
    parts.append(format_if("began with {} of history", describe_span, seen.history_s))
    if seen.target and seen.target != seen.deployment:
        parts.append(f"target {format_deployment(seen.target)}")
    return ", ".join(filter(None, parts))


def tabulate_alternatives(alternatives: tuple[Alternative, ...]) -> str:
    """A table: less is better, the best first."""
    rows = [
        (
            clean(one.action, 40),
            format_number(one.worth),
            "-" if one.more is None else f"+{format_number(one.more)}" if one.more else "",
            "done" if one.done else "wanted" if one.wanted else "",
        )
        for one in alternatives
    ]
    heads = ("alternative", "cost", "more", "")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip()
        for row in (heads, *rows)
    )


def describe_hold(held: HeldChange) -> str:
    if held.hold_s is None:
        return f"what a scale-{held.direction} holds is not known"
    seen = f" (measured on {format_count(held.events, 'event', 'events')})" if held.events else ""
    said = f"a scale-{held.direction} by one holds answers for {held.hold_s:.3g} s{seen}"
    if held.late_s is None:
        return said
    if math.isinf(held.late_s):
        return f"{said}, and would not keep up with this load"
    return f"{said}: {held.late_s:.3g} s of late answers under this load"


def describe_block(block: Block) -> str:
    says = clean(str(block.objection), 600)
    if block.set_by:
        return f"{says}; {'; '.join(map(describe_standing, block.set_by))}"
    whose = "the agent's own configuration" if block.objection.source == GUARD else "the agent itself"
    return f"{says}; not a control, but {whose}"


def describe_standing(one: Control) -> str:
    where = f"for {quote(one.operator)}" if one.operator else "for all operators"
    until = format_if(" until {}", format_moment, one.until)
    settings = clean(", ".join(f"{key} {value}" for key, value in one.settings.items()), 120)
    note = f": {clean(one.note)}" if one.note else ""
    facts = f" with {settings}" if one.settings else ""
    return f"set by {clean(one.who, 60)} {where} at {format_moment(one.since)}{until}{facts}{note}"


def list_objective(pursued: Pursued | None, shown: set[int]) -> Iterator[Part]:
    if pursued is None:
        yield "objective", "none was pursued"
        return
    if not pursued.kept:
        yield "objective", f"{pursued.version}, which the database does not have"
        return
    bound = format_if("bound {} on the queueing part", format_response, pursued.bound)
    bound = bound or "no bound for this operator"
    if pursued.version in shown:
        yield "objective", f"{pursued.version}, as above; {bound}"
        return
    shown.add(pursued.version)
    weights = ", ".join(f"{key} {value:.3g}" for key, value in (pursued.weights or {}).items())
    since = format_if(" since {}", format_moment, pursued.changed)
    state = pursued.state or "of unknown state"
    yield (
        "objective",
        f"{pursued.version}, now {STANDINGS.get(state, state)}{since}; {bound}; weights {weights}",
    )
    yield "from", describe_origin(pursued)
    expected = describe_expectation(pursued)
    if expected:
        yield "expected", expected
    for stage, evidence in pursued.stages.items():
        yield stage, describe_stage(evidence)
    if pursued.reverted is not None:
        yield "rolled back", describe_reversion(pursued.reverted)


def describe_origin(pursued: Pursued) -> str:
    origin, source = clean(pursued.provenance) or "of unknown origin", pursued.source
    if source is None:
        return origin
    if source.trial is not None and source.engine is not None:
        origin += f" ({clean(source.engine, 40)}, seed {source.seed})"
    if source.surrogate is None:
        return f"{origin}; on the described service times, without a surrogate"
    error = format_if(", {} off", format_share, source.error)
    doubts = "".join(f"; {clean(doubt)}" for doubt in source.doubts)
    return f"{origin}; on surrogate {source.surrogate} ({source.health}{error}{doubts})"


def describe_expectation(pursued: Pursued) -> str:
    """The expected price and violations, against those of what was in use before."""
    after, before, parts = pursued.after, pursued.before, []
    if after.cost is not None:
        error = format_if(" ± {}", format_money, after.cost_error)
        instead = format_if(" instead of {}", format_money, before.cost)
        parts.append(f"price {format_money(after.cost)}{error}/h{instead}")
    for what, share, other in (
        ("violations", after.violations, before.violations),
        ("reconfigurations", after.reconfigurations, before.reconfigurations),
    ):
        if share is not None:
            parts.append(f"{what} {format_share(share)}{format_if(' instead of {}', format_share, other)}")
    parts.append(format_if("limits kept with a confidence of {}", format_share, pursued.confidence))
    return ", ".join(filter(None, parts))


def describe_stage(stage: StageEvidence) -> str:
    times = [format_if("since {}", format_moment, stage.since), format_if("until {}", format_moment, stage.ended)]
    who = f"by {clean(stage.who, 60)}" if stage.who else ""
    operators = f"for {join_words([quote(one) for one in stage.operators[:5]])}" if stage.operators else ""
    parts = [" ".join(filter(None, (*times, who, operators))), join_facts(write_fields(stage.figures))]
    described = ", ".join(filter(None, parts))
    return f"{described}: {clean(stage.why)}" if stage.why else described or NOTHING_STORED


def describe_reversion(reverted: Reversion) -> str:
    who = f"by {clean(reverted.who, 60)}" if reverted.who else ""
    described = " ".join(filter(None, (format_if("{}", format_moment, reverted.when), who)))
    if reverted.why:
        described += f": {clean(reverted.why, 600)}"
    figures = join_facts(write_fields(reverted.figures))
    return f"{described} ({figures})" if figures else described or NOTHING_STORED


def describe_candidate(candidate: ShadowDecision) -> str:
    which = format_if("objective {}", str, candidate.version) or "the candidate"
    change = "made no change" if candidate.action in (None, NO_ACTION) else f"done {clean(candidate.action or '')}"
    parts = [f"{which} would have {change}"]
    if candidate.deployment:
        parts.append(
            f"running {format_deployment(candidate.deployment)}{format_if(' at {}/h', format_money, candidate.price)}"
        )
    else:
        parts.append(format_if("at {}/h", format_money, candidate.price))
    if candidate.response is not None:
        allowed = format_if(" of {} allowed", format_response, candidate.bound)
        parts.append(f"predicted response {format_response(candidate.response)}{allowed}")
    reason = f": {clean(candidate.reason)}" if candidate.reason else ""
    return ", ".join(filter(None, parts)) + reason
