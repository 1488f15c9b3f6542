"""A session, an application's name and a manager or a file in; scalers at work beside its streams out.

live = scaler.attach(spark, app="orders", manager="https://manager:8443", token=token, pinned=[parse, count],
                     enforce=True)
...
live.detach()                                   # or: with scaler.attach(...) as live:
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from scaler.acting.actuator import Actuator
from scaler.acting.dry_run import DryRun
from scaler.acting.executors import Executors
from scaler.acting.gateway import Gateway
from scaler.acting.profiles import Pinned
from scaler.agent.attachment import SLOT_S, AgentSettings, Attachment, OnDecision
from scaler.agent.checkpoint_mirror import CheckpointMirror
from scaler.agent.order_source import OrdersFile
from scaler.agent.pending import ArrivalTimeouts
from scaler.link import Link
from scaler.model.errors import BadInput
from scaler.model.nodes import NodeType
from scaler.sensing.driver import Driver
from scaler.sensing.evidence import SparkSensor
from scaler.sensing.operators import PinnedOperators, StreamOperator, find_operators

LOG = logging.getLogger("scaler.agent")
ATTACHED: WeakValueDictionary[str, Attachment] = WeakValueDictionary()  # by application


def attach(
    spark: Any,
    app: str,
    manager: str | None = None,
    objective: str | Path | None = None,
    *,
    token: str | None = None,
    policy: str | None = None,  # instead of the objective's
    pinned: Sequence[Pinned] = (),  # what `scaler.pin` made of the operators
    nodes: Sequence[NodeType] | None = None,  # None: the types of `pinned`, at the objective's speeds and prices
    actuator: Actuator | None = None,  # None: executors by resource profile
    master_page: str | None = None,  # URL of a standalone master's page, to know whether a worker has room
    timers: Mapping[str, Any] | None = None,  # ServiceTimers by operator
    enforce: bool = False,  # False: decide and record, change nothing
    folder: str | Path | None = None,  # for what is learned and is yet to be sent; None: beside the stream's checkpoint
    slot_s: float = SLOT_S,  # until orders tell
    k_max: int | None = None,  # replicas of one operator, whatever the objective allows
    seed: int = 0,
    authority: str | Path | None = None,  # certificates to trust
    patience: ArrivalTimeouts | None = None,
    on_decision: OnDecision | None = None,
    clock: Callable[[], float] = time.time,
) -> Attachment:
    """Attach scalers to the streams of this driver; BadInput where what is stated cannot be meant."""
    if (manager is None) == (objective is None):
        raise BadInput("attach needs either the address of a manager or the file of an objective; give one of them")
    check(slot_s, k_max)
    known = name_nodes(pinned, nodes)
    actuator = check_actuator(actuator or choose_actuator(spark, pinned, master_page), enforce)
    place = make_folder(app, folder)
    office: Link | OrdersFile | None = None
    if objective is not None:
        office = OrdersFile(Path(objective), app, slot_s, place / "decisions.jsonl")
    whose = f"{getattr(getattr(spark, 'sparkContext', None), 'applicationId', '')}/{app}"
    detach_earlier(whose)  # now that all that is stated can be meant, and before their folder is opened anew
    if office is None:
        operators = [one.operator for one in pinned]
        trusted = None if authority is None else Path(authority)
        office = Link(str(manager), app, operators, token, place / "link", name_instance(), clock, authority=trusted)
    types = {one.operator: set(one.types) for one in pinned}
    copies = partial(CheckpointMirror, Driver(spark)) if folder is None else None
    terms = AgentSettings(known, types, enforce, policy, k_max, seed, slot_s, place, patience, on_decision, copies)
    roll = PinnedOperators(pinned)

    def find() -> Sequence[StreamOperator]:
        running = find_operators(spark)
        return roll.call(running) if pinned else running

    ATTACHED[whose] = attached = Attachment(terms, listen(spark, timers), actuator, office, find, clock)
    return attached


def name_nodes(pinned: Sequence[Pinned], nodes: Sequence[NodeType] | None) -> tuple[NodeType, ...]:
    """All types that operators may be on; of those that nobody describes speed and price are the objective's."""
    names = list(dict.fromkeys(name for one in pinned for name in one.types))
    known = tuple(nodes) if nodes is not None else tuple(NodeType(name, 1.0, 1.0) for name in names)
    if not known:
        raise BadInput("attach does not know the node types; hand over what scaler.pin made, or nodes=[NodeType(...)]")
    strange = [name for name in names if name not in {node.name for node in known}]
    if strange:
        raise BadInput(
            f"an operator is pinned to {', '.join(strange)}, and nodes= leaves that out; say its speed there"
        )
    return known


def choose_actuator(spark: Any, pinned: Sequence[Pinned], master_page: str | None) -> Actuator:
    return Executors(Gateway(spark), pinned, master_page) if pinned else DryRun()


def check_actuator(actuator: Actuator, enforce: bool) -> Actuator:
    if enforce and isinstance(actuator, DryRun):
        raise BadInput("attach cannot enforce anything without an actuator; hand over pinned=[...] or actuator=...")
    if enforce and not getattr(actuator, "tells", True):
        raise BadInput("the actuator cannot tell how many replicas there are; give its Command deployed=[...], too")
    return actuator


def make_folder(app: str, folder: str | Path | None) -> Path:
    try:
        place = Path(folder) if folder is not None else find_folder(app)
        place.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise BadInput(f"attach has no folder for what it is to remember ({error}); name one with folder=") from error
    return place


def listen(spark: Any, timers: Mapping[str, Any] | None) -> SparkSensor:
    try:
        return SparkSensor(spark, timers=timers)
    except BadInput:
        raise
    except Exception as error:  # py4j's own, in a session that was stopped
        said = str(error).strip().partition("\n")[0][:300]
        raise BadInput(f"this session's streams cannot be listened to ({said}); attach to one that runs") from error


def detach_earlier(whose: str) -> None:
    """A cell of a notebook that is run twice must not leave two that undo what the other did."""
    before = ATTACHED.get(whose)
    if before is not None and not before.ended.is_set():
        LOG.warning("scalers were attached to %s before; they are detached, and new ones take over", whose)
        before.detach()


def check(slot_s: float, k_max: int | None) -> None:
    if not 0.0 < slot_s < math.inf:
        raise BadInput(f"slot_s is {slot_s}, and must be a positive number of seconds")
    if k_max is not None and not k_max >= 1:
        raise BadInput(f"k_max is {k_max}; say 1 or more, or None for as many replicas as the objective allows")


def find_folder(app: str) -> Path:
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return home / "stream-scaler" / "scalers" / quote(app, safe="")


def name_instance() -> str:
    return f"{socket.gethostname()}-{os.getpid()}"
