"""Figures 18, 27a and 27b: memory of value functions by representation; deep Q-learning by encoding and depth."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import comb

from sim.graphs import single
from sim.simulate import simulate
from tuner.lab.paper import ClaimCheck, PaperOutcome
from tuner.lab.published.figure_runs import NOT_RUN, RunJob, average_runs, make_taxi_setting
from tuner.lab.published.figures import FigureRequest
from tuner.lab.published.tables import POLICY_NAMES, WORKLOADS, run_jobs
from tuner.lab.study import Study

RATE_LEVELS = 30
FLOAT_BYTES = 8
MIB = 2**20
SIZES = (3, 6, 10)
LARGE_TABLE_MIB = 10.0  # "tens of megabytes" begin here
SMALL = 0.1  # of the table: what is at most that much stays small
LAYERS = (1, 2, 3)


def count_deployments(n_res: int, k_max: int) -> int:
    """Ways to place 1 to k_max replicas on n_res node types."""
    return comb(n_res + k_max, n_res) - 1


def tile_bytes(n_res: int, k_max: int, levels: int = RATE_LEVELS) -> int:
    """Two rectangular tilings over half the rate levels and one of stripes, for each set of node types."""
    masks = 2**n_res - 1
    return FLOAT_BYTES * (masks * (2 * (k_max + 1) * -(-levels // 2) + k_max + 1) + 2)


def encoding_lengths(n_res: int, k_max: int, levels: int = RATE_LEVELS) -> dict[str, int]:
    """Inputs of the four state encodings."""
    return {
        "minimal": n_res + 1,
        "reduced1": k_max * n_res + 1,
        "reduced2": k_max * n_res + levels,
        "large": count_deployments(n_res, k_max) + levels,
    }


def network_bytes(inputs: int, outputs: int, word: int = 4) -> int:
    """Weights and biases of three hidden layers, each three quarters of its input."""
    widths = [inputs]
    for _ in range(3):
        widths.append(max(1, int(0.75 * widths[-1] + 0.5)))
    widths.append(outputs)
    return word * sum((a + 1) * b for a, b in pairwise(widths))


def measure_representations(n_res: int, k_max: int) -> dict[str, int]:
    """Bytes of every representation for one size of problem; networks as for post-decision states, with one output."""
    states = count_deployments(n_res, k_max) * RATE_LEVELS
    return {
        "Q table": states * (2 * n_res + 1) * FLOAT_BYTES,
        "PDS table": states * FLOAT_BYTES,
        "tiles": tile_bytes(n_res, k_max),
        **{f"net {name}": network_bytes(n, 1) for name, n in encoding_lengths(n_res, k_max).items()},
    }


def figure_18(request: FigureRequest) -> PaperOutcome:
    """Memory of each representation of the value function, by number of node types.

    A table holds one float64 for every (deployment, rate level, action) or, on post-decision states, for every
    (deployment, rate level); a network its weights and biases. What a run over the trace really held stands beside it,
    since states never visited have no row.
    """
    rows: list[tuple[object, ...]] = []
    sizes = [(n, k) for k in (10, 20) for n in SIZES]
    for done, (n_res, k_max) in enumerate(sizes, 1):
        setting = make_taxi_setting(request.folder, "QL", "A", n_res)
        setting = replace(setting, application=single(WORKLOADS["taxi"].service_rate, k_max))
        held = [simulate(replace(setting, policy=POLICY_NAMES[p])).policy_bytes for p in ("QL", "QL+PDS")]
        in_mib = tuple(value / MIB for value in (*measure_representations(n_res, k_max).values(), *held))
        rows.append((n_res, k_max, count_deployments(n_res, k_max), *in_mib))
        request.on_share(done / len(sizes))
    names = (*measure_representations(3, 10), "QL held", "PDS held")
    columns = ("N_res", "K_max", "deployments", *(f"{name} MiB" for name in names))
    title = "Memory of the value function by representation; held: rows really visited"
    study = Study("fig18", title, columns, rows)
    return PaperOutcome("fig18", title, (), tuple(check_memory()), (), (study,))


def check_memory() -> list[ClaimCheck]:
    """At ten node types tables take tens of megabytes, and the paper's other representations stay small."""
    bytes_of = measure_representations(10, 10)
    table = bytes_of["PDS table"]
    shown = f"{table / MIB:.1f} MiB on post-decision states, {bytes_of['Q table'] / MIB:.0f} MiB with actions"
    found = [ClaimCheck("N_res 10", "tables grow to tens of megabytes", shown, table >= LARGE_TABLE_MIB * MIB)]
    for says, name in (("linear approximation stays small", "tiles"), ("deep stays small (Reduced2)", "net reduced2")):
        shown = f"{bytes_of[name] / MIB:.2f} MiB"
        found.append(
            ClaimCheck("N_res 10", f"{says}: a tenth of the smaller table", shown, bytes_of[name] <= SMALL * table)
        )
    return found


