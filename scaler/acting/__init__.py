"""A name and its settings flow in; what changes an operator's replicas flows out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scaler.acting.actuator import Actuator
from scaler.acting.command import Command
from scaler.acting.dry_run import DryRun
from scaler.acting.executors import Executors
from scaler.acting.gateway import Gateway
from scaler.acting.profiles import Pinned
from scaler.acting.webhook import Webhook
from scaler.acting.worker_fleet import Kind
from scaler.acting.workers import Workers
from scaler.model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Site:
    """What an actuator may stand on: the application, its session and pinned operators, another actuator."""

    application: str
    spark: Any = None
    pinned: tuple[Pinned, ...] = ()
    inner: Actuator | None = None


def build_executors(site: Site, master_page: str | None = None, period: float = 0.5, patience: float = 5.0) -> Actuator:
    if site.spark is None:
        raise BadInput("the executors actuator needs a Spark session")
    if not site.pinned:
        raise BadInput("the executors actuator needs operators that are pinned to profiles; see profiles.pin")
    return Executors(Gateway(site.spark), site.pinned, master_page, period, patience)


def build_workers(
    site: Site, kinds: Mapping[str, Mapping[str, Any]], folder: str, linger: float = 30.0, patience: float = 60.0,
    period: float = 1.0,
) -> Actuator:  # fmt: skip
    """Before the executors actuator where operators are pinned, or whichever other one is given."""
    inner = build_executors(site) if site.inner is None and site.pinned else site.inner
    try:
        read = {name: Kind(**table) for name, table in kinds.items()}
    except TypeError as error:
        raise BadInput(
            f"kinds of workers: {error}; each has start, and may have slots, most, shell, environment"
        ) from None
    return Workers(read, folder, inner, linger, patience, period)


def build_command(
    site: Site, argv: list[str], deployed: list[str] | None = None, timeout: float = 30.0, pause: float = 1.0
) -> Actuator:  # fmt: skip
    return Command(site.application, argv, deployed, timeout, pause)


def build_webhook(
    site: Site, url: str, token_file: str | None = None, timeout: float = 10.0, pause: float = 1.0,
    authority: str | None = None,
) -> Actuator:  # fmt: skip
    return Webhook(site.application, url, token_file, timeout, pause, authority)


def build_dry_run(site: Site) -> Actuator:
    return DryRun(site.inner)


ACTUATORS: dict[str, Callable[..., Actuator]] = {
    "executors": build_executors,
    "workers": build_workers,
    "command": build_command,
    "webhook": build_webhook,
    "dry_run": build_dry_run,
}


def build_actuator(name: str, site: Site, settings: Mapping[str, Any] | None = None) -> Actuator:
    """The actuator of this name; a setting that it does not know or lacks is refused by name."""
    if name not in ACTUATORS:
        raise BadInput(f"there is no actuator {name!r}; there are {', '.join(ACTUATORS)}")
    build, settings = ACTUATORS[name], settings or {}
    _, *takes = inspect.signature(build).parameters.values()
    known = [one.name for one in takes]
    for setting in settings:
        if setting not in known:
            raise BadInput(f"actuator {name!r} has no setting {setting!r}; it takes {', '.join(known) or 'none'}")
    for one in takes:
        if one.default is one.empty and one.name not in settings:
            raise BadInput(f"actuator {name!r} needs the setting {one.name!r}")
    return build(site, **settings)
