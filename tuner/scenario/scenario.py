"""Scenarios: read what to simulate from a TOML file, flags and defaults; settings, one per policy, and seeds.

Three layers of the same shape lie over each other: the defaults, the file, the flags. A layer that names another
application, trace, infrastructure or policy replaces that table; otherwise it replaces single keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scaler.model.change_budget import make_budget
from scaler.model.errors import BadInput, suggest
from scaler.model.kernel import lay_out
from scaler.model.micro_batches import MicroBatches
from scaler.model.policy import Kernel, build_policy, check_options
from scaler.model.task import parse_weights
from scaler.policies import find_any
from scaler.policies.coordinator import Coordinator, CoordinatorStart, start_coordinator
from sim.application import Application
from sim.arrivals import GENERATORS, generate
from sim.graphs import single
from sim.infrastructure import INFRASTRUCTURES, Infrastructure, find_infrastructure, parse_infrastructure
from sim.migration import parse_migration
from sim.replicas import Inertia
from sim.setting import Setting, tasks
from sim.toml_table import MOMENT, NUMBER, NUMBERS, TABLE, WHOLE, Kind, Table, check_table, read_toml
from sim.trace import EPOCH, Trace, window
from sim.trace_file import read_trace
from tuner.scenario.document import Document, make_application
from tuner.scenario.layout import DEFAULTS, KINDS, SOURCES, TWO_WEEKS, QoS, name_flag

DEEPER = ("options", "bounds", "paths")  # tables in tables, whose keys lie over each other one by one


@dataclass(frozen=True, slots=True)
class Scenario:
    """One setting per policy, each to be replayed with every seed; `document` states the same as a TOML file would."""

    name: str
    policies: tuple[str, ...]
    settings: tuple[Setting, ...]
    seeds: tuple[int, ...]
    document: Document


def read_scenario(path: Path | None = None, flags: Document | None = None) -> Scenario:
    """The scenario of a file, of flags over it, and of defaults under both."""
    if path is None:
        return build_scenario("scenario", {}, flags or {}, "")
    document = read_document(path)
    if not document:
        raise BadInput(
            f"{path} states nothing; leave it out for the defaults, or write one with: tuner demo --save FILE"
        )
    return build_scenario(path.stem, anchor(document, path.parent), flags or {}, str(path))


def build_scenario(name: str, stated: Document, flags: Document, source: str) -> Scenario:
    """The scenario of tables stated in `source`, of flags over them, and of defaults under both."""
    check_layer(flags, name_flag)
    places = {table: name_place(source, stated, flags, table) for table in KINDS}
    scenario = make_scenario(name, complete(stated, flags), places, source)
    return replace(scenario, document=anchor(scenario.document, Path.cwd()))


def complete(stated: Document, flags: Document) -> Document:
    """The tables with what nobody stated."""
    return fill(lay_over(lay_over(DEFAULTS, stated), flags))


def read_document(path: Path) -> Document:
    """A scenario file, its tables, keys and types checked."""
    document = read_toml(path)
    check_document(document, str(path))
    for table, keys in SOURCES.items():
        given = [key for key in keys if key in document.get(table, {})]
        if len(given) > 1:
            raise BadInput(f"{path}, [{table}] has {' and '.join(given)}, and must have one of {', '.join(keys)}")
    return document


def check_document(document: Document, place: str) -> None:
    """Refuse a table, a key or a type that no scenario has."""
    check_table(document, dict.fromkeys(KINDS, TABLE), lambda table: f"{place}, [{table}]")
    check_layer(document, lambda table, key: f"{place}, [{table}] {key}")


def check_layer(document: Document, place: Callable[[str, str], str]) -> None:
    for name, table in document.items():
        check_table(table, kinds_of(name, table), partial(place, name))


def anchor(document: Document, folder: Path) -> Document:
    """The document with its files' paths taken from the folder that it lies in."""
    return {
        name: {**table, "file": str((folder / table["file"]).resolve())} if "file" in table else table
        for name, table in document.items()
    }