def figure_27b(request: FigureRequest) -> PaperOutcome:
    """Memory of the weights of a network by encoding, three hidden layers, one output for each action."""
    rows: list[tuple[object, ...]] = []
    claims = []
    for n_res in SIZES:
        kib = {n: network_bytes(i, 2 * n_res + 1) / 1024 for n, i in encoding_lengths(n_res, 10).items()}
        rows.append((n_res, *kib.values()))
        second = sorted(kib.values())[-2]
        shown = f"{kib['large']:.3g} KiB against {second:.3g} KiB"
        claims.append(
            ClaimCheck(f"N_res {n_res}", "Large takes by far the most (5 times)", shown, kib["large"] > 5 * second)
        )
    request.on_share(1.0)
    title = "Memory of DQL's weights by encoding, three hidden layers, K_max 10"
    study = Study("fig27b", title, ("N_res", *(f"{name} KiB" for name in encoding_lengths(3, 10))), rows)
    return PaperOutcome("fig27b", title, (), tuple(claims), (), (study,))


def figure_27a(request: FigureRequest) -> PaperOutcome:
    """The cost of DQL by encoding and number of hidden layers; deep cells all, and so on demand alone."""
    title = "DQL by encoding and hidden layers (taxi, A, K_max 10)"
    if not request.deep:
        return PaperOutcome("fig27a", title, (), (), (NOT_RUN.format("every cell of this figure"),))
    jobs = [
        RunJob(
            (n_res, encoding, layers),
            replace(
                make_taxi_setting(request.folder, "DQL", "A", n_res),
                options={"as_published": True, "encoding": encoding, "hidden_layers": layers},
            ),
            tuple(range(request.seeds)),
        )
        for n_res in SIZES
        for encoding in encoding_lengths(3, 10)
        for layers in LAYERS
        if encoding != "large" or n_res == min(SIZES)
    ]
    results = run_jobs(average_runs, jobs, request.on_share)
    costs = {job.label: float(result[0, 0]) for job, result in zip(jobs, results, strict=True)}
    study = Study("fig27a", title, ("N_res", "encoding", "layers", "cost"), [(*k, v) for k, v in costs.items()])
    return PaperOutcome("fig27a", title, (), tuple(check_encodings(costs)), (), (study,))


def check_encodings(costs: dict[tuple[object, ...], float]) -> list[ClaimCheck]:
    """The text's claims on encodings and layers."""

    def mean(place: int, value: object) -> float:
        chosen = [cost for label, cost in costs.items() if label[place] == value]
        return sum(chosen) / len(chosen)

    by_layers = {layers: mean(2, layers) for layers in LAYERS}
    at_three = {e: min(c for k, c in costs.items() if k[:2] == (3, e)) for e in encoding_lengths(3, 10)}
    spread = {
        e: max(c for k, c in costs.items() if k[1] == e) / min(c for k, c in costs.items() if k[1] == e)
        for e in encoding_lengths(3, 10)
        if e != "large"
    }
    return [
        ClaimCheck(
            "Figure 27a",
            "differences are small (the dearest within twice the cheapest)",
            f"{min(costs.values()):.4f} to {max(costs.values()):.4f}",
            max(costs.values()) <= 2.0 * min(costs.values()),
        ),
        ClaimCheck(
            "Figure 27a", "three layers are best", show(by_layers), min(by_layers, key=by_layers.__getitem__) == 3
        ),
        ClaimCheck("N_res 3", "Large is best", show(at_three), min(at_three, key=at_three.__getitem__) == "large"),
        ClaimCheck(
            "Figure 27a",
            "Reduced2 is the most consistent (dearest over cheapest)",
            show(spread),
            min(spread, key=spread.__getitem__) == "reduced2",
        ),
    ]


def show(costs: dict[object, float] | dict[int, float] | dict[str, float]) -> str:
    return ", ".join(f"{name} {cost:.4f}" for name, cost in costs.items())
