"""Show the live demo: drawn on a terminal, a plain line a slot where there is none, and its HTML page."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from markupsafe import Markup
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scaler.model.decision import ACTUATION_FAILED, BLOCKED, DRY_RUN, HELD, SCALED, Decision
from scaler.model.kernel import Floats
from scaler.model.units import format_response
from tuner.demo.demo_plan import APP, LARGE, count_static
from tuner.demo.demo_run import Moment, Progress, Scene, read_scene
from tuner.simulation.course import Columns
from tuner.views.course_charts import Frame, chart_replicas, chart_response
from tuner.views.html_document import make_environment, write_document

LAST = 8  # decisions that are shown
BARS = "▁▂▃▄▅▆▇█"
WIDE = 24
COLOURS = {SCALED: "green", BLOCKED: "yellow", HELD: "dim", ACTUATION_FAILED: "red", DRY_RUN: "cyan"}


@contextmanager
def showing(console: Console) -> Iterator[Callable[[Progress], None]]:
    """The function to call with each progress."""
    if not console.is_terminal:
        yield PlainLines(console).show
        return

    with Live(console=console, refresh_per_second=4, transient=True) as live:
        yield lambda progress: live.update(draw(progress, time.time()), refresh=True)


class PlainLines:
    """Print each stage and decision once, a line each."""

    def __init__(self, console: Console) -> None:
        self.console, self.at, self.told = console, "", set[tuple[float, str]]()

    def show(self, progress: Progress) -> None:
        if progress.at != self.at:
            self.at = progress.at
            self.console.print(f"{progress.at}", markup=False, highlight=False, soft_wrap=True)
        scene = read_scene(progress)
        for moment in scene.moments if scene else ():
            if (moment.decision.time, moment.operator) not in self.told:
                self.told.add((moment.decision.time, moment.operator))
                line = write_line(moment, scene.began if scene else 0.0)
                self.console.print(line, markup=False, highlight=False, soft_wrap=True)


def write_line(moment: Moment, began: float) -> str:
    """ "  40 s  parse  15.1/s  2.3 s of 5 s  1 small, 1 large  SCALED +1 large: At 15 tuples/s ..." """
    decision = moment.decision
    return (
        f"{decision.time - began:5.0f} s  {moment.operator:6} {say_rate(decision.rate):>8}  "
        f"{describe_response(decision):14} {say_replicas(decision):18} {name_did(decision)}: {decision.reason}"
    )


def name_did(decision: Decision) -> str:
    return f"{decision.kind} {decision.action}" if decision.action else decision.kind


def say_rate(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:.1f}/s"


def describe_response(decision: Decision) -> str:
    response, bound = decision.response, decision.bound
    took = "?" if response is None else format_response(response)
    return took if bound is None else f"{took} of {format_response(bound)}"


def say_replicas(decision: Decision) -> str:
    deployment = decision.seen.deployment
    return ", ".join(f"{n} {name}" for name, n in deployment.items() if n) or ("none" if deployment else "?")


def draw(progress: Progress, now: float) -> RenderableType:
    """The picture of the whole demo."""
    scene = read_scene(progress)
    if scene is None or progress.began is None:
        return Panel(Text(f"{progress.at} ..."), title=f"tuner live {APP}")
    length = (progress.until or now) - progress.began
    title = f"{progress.at}, {min(max(0.0, now - progress.began), length):.0f} of {length:.0f} s"
    static = scene.static_cost(count_static(), LARGE.price)
    cost = f"\ncost so far {scene.cost:.4f}, of as many large nodes as the peak needs {static:.4f}\n"
    return Panel(Group(draw_operators(scene), Text(cost), draw_decisions(scene)), title=f"tuner live {APP}: {title}")


def draw_operators(scene: Scene) -> RenderableType:
    table = Table(box=None, padding=(0, 2), pad_edge=False)
    for head in ("operator", "rate", "", "response", "", "replicas"):
        table.add_column(head, no_wrap=True)
    for operator in scene.operators:
        decisions = scene.of(operator)
        if not decisions:
            table.add_row(operator, "?", "", "?", "", "?")
            continue
        last = decisions[-1]
        style = "red" if last.late else "green" if last.late is False else "dim"
        responses = [None if d.response is None else min(d.response, 3.0 * (d.bound or math.inf)) for d in decisions]
        rates = [d.rate for d in decisions]
        table.add_row(
            operator, say_rate(last.rate), spark(rates), Text(describe_response(last), style), spark(responses),
            say_replicas(last),
        )  # fmt: skip
    return table


def spark(values: list[float | None]) -> str:
    """The last of them as bars; a dot where nothing is known."""
    shown = values[-WIDE:]
    most = max((value for value in shown if value is not None and math.isfinite(value)), default=0.0) or 1.0
    return "".join("·" if v is None else BARS[min(7, int(8 * min(v, most) / most))] for v in shown)


def draw_decisions(scene: Scene) -> RenderableType:
    table = Table(box=None, padding=(0, 2), pad_edge=False, show_header=False)
    for moment in scene.moments[-LAST:]:
        decision = moment.decision
        table.add_row(
            f"{decision.time - scene.began:.0f} s", moment.operator,
            Text(name_did(decision), COLOURS.get(decision.kind, "")),
            Text(decision.reason, overflow="ellipsis", no_wrap=True),
        )  # fmt: skip
    return table


def write_page(scene: Scene, totals: Mapping[str, Any], static: Mapping[str, int], price: float) -> str:
    """`static`: replicas of each operator that cost `price` each, to hold the cost against."""
    template = make_environment("tuner.demo").get_template("demo.html")
    body = template.render(
        scene=scene,
        totals=totals,
        static=static,
        price=price,
        whole=scene.static_cost(static, price),
        charts={operator: write_operator(scene, operator) for operator in scene.operators},
        name_did=name_did,
        SCALED=SCALED,
    )
    return write_document("Scalers at work on a real cluster", body)


def write_operator(scene: Scene, operator: str) -> Markup:
    """The charts of an operator; none where it decided nothing."""
    decisions = scene.of(operator)
    if not decisions:
        return Markup()
    at: Floats = (np.arange(len(decisions)) + 0.5) / len(decisions)
    frame = Frame(None, len(decisions) * scene.slot_s, scene.node_types)
    bound = next((d.bound for d in reversed(decisions) if d.bound is not None), None)
    response, rates = lay_out([d.response for d in decisions]), lay_out([d.rate for d in decisions])
    charts = []
    if bound is not None and np.isfinite(response.mean).any():
        charts.append(chart_response(frame, at, response, bound, operator))
    if np.isfinite(rates.mean).any():
        replicas = np.array([[held.get(name, 0) for name in scene.node_types] for held in carry_on(decisions)], float)
        charts.append(chart_replicas(frame, at, replicas, rates, operator))
    return Markup().join(chart.render() for chart in charts)


def lay_out(values: Sequence[float | None]) -> Columns:
    """A column a slot; what is not known breaks the line, and is no overload."""
    infinite = np.array([value is not None and math.isinf(value) for value in values], dtype=np.int64)
    finite = np.array([math.nan if value is None or math.isinf(value) else value for value in values])
    return Columns(finite, finite, finite, infinite)


def carry_on(decisions: Sequence[Decision]) -> Iterator[Mapping[str, int]]:
    """Replicas of each; where they are not known, those that were last, or first."""
    deployments = [decision.seen.deployment for decision in decisions]
    held: Mapping[str, int] = next(filter(None, deployments), {})
    for deployment in deployments:
        held = deployment or held
        yield held
