"""Events of streaming queries flow in, on Spark's thread; triggers and signs flow out to whoever keeps them.

py4j calls these methods by their names in Spark's interface. An event is read as the one JSON text that it is, for
reading it field by field, as pyspark's own listener does, takes dozens of calls to the JVM. Nothing is raised into
Spark's listener bus.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from scaler.model.spark_progress import Sign, Trigger, read_progress, read_sign
from scaler.sensing.batch_history import ENDED, IDLE, STARTED

LOG = logging.getLogger("scaler.agent")


class Keeper(Protocol):
    """Whom the listener tells; called from threads of Spark's."""

    def add(self, trigger: Trigger) -> None: ...

    def note(self, kind: str, sign: Sign) -> None: ...


class Listener:
    def __init__(self, keeper: Keeper, now: Callable[[], float] = time.time) -> None:
        self.keeper = keeper
        self.now = now
        self.unread = 0  # events that could not be read

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        self.note(STARTED, event)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        try:
            trigger = read_progress(json.loads(event.progress().json()))
            if trigger is None:
                self.unread += 1
            else:
                self.keeper.add(trigger)
        except Exception as error:
            self.fail(error)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        self.note(IDLE, event)

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        self.note(ENDED, event)

    def note(self, kind: str, event: Any) -> None:
        try:
            sign = read_sign(json.loads(event.json()), self.now())
            if sign is None:
                self.unread += 1
            else:
                self.keeper.note(kind, sign)
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        self.unread += 1
        LOG.debug("an event of a streaming query could not be read", exc_info=error)

    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]  # noqa: RUF012
