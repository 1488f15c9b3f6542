"""Experience that a policy begins with: what it learned from an application's history, as one bounded document.

    {"format": 1, "policy": "planner", "slots": 20160, "slot_s": 60.0, "since": 1.7e9, "until": 1.701e9,
     "nodes": [{"name": "small", "speedup": 1.0, "price": 1.0}], "k_max": 20, "highest_rate": 900.0,
     "one_at_a_time": false, "task": "5f1c0a...", "arrays": "eNqtV..."}

`arrays` are arrays by dotted name: a line of JSON with their types and shapes, then their bytes, packed by zlib, in
base64. What is unpacked is checked against its CRC-32 and the stated shapes, and nothing of it is ever executed.
`task` tells the tasks apart that it was learned under: under the same one it is taken as it is, under another it is
inherited, as after a push. This is the only place that writes or reads the document. It comes from elsewhere, so that
every size that it states is bounded before anything of that size is made.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType, parse_node_type
from scaler.model.policy import Arrays, Policy, Start
from scaler.model.task import Task
from scaler.model.units import format_duration

FORMAT = 1
MAX_BYTES = 256 << 10  # of the packed arrays as text: one operator's
MAX_UNPACKED = 16 << 20  # bytes: three types and twenty replicas take 9 MB where one replica changes at a time
MAX_HEAD = 64 << 10  # bytes of the line that lists the arrays
MAX_DIMENSIONS = 4  # of an array
MAX_SLOTS = 1 << 31
MAX_TYPES = 64  # of nodes
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
    """The document of what a policy learned; None where that is nothing, or none of it is small enough.

    Evidence that was seen seldom is left out until the rest is within the limit, in characters.
    """
    slots, task = policy.count_slots(), policy.task
    packed = pack_within(policy, min(limit, MAX_BYTES)) if slots else None
    if packed is None:
        return None
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
        since, slots, nodes = document.get("since"), document["slots"], document["nodes"]
        check_stated(slots, nodes)
        found = Experience(
            policy=str(document["policy"]),
            slots=slots,
            slot_s=float(document["slot_s"]),
            since=None if since is None else float(since),
            nodes=tuple(map(parse_node_type, nodes)),
            k_max=int(document["k_max"]),
            highest_rate=float(document["highest_rate"]),
            one_at_a_time=bool(document["one_at_a_time"]),
            task=str(document["task"]),
            arrays=unpack(packed),
        )
        if not found.slot_s > 0.0 or not math.isfinite(found.seconds) or not math.isfinite(found.until or 0.0):
            raise BadInput("its slots have no length, or no end")
    except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
        refuse_damaged(error)
    return found


def check_stated(slots: Any, nodes: Any) -> None:
    """Refuse counts that no history has, before anything is made of them."""
    if type(slots) is not int or not 1 <= slots <= MAX_SLOTS:
        raise BadInput(f"its slots are {slots!r:.40}, and must be a whole number from 1 to {MAX_SLOTS:,}")
    if not isinstance(nodes, list | tuple) or not 1 <= len(nodes) <= MAX_TYPES:
        raise BadInput(f"its nodes must be a list of 1 to {MAX_TYPES} node types")


def refuse_damaged(error: Exception) -> NoReturn:
    why = str(error) if isinstance(error, BadInput) else repr(error)
    raise BadInput(f"it is damaged ({why:.200})") from error


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
        check_count(experience.slots, shared.count(before))
        state = before if same else policy.kernel.inherit(task, policy.state, earlier, before)  # type: ignore[misc]
        if own is not None and own.kernel is policy.kernel:
            state = shared.prefer(task, state, own.task, own.state)
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        refuse_damaged(error)
    policy.state = state


def check_count(stated: int, learned: int) -> None:
    """Refuse slots that nobody learned: who began with them would go on having learned less than is offered."""
    if stated != learned or learned > MAX_SLOTS:
        raise BadInput(f"its slots are {stated:,}, and its arrays were learned from {learned:,}")


def pack_within(policy: Policy, limit: int) -> str | None:
    """What a policy shares, as text of at most so many characters, without what was seen too seldom for that."""
    shared = policy.kernel.shared
    if shared is None:
        return None
    for thinning in range(MAX_THINNING):
        arrays = shared.share(policy.state, thinning)
        if sum(value.nbytes for value in arrays.values()) > MAX_UNPACKED - MAX_HEAD:
            return None
        packed = pack(arrays)
        if len(packed) <= limit:
            return packed
    return None


def pack(arrays: Arrays) -> str:
    """Arrays as text."""
    plain = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    heads = {name: [value.dtype.str, list(value.shape)] for name, value in plain.items()}
    body = b"".join(value.tobytes() for value in plain.values())
    whole = json.dumps(heads, separators=(",", ":")).encode() + b"\n" + body
    return base64.b64encode(zlib.crc32(whole).to_bytes(4, "big") + zlib.compress(whole, LEVEL)).decode()


def unpack(text: str) -> Arrays:
    """The arrays of a text; ValueError where they are not whole, or too large."""
    head, body = split_head(decompress(base64.b64decode(text, validate=True)))
    arrays: Arrays = {}
    place = 0
    for name, (kind, shape) in json.loads(head).items():
        if kind not in KINDS:
            raise BadInput(f"array {name!r:.60} is of kind {kind!r:.20}")
        size = count_values(name, shape) * np.dtype(kind).itemsize
        piece = body[place : place + size]
        arrays[str(name)] = np.frombuffer(piece, kind).reshape(shape).copy()
        place += size
    if place != len(body):
        raise BadInput("the arrays are not whole")
    return arrays


def decompress(content: bytes) -> bytes:
    """What zlib packed behind a CRC-32 of it."""
    unpacker = zlib.decompressobj()
    try:
        whole = unpacker.decompress(content[4:], MAX_UNPACKED)
    except zlib.error as error:
        raise BadInput(f"the arrays cannot be unpacked: {error}") from error
    if unpacker.unconsumed_tail:
        raise BadInput(f"the arrays take more than {MAX_UNPACKED:,} bytes")
    if not unpacker.eof or unpacker.unused_data or zlib.crc32(whole).to_bytes(4, "big") != content[:4]:
        raise BadInput("the arrays are not whole")
    return whole


def split_head(whole: bytes) -> tuple[bytes, bytes]:
    """The line that lists the arrays, and their bytes."""
    end = whole.find(b"\n", 0, MAX_HEAD + 1)
    if end < 0:
        raise BadInput(f"the list of the arrays does not end within {MAX_HEAD:,} bytes")
    return whole[:end], whole[end + 1 :]


def count_values(name: str, shape: Any) -> int:
    """How many values an array of this shape holds; no product grows beyond what may be unpacked."""
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
        raise BadInput(f"array {name!r:.60} has no shape of at most {MAX_DIMENSIONS} dimensions")
    count = 1
    for size in shape:
        if type(size) is not int or not 0 <= size <= MAX_UNPACKED or count * size > MAX_UNPACKED:
            raise BadInput(f"array {name!r:.60} has a dimension below 0, or more values than may be unpacked")
        count *= size
    return count
