"""Render an explanation as plain lines for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from scaler.model.decision import (
    ACTUATION_FAILED,
    BLOCKED,
    DRY_RUN,
    GUARD,
    SCALED,
    Decision,
    ShadowDecision,
)
from scaler.model.units import (
    clean,
    format_duration,
    format_moment,
    format_number,
    format_response,
    format_share,
    join_words,
    quote,
)
from tuner.history.alternatives import NOTHING, Alternative
from tuner.history.explanation import Account, Block, Explanation, Standing
from tuner.history.objective_origin import ObjectiveSource, Pursued
from tuner.store.json_fields import write_fields
from tuner.store.objective_evidence import Reversion, StageEvidence
from tuner.views.words import format_deployment, join_facts

LABEL = 12
Part = tuple[str, str]  # label and text


def to_lines(explanation: Explanation, width: int = 120) -> list[str]:
    """An operator after the other, every fact behind its label."""
    if not explanation.operators:
        return [*wrap(explanation.says, "", width), *wrap(explanation.do, "", width)]
    lines: list[str] = []
    told: set[int] = set()  # objectives, which operators share
    for account in explanation.operators:
        lines += [""] if lines else []
        lines += wrap(head(explanation, account), "", width)
        for label, text in list_parts(account, told):
            lines += wrap(text, label, width)
    return lines


def wrap(text: str, label: str, width: int) -> list[str]:
    """A table's lines as they are, a sentence's as they fit."""
    indent = " " * (LABEL + 2) if label else ""
    begin = f"  {label:<{LABEL}}" if label else ""
    lines: list[str] = []
    for line in text.split("\n"):
        before = begin if not lines else indent
        if "\n" in text:
            lines.append(f"{before}{line}".rstrip())
        else:
            lines += textwrap.wrap(line, max(40, width), initial_indent=before, subsequent_indent=indent) or [before]
    return lines


def head(explanation: Explanation, account: Account) -> str:
    named = quote(account.operator)
    if account.gap is not None:
        return f"{named}: no decision{'' if explanation.at is None else f' at {format_moment(explanation.at)}'}"
    age = (
        ""
        if account.age is None
        else f", {format_duration(account.age)} {'ago' if explanation.at is None else 'before'}"
    )
    decision = account.decision
    return named if decision is None else f"{named} at {format_moment(decision.time)}{age}: {name_did(decision)}"


def name_did(decision: Decision) -> str:
    """The decision's kind, and the change that it is about."""
    did = decision.wanted if decision.kind in (SCALED, BLOCKED, DRY_RUN, ACTUATION_FAILED) else None
    return f"{decision.kind}{f' {clean(did)}' if did else ''}"


def list_parts(account: Account, told: set[int]) -> Iterator[Part]:
    if account.gap is not None:
        yield "why", account.gap.says
        yield "do", account.gap.do
    decision = account.decision
    if decision is None:
        return
    if account.gap is not None:
        yield "last slot", f"{format_moment(decision.time)}: {name_did(decision)}"
    yield "because", clean(decision.reason, 600) or "no reason was given"
    yield "seen", say_seen(decision)
    if account.alternatives:
        yield "worth", lay_out(account.alternatives) + f"\n{account.compared}"
    else:
        yield "worth", account.compared
    for block in account.blocked:
        yield "blocked by", say_block(block)
    for one in account.controls:
        if not any(one in block.set_by for block in account.blocked):
            yield "in force", f"{one.kind}, {say_standing(one)}"
    yield from list_objective(account.objective, told)
    if decision.shadow is not None:
        yield "candidate", say_candidate(decision.shadow)


def say_seen(decision: Decision) -> str:
    seen = decision.seen
    told = ["rate not known" if decision.rate is None else f"{format_number(decision.rate)} tuples/s"]
    if seen.utilisation is not None:
        told.append(f"utilisation {format_share(seen.utilisation)}")
    allowed = "" if decision.bound is None else f" of {format_response(decision.bound)} allowed"
    if decision.response is None:
        told.append(f"response not known{allowed and ','}{allowed}")
    elif decision.response == float("inf"):
        told.append(f"more than can be served{allowed and ','}{allowed}")
    else:
        told.append(f"response {format_response(decision.response)}{allowed}")
    if seen.deployment:
        price = "" if decision.price is None else f" at {format_number(decision.price)}/h"
        told.append(format_deployment(seen.deployment) + price)
    elif decision.price is not None:
        told.append(f"{format_number(decision.price)}/h")
    if seen.completeness is not None:
        told.append(f"{format_share(seen.completeness)} of the metrics")
    if seen.backlog:
        told.append(f"backlog {format_number(seen.backlog)} tuples")
    if seen.target and seen.target != seen.deployment:
        told.append(f"asked for {format_deployment(seen.target)}")
    return ", ".join(told)


def lay_out(alternatives: tuple[Alternative, ...]) -> str:
    """A table: less is better, the best first."""
    rows = [(clean(a.action, 40), format_number(a.worth), say_more(a), say_mark(a)) for a in alternatives]
    heads = ("alternative", "worth", "more", "")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [
        f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip()
        for row in (heads, *rows)
    ]
    return "\n".join(lines)


def say_more(one: Alternative) -> str:
    return "-" if one.more is None else "" if one.more == 0.0 else f"+{format_number(one.more)}"


def say_mark(one: Alternative) -> str:
    words = [word for word, true in (("done", one.done), ("wanted", one.wanted and not one.done)) if true]
    return ", ".join(words)