def lay_over(lower: Document, upper: Document) -> Document:
    """The lower layer where the upper one says nothing."""
    laid = dict(lower)
    for name, table in upper.items():
        below = lower.get(name, {})
        if any(key in table and table[key] != below.get(key) for key in SOURCES.get(name, ())):
            below = {}
        deeper = {key: {**below[key], **table[key]} for key in DEEPER if key in below and key in table}
        laid[name] = {**below, **table, **deeper}
    return laid


def fill(document: Document) -> Document:
    """The document with what depends on its other keys: a generated trace's length and seed, a table's first types."""
    if INFRASTRUCTURES.keys() & {document["infrastructure"].get("name")}:
        document = {**document, "infrastructure": {"n_res": 3, **document["infrastructure"]}}
    trace = document["trace"]
    if trace.get("generator") not in GENERATORS:
        return document
    known = inspect.signature(GENERATORS[trace["generator"]]).parameters
    return {**document, "trace": {**{k: v for k, v in (("slots", TWO_WEEKS), ("seed", 0)) if k in known}, **trace}}


def name_place(source: str, stated: Document, flags: Document, table: str) -> str:
    """Where the user finds a table: in the file, by flags, or both."""
    given = " ".join(dict.fromkeys(name_flag(table, key) for key in flags.get(table, ())))
    return " with ".join(filter(None, (f"{source}, [{table}]" if table in stated else "", given)))


@contextmanager
def blame(place: str) -> Iterator[None]:
    """Put the place before what is wrong there."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{place}: {error}" if place else str(error)) from error


def make_scenario(name: str, document: Document, places: Mapping[str, str], whole: str) -> Scenario:
    """The settings of a checked document."""
    with blame(places["application"]):
        application = make_application(document["application"])
    with blame(places["trace"]):
        trace = make_trace(document["trace"])
        highest = take_highest(document["trace"])
    with blame(places["infrastructure"]):
        infrastructure = make_infrastructure(document["infrastructure"])
    with blame(places["weights"]):
        weights = parse_weights(document["weights"])
    with blame(places["qos"]):
        qos = make_qos(document["qos"])
    with blame(places["policy"]):
        options = spread_options(document["policy"])
    run = document["run"]
    with blame(places["run"]):
        seeds = take_seeds(run["seeds"])
        migration = parse_migration(run.get("migration", "none"))
        inertia = Inertia(**{"slot_s": trace.step_s, **{k: v for k, v in run.items() if k.endswith("_s")}})
    with blame(whole):
        settings = tuple(
            Setting(
                application=application,
                infrastructure=infrastructure,
                trace=trace,
                policy=policy,
                r_max=qos.r_max,
                bounds=document["qos"].get("bounds", {}),
                weights=weights,
                highest_rate=highest,
                levels=run["levels"],
                gamma=run["gamma"],
                options=given,
                first=read_first(document["infrastructure"].get("first")),
                one_at_a_time=run.get("one_at_a_time"),
                plant=run["plant"],
                inertia=inertia,
                path_bounds=qos.paths,
                quantile=qos.quantile,
                migration=migration,
                together=run.get("together", False),
                change_budget=make_budget(qos.eta_r) if run.get("budget", False) else None,
            )
            for policy, given in options.items()
        )
        for task in tasks(settings[0]):
            lay_out(task)
    return Scenario(name, tuple(options), settings, seeds, document)


def read_first(stated: str | Mapping[str, int] | None) -> Mapping[str, int]:
    """The first replicas by node type; of a type's name alone, one."""
    return {stated: 1} if isinstance(stated, str) else dict(stated or {})


def make_trace(table: Table) -> Trace:
    if "generator" in table:
        parameters = {k: v for k, v in table.items() if k not in ("generator", "highest_rate")}
        if "start" in parameters:
            parameters["start"] = take_moment(parameters["start"])
        return generate(table["generator"], **parameters)
    trace = read_trace(table["file"], table.get("step_s", 60.0), take_moment(table.get("start", EPOCH)))
    slots = table.get("slots", trace.rates.size)
    if not 1 <= slots <= trace.rates.size:
        raise BadInput(f"slots is {slots}, and must be from 1 to {trace.rates.size}, what the trace has")
    return window(trace, 0, slots)


