"""Attach agents to the streaming queries of a Spark driver.

live = scaler.attach(spark, app="orders", url="https://manager:8443", token=token, pinned=[parse, count], enforce=True)
...
live.detach()                                   # or: with scaler.attach(...) as live:
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from weakref import WeakValueDictionary

from scaler.acting.actuator import Actuator, NoActuator
from scaler.acting.executors import Executors
from scaler.acting.gateway import Gateway
from scaler.acting.profiles import Pinned
from scaler.agent.attachment import AgentSettings, Attachment, AttachSettings
from scaler.agent.checkpoint_file import CheckpointMirror
from scaler.agent.order_source import OrdersFile, OrderSource
from scaler.link import Link, LinkSettings
from scaler.model.errors import BadInput
from scaler.model.files import OWNER_FOLDER
from scaler.model.nodes import ONE_TYPE, NodeType
from scaler.sensing.driver import Driver, PinnedOperators, StreamOperator, find_operators
from scaler.sensing.spark_sensor import SparkSensor
from scaler.timing import ServiceTimer

LOG = logging.getLogger("scaler.agent")
ATTACHED: WeakValueDictionary[str, Attachment] = WeakValueDictionary()  # by application


def attach(
    spark: Any,
    app: str,
    url: str | None = None,
    token: str | Path | None = None,
    orders: str | Path | None = None,
    pinned: Sequence[Pinned] = (),
    enforce: bool = False,
    settings: AttachSettings | None = None,
) -> Attachment:
    """Scale the streaming queries of this driver, each operator by an agent on a thread of its own.

    Args:
        spark: the session of a classic driver (not Spark Connect).
        app: the application's name at the manager.
        url: the manager's address; None with `orders`.
        token: of scope `report`, or the Path of a file that holds it, which is read again when it changes: so a
            token rotates under running agents (`tuner token rotate NAME --file FILE`).
        orders: a file with an objective or whole orders, which takes the place of a manager.
        pinned: what `scaler.pin` returned for each operator.
        enforce: False decides and records, and changes nothing.
        settings: everything else.

    Returns:
        The attachment; its `detach` leaves the cluster as it stands.

    Raises:
        BadInput: where the arguments contradict each other or this session.
    """
    settings = settings or AttachSettings()
    if (url is None) == (orders is None):
        raise BadInput("attach needs either the address of a manager or the file of orders; give one of them")
    nodes = name_nodes(pinned, settings.nodes)
    actuator = choose_actuator(spark, pinned, settings, enforce)
    folder = make_folder(app, settings)
    given = None if orders is None else OrdersFile(Path(orders), app, settings.slot_s, folder / "decisions.jsonl")
    name = f"{getattr(getattr(spark, 'sparkContext', None), 'applicationId', '')}/{app}"
    detach_earlier(name)  # now that all arguments are valid, and before their folder is opened anew
    operators, instance = [one.operator for one in pinned], f"{socket.gethostname()}-{os.getpid()}"
    own = LinkSettings(clock=settings.clock, ca_file=None if settings.ca_file is None else Path(settings.ca_file))
    source: OrderSource = given or Link(str(url), app, operators, token, folder / "link", instance, own)
    types = {one.operator: set(one.types) for one in pinned}
    mirror = partial(CheckpointMirror, Driver(spark)) if settings.folder is None else None
    agents = AgentSettings(nodes, types, enforce, folder, settings, mirror)
    roll = PinnedOperators(pinned)

    def find() -> Sequence[StreamOperator]:
        running = find_operators(spark)
        return roll.find(running) if pinned else running

    ATTACHED[name] = attached = Attachment(agents, listen(spark, settings.timers), actuator, source, find)
    return attached


def name_nodes(pinned: Sequence[Pinned], nodes: Sequence[NodeType] | None) -> tuple[NodeType, ...]:
    """List all node types that operators may be on; undescribed ones get speed and price of the objective."""
    names = list(dict.fromkeys(name for one in pinned for name in one.types))
    described = tuple(nodes) if nodes is not None else tuple(NodeType(name, 1.0, 1.0) for name in names)
    if not described:  # a homogeneous cluster, or local mode: all executors are alike
        return (ONE_TYPE,)
    strange = [name for name in names if name not in {node.name for node in described}]
    if strange:
        raise BadInput(
            f"an operator is pinned to {', '.join(strange)}, and nodes= leaves that out; say its speed there"
        )
    return described


def choose_actuator(spark: Any, pinned: Sequence[Pinned], settings: AttachSettings, enforce: bool) -> Actuator:
    actuator = settings.actuator
    if actuator is None:
        if enforce and not pinned:
            raise BadInput("attach cannot enforce anything without an actuator; hand over pinned=[...] or actuator=...")
        return Executors(Gateway(spark), pinned, settings.master_url) if pinned else NoActuator()
    if enforce and not actuator.can_count:
        raise BadInput("the actuator cannot tell how many replicas there are; give its Command deployed=[...], too")
    return actuator


def make_folder(app: str, settings: AttachSettings) -> Path:
    try:
        default = settings.data_home.expanduser() / "stream-scaler" / "scalers" / quote(app, safe="")
        folder = default if settings.folder is None else Path(settings.folder)
        folder.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:
        raise BadInput(f"attach has no folder for its checkpoints ({error}); name one with folder=") from error
    return folder


def listen(spark: Any, timers: Mapping[str, ServiceTimer | Sequence[ServiceTimer]]) -> SparkSensor:
    try:
        return SparkSensor(spark, timers=timers)
    except BadInput:
        raise
    except Exception as error:  # py4j's own, in a session that was stopped
        said = str(error).strip().partition("\n")[0][:300]
        raise BadInput(f"this session's streams cannot be listened to ({said}); attach to one that runs") from error


def detach_earlier(name: str) -> None:
    """Detach the attachment before: a notebook's cell that is run twice must not leave two that undo each other."""
    before = ATTACHED.get(name)
    if before is not None and not before.ended.is_set():
        LOG.warning("scalers were attached to %s before; they are detached, and new ones take over", name)
        before.detach()
