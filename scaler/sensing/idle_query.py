"""What an idle query found when it last looked for data flows in; the sign of idleness that this is flows out.

Spark tells of idleness every ten seconds. A scaler's slot may be shorter, and lie between two such signs; that the last
trigger found nothing is known all the same. It tells of the time until that trigger began, and of none after it, for a
query may wait long for its next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from scaler.model.spark_progress import Sign
from scaler.sensing.batch_history import Past


@dataclass(frozen=True, slots=True)
class Look:
    """The last trigger of a query that waits, and had nothing to do in it."""

    run: str
    time: float  # when it began
    batch: int  # that it would have run


def find_sign(past: Past, query: str, look: Look) -> Sign | None:
    """None where a batch ran of which no report has come yet."""
    batches = [trigger.batch for trigger in past.triggers if trigger.run == look.run]
    if batches and look.batch > batches[-1] + 1:
        return None
    return Sign(query, look.run, look.time)