def take_moment(value: date) -> datetime:
    """A date as its midnight; what names no offset is taken as UTC."""
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def take_highest(table: Table) -> float | None:
    highest: float | None = table.get("highest_rate")
    if highest is not None and not highest > 0.0:
        raise BadInput(f"highest_rate is {highest}, and must be positive")
    return highest


def make_qos(table: Table) -> QoS:
    return QoS(table["r_max"], table["eta_v"], table["eta_r"], table.get("paths", {}), table.get("quantile"))


def make_infrastructure(table: Table) -> Infrastructure:
    if "node" not in table:
        return find_infrastructure(table.get("name", table.get("file")), table.get("n_res"))
    inline = {key: table[key] for key in ("node", "normaliser_price") if key in table}
    found = parse_infrastructure({"name": "inline", **inline})
    n_res = table.get("n_res", len(found.types))
    if not 1 <= n_res <= len(found.types):
        raise BadInput(f"n_res is {n_res}, and must be from 1 to {len(found.types)}")
    return replace(found, types=found.types[:n_res])


def spread_options(table: Table) -> dict[str, dict[str, Any]]:
    """The policies, each with those of the options that it takes; one that none takes is refused."""
    names = table.get("names", [table.get("name")])
    if not names:
        raise BadInput("there is no policy to simulate; name at least one")
    kinds = {name: find_any(name) for name in names}
    options = table.get("options", {})
    if len(kinds) == 1:
        check_options(kinds[names[0]].title, kinds[names[0]].options, options)
    known = [option for kind in kinds.values() for option in kind.options]
    for option in options:
        if option not in known:
            near = suggest(option, known, "they take {}")
            raise BadInput(f"none of {', '.join(kinds)} has an option {option!r}; {near}")
    given = {name: {k: v for k, v in options.items() if k in kind.options} for name, kind in kinds.items()}
    for name, chosen in given.items():
        check_policy(kinds[name], chosen)
    return given


def take_seeds(seeds: int | list[int]) -> tuple[int, ...]:
    """The seeds named, or the first so many."""
    listed = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)
    if not listed:
        raise BadInput("there are no seeds, and must be at least one")
    if min(listed) < 0 or len(set(listed)) < len(listed):
        raise BadInput(f"the seeds are {', '.join(map(str, listed))}, and must be 0 or more and differ from each other")
    return listed


ANNOTATED = {"float": NUMBER, "int": WHOLE, "Sequence[float]": NUMBERS, "datetime": MOMENT}  # generators' parameters


def kinds_of(name: str, table: Table) -> dict[str, Kind]:
    """The keys of a table; a trace also has its generator's parameters, whichever it is in the end."""
    if name != "trace" or "file" in table:
        return KINDS[name]
    makers = [GENERATORS[table["generator"]]] if table.get("generator") in GENERATORS else [*GENERATORS.values()]
    known = {p.name: ANNOTATED[p.annotation] for make in makers for p in inspect.signature(make).parameters.values()}
    common = {key: KINDS["trace"][key] for key in ("generator", "highest_rate", "slots")}
    return {**common, **known} if "generator" in table else {**KINDS["trace"], **known}


def make_toy(policy: str = "static", plant: str = "memoryless") -> Setting:
    """Three slots of one operator on two node types."""
    trace = Trace(np.array([50.0, 150.0, 50.0]), name="toy")
    application = on_plant(single(100.0, k_max=2), plant)
    return Setting(application, find_infrastructure("A", 2), trace, policy, 0.05, levels=3, plant=plant)


def on_plant(application: Application, plant: str) -> Application:
    """The application, in micro-batches where the plant is of these."""
    if plant != "batches":
        return application
    return replace(application, operators=tuple(replace(o, batches=MicroBatches()) for o in application.operators))


def check_policy(kind: Kernel | Coordinator, options: Mapping[str, Any]) -> None:
    """Refuse an option's value that the policy cannot be built with."""
    if not options:
        return
    task = tasks(make_toy())[0]
    try:
        if isinstance(kind, Coordinator):
            start_coordinator(kind, CoordinatorStart((task,), (), (1.0,), task.bound, 0, options))
        else:
            build_policy(kind, task, 0, options)
    except BadInput:
        raise
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{name} = {value!r}" for name, value in options.items())
        raise BadInput(f"{kind.title} cannot be made with {given}: {error}") from error
