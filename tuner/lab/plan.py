"""Plan of a policy benchmark: cells by name, policies with options, seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from scaler.model.errors import BadInput
from scaler.model.kernel import lay_out
from scaler.model.task import WEIGHTS, Weights, parse_weights
from sim.infrastructure import Infrastructure
from sim.replicas import Inertia
from sim.setting import Setting, tasks
from sim.toml_table import (
    NUMBER,
    SHARES,
    TABLE,
    TABLES,
    TEXT,
    TEXTS,
    WHOLE,
    WHOLES,
    Kind,
    Table,
    check_table,
    read_toml,
)
from sim.trace import Trace
from tuner.lab.shifts import ShiftedWorld, apply_shift
from tuner.scenario.document import make_application
from tuner.scenario.layout import DEFAULTS, SOURCES
from tuner.scenario.scenario import (
    anchor,
    blame,
    fill,
    kinds_of,
    lay_over,
    make_infrastructure,
    make_trace,
    spread_options,
    take_highest,
    take_seeds,
)

Options = Mapping[str, Mapping[str, Any]]  # of each policy


@dataclass(frozen=True, slots=True)
class PublishedBest:
    """The cheapest row that was published for a cell."""

    policy: str
    cost: float


@dataclass(frozen=True, slots=True)
class BenchmarkCell:
    """One world in which every policy is replayed."""

    workload: str
    application: str
    infrastructure: str
    n_res: int
    k_max: str  # a range where operators differ
    world: ShiftedWorld
    published: PublishedBest | None = None

    @property
    def group(self) -> str:
        """The workload, and what meets it where that says more."""
        return self.workload if self.application == "single" else f"{self.workload}, {self.application}"

    @property
    def size(self) -> str:
        return f"{self.infrastructure} N{self.n_res} K{self.k_max}"

    @property
    def name(self) -> str:
        return f"{self.group} {self.size}"


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """Every cell with every policy and every seed."""

    name: str
    cells: tuple[BenchmarkCell, ...]
    policies: Options
    seeds: tuple[int, ...]
    shift: str | None = None


def make_cell(
    workload: str, infrastructure: str, setting: Setting, shift: str | None, published: PublishedBest | None = None
) -> BenchmarkCell:
    """A setting, changed half-way if asked for, as a cell; refused here if it cannot be laid out for kernels."""
    for task in tasks(setting):
        lay_out(task)
    most = sorted({operator.k_max for operator in setting.application.operators})
    return BenchmarkCell(
        workload=workload,
        application=setting.application.name,
        infrastructure=infrastructure,
        n_res=len(setting.infrastructure.types),
        k_max="-".join(map(str, dict.fromkeys((most[0], most[-1])))),
        world=ShiftedWorld(setting) if shift is None else apply_shift(shift, setting),
        published=published,
    )


PLAN: dict[str, tuple[Kind, Any]] = {  # kind and default of each key
    "name": (TEXT, None),  # the file's
    "workload": (TABLES, []),
    "application": (TABLES, [{}]),
    "infrastructures": (TEXTS, [DEFAULTS["infrastructure"]["name"]]),
    "n_res": (WHOLES, None),  # as many as a scenario takes
    "k_max": (WHOLES, None),  # the application's own
    "policies": (TEXTS, DEFAULTS["policy"]["names"]),
    "options": (TABLE, {}),
    "seeds": (WHOLES, DEFAULTS["run"]["seeds"]),
    "r_max": (NUMBER, DEFAULTS["qos"]["r_max"]),
    "weights": (SHARES, DEFAULTS["weights"]),
    "plant": (TEXT, DEFAULTS["run"]["plant"]),
    "levels": (WHOLE, DEFAULTS["run"]["levels"]),
    "gamma": (NUMBER, DEFAULTS["run"]["gamma"]),
}
WORKLOAD: dict[str, Kind] = {"name": TEXT, "trace": TABLE, "application": TABLE}
LISTS = ("infrastructures", "n_res", "k_max")
FLAGS = {
    "policies": "--policy",
    "options": "--option",
    "seeds": "--seeds",
    "n_res": "--n-res",
    "k_max": "--k-max",
}


@dataclass(frozen=True, slots=True)
class Load:
    """A workload made: its arrivals, the tables of the applications that they meet, and where those stand."""

    name: str
    trace: Trace
    highest_rate: float | None
    applications: tuple[Table, ...]
    stated_in: str


def read_plan(path: Path, flags: Table | None = None, shift: str | None = None) -> BenchmarkPlan:
    """The plan of a file, with flags over it and defaults under it."""
    flags = flags or {}
    document = read_toml(path)
    if isinstance(document.get("application"), Mapping):
        raise BadInput(f"{path} is a scenario, which `tuner simulate` replays; a plan names applications and policies")
    check_table(document, {key: kind for key, (kind, _) in PLAN.items()}, lambda key: f"{path}, {key}")
    table = {**{key: default for key, (_, default) in PLAN.items()}, **document, **flags}

    def place(key: str) -> str:
        return FLAGS[key] if key in flags else f"{path}, {key}"

    for key in ("policies", *LISTS):
        check_differ(as_list(table[key]), place(key))
    with blame(name_policy_flags(flags) or place("policies")):
        policies = spread_options({"names": table["policies"], "options": table["options"]})
    with blame(place("seeds")):
        seeds = take_seeds(table["seeds"])
    with blame(place("weights")):
        common: dict[str, Any] = {"weights": check_plan_weights(table["weights"]), "policy": next(iter(policies))}
    common |= {key: table[key] for key in ("r_max", "levels", "gamma", "plant")}
    loads = [make_load(workload, table["application"], path) for workload in read_workloads(table["workload"], path)]
    cells = []
    for load, name, n_res, k_max in product(loads, *(as_list(table[key]) for key in LISTS)):
        with blame(place("infrastructures" if n_res is None else "n_res")):
            nodes = find_nodes(name, n_res, path.parent)
        for stated in load.applications:
            with blame(load.stated_in if k_max is None else f"{place('k_max')} with {load.stated_in}"):
                application = make_application(stated if k_max is None else {**stated, "k_max": k_max})
            with blame(str(path)):
                setting = Setting(
                    application=application,
                    infrastructure=nodes,
                    trace=load.trace,
                    highest_rate=load.highest_rate,
                    inertia=Inertia(slot_s=load.trace.step_s),
                    **common,
                )
                cells.append(make_cell(load.name, Path(name).stem if is_file(name) else name, setting, shift))
    check_differ([cell.name for cell in cells], str(path))
    return BenchmarkPlan(table["name"] or path.stem, tuple(cells), policies, seeds, shift)


def name_policy_flags(flags: Table) -> str:
    return " ".join(FLAGS[key] for key in ("policies", "options") if key in flags)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def check_differ(values: Sequence[Any], place: str) -> None:
    """Refuse a list that is empty or names something twice."""
    if not values:
        raise BadInput(f"{place} is empty, and must name at least one")
    for value in values:
        if values.count(value) > 1:
            raise BadInput(f"{place}: {value} is there twice, and may be there once")


def check_plan_weights(table: Mapping[str, float]) -> Weights:
    if table.keys() != set(WEIGHTS):
        raise BadInput(f"there are weights for {', '.join(table) or 'nothing'}, and must be for perf, rcf and res")
    return parse_weights(table)


def read_workloads(listed: list[Table], path: Path) -> list[Table]:
    """The workloads, their keys checked and their names different."""
    if not listed:
        raise BadInput(f"{path} has no workload; head at least one with [[workload]]")
    for i, workload in enumerate(listed, 1):
        where = name_workload(path, workload.get("name", i))
        check_table(workload, WORKLOAD, lambda key, where=where: f"{where}, {key}")  # type: ignore[misc]
        for key in ("name", "trace"):
            if key not in workload:
                raise BadInput(f"{where} has no {key}, and must have one")
    check_differ([workload["name"] for workload in listed], f"{path}, [[workload]] name")
    return listed


def name_workload(path: Path, workload: object) -> str:
    return f"{path}, [[workload]] {workload}"


def make_load(workload: Table, applications: Sequence[Table], path: Path) -> Load:
    """A workload with its trace read; an application of its own stands for those of the plan."""
    where = name_workload(path, workload["name"])
    own = "application" in workload
    stated_in = f"{where if own else path}, application"
    stated = [workload["application"]] if own else applications
    trace = complete("trace", workload["trace"], path, f"{where}, trace")
    with blame(where):
        return Load(
            workload["name"],
            make_trace(fill({"trace": trace, "infrastructure": {}})["trace"]),
            take_highest(trace),
            tuple(complete("application", one, path, stated_in) for one in stated),
            stated_in,
        )


def complete(name: str, table: Table, path: Path, place: str) -> Table:
    """A scenario's table of this name: checked, its file looked for beside the plan, defaults under it."""
    check_table(table, kinds_of(name, table), lambda key: f"{place} {key}")
    given = [key for key in SOURCES[name] if key in table]
    if len(given) > 1:
        raise BadInput(f"{place} has {' and '.join(given)}, and must have one of {', '.join(SOURCES[name])}")
    return lay_over({name: DEFAULTS[name]}, anchor({name: table}, path.parent))[name]


def find_nodes(name: str, n_res: int | None, folder: Path) -> Infrastructure:
    """The first so many types of an infrastructure: a built-in one, or a file beside the plan."""
    table = {"file": str(folder / name)} if is_file(name) else {"name": name}
    sized = table if n_res is None else {**table, "n_res": n_res}
    return make_infrastructure(fill({"infrastructure": sized, "trace": {}})["infrastructure"])


def is_file(name: str) -> bool:
    return name.lower().endswith(".toml")