def say_block(block: Block) -> str:
    says = clean(str(block.objection), 600)
    if block.set_by:
        return f"{says}; {'; '.join(say_standing(one) for one in block.set_by)}"
    whose = "the scaler's own configuration" if block.objection.source == GUARD else "the scaler itself"
    return f"{says}; nobody's control, but of {whose}"


def say_standing(one: Standing) -> str:
    where = f"for {quote(one.operator)}" if one.operator else "for all operators"
    until = "" if one.until is None else f" until {format_moment(one.until)}"
    facts = f" with {say_settings(one)}" if one.settings else ""
    note = f": {clean(one.note)}" if one.note else ""
    return f"set by {clean(one.who, 60)} {where} at {format_moment(one.since)}{until}{facts}{note}"


def say_settings(one: Standing) -> str:
    return clean(", ".join(f"{key} {value}" for key, value in one.settings.items()), 120)


def list_objective(pursued: Pursued | None, told: set[int]) -> Iterator[Part]:
    if pursued is None:
        yield "objective", "none was pursued"
        return
    if not pursued.kept:
        yield "objective", f"{pursued.version}, which the database does not have"
        return
    bound = say_bound(pursued)
    if pursued.version in told:
        yield "objective", f"{pursued.version}, as above; {bound}"
        return
    told.add(pursued.version)
    weights = ", ".join(f"{key} {value:.3g}" for key, value in (pursued.weights or {}).items())
    since = "" if pursued.changed is None else f" since {format_moment(pursued.changed)}"
    yield "objective", f"{pursued.version}, {pursued.state} by now{since}; {bound}; weights {weights}"
    yield "from", say_origin(pursued)
    believed = say_belief(pursued)
    if believed:
        yield "believed", believed
    for stage, evidence in pursued.stages.items():
        yield stage, say_stage(evidence)
    if pursued.reverted is not None:
        yield "rolled back", say_reverted(pursued.reverted)


def say_bound(pursued: Pursued) -> str:
    if pursued.bound is None:
        return "says nothing of this operator"
    return f"bound {format_response(pursued.bound)} on the queueing part"


def say_origin(pursued: Pursued) -> str:
    told = clean(pursued.provenance) or "it is not said from where"
    source = pursued.source
    return told if source is None else f"{told}{say_search(source)}; {say_surrogate(source)}"


def say_search(source: ObjectiveSource) -> str:
    if source.trial is None or source.engine is None:
        return ""
    return f" ({clean(source.engine, 40)}, seed {source.seed}; tuner trial {source.trial})"


def say_surrogate(source: ObjectiveSource) -> str:
    if source.surrogate is None:
        return "on the described service times, without a surrogate"
    error = "" if source.error is None else f", {format_share(source.error)} off"
    doubts = "".join(f"; {clean(doubt)}" for doubt in source.doubts)
    return f"on surrogate {source.surrogate} ({source.health}{error}{doubts})"


def say_belief(pursued: Pursued) -> str:
    """What it was expected to cost and to break, against what there was before."""
    after, before, told = pursued.after, pursued.before, []
    if after.cost is not None:
        doubt = "" if after.cost_error is None else f" ± {format_number(after.cost_error)}"
        instead = "" if before.cost is None else f" instead of {format_number(before.cost)}"
        told.append(f"cost {format_number(after.cost)}{doubt}/h{instead}")
    shares = (("violations", after.violations, before.violations),
              ("reconfigurations", after.reconfigurations, before.reconfigurations))  # fmt: skip
    for what, share, other in shares:
        if share is not None:
            told.append(
                f"{what} {format_share(share)}" + ("" if other is None else f" instead of {format_share(other)}")
            )
    if pursued.confidence is not None:
        told.append(f"limits kept with a confidence of {format_share(pursued.confidence)}")
    return ", ".join(told)


def say_stage(stage: StageEvidence) -> str:
    told = [] if stage.since is None else [f"since {format_moment(stage.since)}"]
    if stage.ended is not None:
        told.append(f"until {format_moment(stage.ended)}")
    if stage.who:
        told.append(f"by {clean(stage.who, 60)}")
    if stage.operators:
        told.append(f"for {join_words([quote(one) for one in stage.operators[:5]])}")
    figures = join_facts(write_fields(stage.figures))
    said = ", ".join([" ".join(told), figures] if told and figures else [" ".join(told) or figures])
    return f"{said}: {clean(stage.why)}" if stage.why else said or "nothing more is kept of it"


def say_reverted(reverted: Reversion) -> str:
    told = [] if reverted.when is None else [format_moment(reverted.when)]
    told += [f"by {clean(reverted.who, 60)}"] if reverted.who else []
    says = f"{' '.join(told)}: {clean(reverted.why, 600)}" if reverted.why else " ".join(told)
    figures = join_facts(write_fields(reverted.figures))
    return f"{says} ({figures})" if figures else says or "nothing more is kept of it"


def say_candidate(candidate: ShadowDecision) -> str:
    which = "the candidate" if candidate.version is None else f"objective {candidate.version}"
    did = "made no change" if candidate.action in (None, NOTHING) else f"done {clean(candidate.action or '')}"
    told = [f"{which} would have {did}"]
    if candidate.deployment:
        told.append(f"with {format_deployment(candidate.deployment)} by now")
    if candidate.price is not None:
        told.append(f"at {format_number(candidate.price)}/h")
    if candidate.response is not None:
        allowed = "" if candidate.bound is None else f" of {format_response(candidate.bound)} allowed"
        told.append(f"predicted response {format_response(candidate.response)}{allowed}")
    reason = f": {clean(candidate.reason)}" if candidate.reason else ""
    return ", ".join(told) + reason
