"""Experience that a policy begins with: what it learned from an application's history, as one bounded document.

    {"format": 1, "policy": "planner", "slots": 20160, "slot_s": 60.0, "since": 1.7e9, "until": 1.701e9,
     "nodes": [{"name": "small", "speedup": 1.0, "price": 1.0}], "k_max": 20, "highest_rate": 900.0,
     "one_at_a_time": false, "task": "5f1c0a...", "arrays": "eNqtV..."}

`arrays` are arrays by dotted name: a line of JSON with their types and shapes, then their bytes, packed by zlib, in
base64. What is unpacked is checked against its CRC-32 and the stated shapes, and nothing of it is ever executed.
`task` tells the tasks apart that it was learned under: under the same one it is taken as it is, under another it is
inherited, as after a push. This is the only place that writes or reads the document.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType, parse_node_type
from scaler.model.policy import Arrays, Policy, Start
from scaler.model.task import Task
from scaler.model.units import format_duration

FORMAT = 1
MAX_BYTES = 256 << 10  # of the packed arrays as text: one operator's
MAX_UNPACKED = 64 << 20
MAX_THINNING = 30  # halvings of how much evidence is left out, until the rest fits
KINDS = ("<f8", "<i8", "<i4", "|i1")  # of arrays
LEVEL = 6  # of zlib
SAME_SLOT = 1e-6  # relative difference of two slots' lengths that is none


@dataclass(frozen=True, slots=True, eq=False)
class Experience:
    """What a policy learned of one operator, and from which history."""

    policy: str
    slots: int
    slot_s: float
    since: float | None  # seconds since 1970, of the history; None: it has no date
    nodes: tuple[NodeType, ...]  # of the task that it was learned under, in its order
    k_max: int
    highest_rate: float
    one_at_a_time: bool
    task: str  # digest of that task
    arrays: Arrays

    @property
    def seconds(self) -> float:
        return self.slots * self.slot_s

    @property
    def until(self) -> float | None:
        return None if self.since is None else self.since + self.seconds

    def place(self, task: Task) -> Task:
        """The task that the arrays are of, for a policy that is asked about this one."""
        return replace(
            task, types=self.nodes, k_min=1, k_max=self.k_max, highest_rate=self.highest_rate, normaliser=None,
            one_at_a_time=self.one_at_a_time,
        )  # fmt: skip


def digest_task(task: Task) -> str:
    """A digest that tells tasks apart by all that a policy plans with."""
    return hashlib.sha256(repr(replace(task, normaliser=task.dearest)).encode()).hexdigest()[:32]


def share_experience(
    policy: Policy, name: str, slot_s: float, since: float | None = None, limit: int = MAX_BYTES
) -> dict[str, Any] | None:
    """The document of what a policy learned; None where its kind shares nothing, or nothing of it is small enough.

    Evidence that was seen seldom is left out until the rest is within the limit, in characters.
    """
    shared = policy.kernel.shared
    if shared is None:
        return None
    for thinning in range(MAX_THINNING):
        packed = pack(shared.share(policy.state, thinning))
        if len(packed) <= min(limit, MAX_BYTES):
            break
    else:
        return None
    slots, task = shared.count(policy.state), policy.task
    return {
        "format": FORMAT,
        "policy": name,
        "slots": slots,
        "slot_s": slot_s,
        "since": since,
        "until": None if since is None else since + slots * slot_s,
        "nodes": [node.to_json() for node in task.types],
        "k_max": task.k_max,
        "highest_rate": task.highest_rate,
        "one_at_a_time": task.one_at_a_time,
        "task": digest_task(task),
        "arrays": packed,
    }


def parse_experience(document: Any) -> Experience:
    """The experience, or BadInput with one clear reason."""
    stated = document.get("format") if isinstance(document, Mapping) else None
    if stated != FORMAT:
        raise BadInput(f"it is of format {stated!r:.40}, and this agent reads format {FORMAT}")
    packed = document.get("arrays")
    if not isinstance(packed, str):
        raise BadInput("it is damaged (it holds no arrays)")
    if len(packed) > MAX_BYTES:
        raise BadInput(f"it takes {len(packed):,} bytes, and may take {MAX_BYTES:,}")
    try:
        since = document.get("since")
        found = Experience(
            policy=str(document["policy"]),
            slots=int(document["slots"]),
            slot_s=float(document["slot_s"]),
            since=None if since is None else float(since),
            nodes=tuple(map(parse_node_type, document["nodes"])),
            k_max=int(document["k_max"]),
            highest_rate=float(document["highest_rate"]),
            one_at_a_time=bool(document["one_at_a_time"]),
            task=str(document["task"]),
            arrays=unpack(packed),
        )
        if found.slots < 0 or not 0.0 < found.slot_s < math.inf or not math.isfinite(found.since or 0.0):
            raise ValueError("slots without a length")
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise BadInput(f"it is damaged ({error!r:.200})") from error
    return found


def check_slot(experience: Experience, policy: str, slot_s: float) -> None:
    """Refuse what another policy learned, or from slots of another length."""
    if experience.policy != policy:
        raise BadInput(f"it is of policy {experience.policy!r:.60}, and {policy!r} decides")
    if abs(experience.slot_s - slot_s) > SAME_SLOT * slot_s:
        theirs, own = format_duration(experience.slot_s), format_duration(slot_s)
        raise BadInput(f"it was learned from slots of {theirs}, and this agent decides every {own}")


def adopt_experience(policy: Policy, experience: Experience, own: Policy | None = None) -> None:
    """Let a new policy begin with an experience; service times that `own` saw itself count more.

    BadInput where it does not fit; the policy is as it was then.
    """
    shared, task = policy.kernel.shared, policy.task
    if shared is None:
        raise BadInput("the policy has no use for it")
    if experience.one_at_a_time != task.one_at_a_time:
        raise BadInput("it was learned where changes are of another size")
    try:
        same = digest_task(task) == experience.task
        earlier = task if same else experience.place(task)
        shared.check_size(earlier)
        before = shared.restore(policy.kernel.prepare(Start(earlier, earlier)), earlier, experience.arrays)
        state = before if same else policy.kernel.inherit(task, policy.state, earlier, before)  # type: ignore[misc]
        if own is not None and own.kernel is policy.kernel:
            state = shared.prefer(task, state, own.task, own.state)
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        raise BadInput(f"it is damaged ({error!r:.200})") from error
    policy.state = state


def pack(arrays: Arrays) -> str:
    """Arrays as text."""
    plain = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    heads = {name: [value.dtype.str, list(value.shape)] for name, value in plain.items()}
    body = b"".join(value.tobytes() for value in plain.values())
    whole = json.dumps(heads, separators=(",", ":")).encode() + b"\n" + body
    return base64.b64encode(zlib.crc32(whole).to_bytes(4, "big") + zlib.compress(whole, LEVEL)).decode()


def unpack(text: str) -> Arrays:
    """The arrays of a text; ValueError where they are not whole."""
    content = base64.b64decode(text, validate=True)
    unpacker = zlib.decompressobj()
    try:
        whole = unpacker.decompress(content[4:], MAX_UNPACKED)
    except zlib.error as error:
        raise ValueError(f"the arrays cannot be unpacked: {error}") from error
    if not unpacker.eof or unpacker.unused_data or zlib.crc32(whole).to_bytes(4, "big") != content[:4]:
        raise ValueError("the arrays are not whole")
    head, _, body = whole.partition(b"\n")
    arrays: Arrays = {}
    place = 0
    for name, (kind, shape) in json.loads(head).items():
        if kind not in KINDS or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise ValueError(f"array {name!r:.60} is of kind {kind!r:.20}")
        size = math.prod(shape) * np.dtype(kind).itemsize
        piece = body[place : place + size]
        arrays[str(name)] = np.frombuffer(piece, kind).reshape(shape).copy()
        place += size
    if place != len(body):
        raise ValueError("the arrays are not whole")
    return arrays
