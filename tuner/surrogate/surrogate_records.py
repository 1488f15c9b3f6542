"""Convert surrogates to records of the store, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tuner.surrogate.surrogate import Surrogate, from_document, to_document, worst

if TYPE_CHECKING:
    from tuner.store.records import SurrogateRecord as Record


def to_record(surrogate: Surrogate, now: float) -> Record:
    """Its error is that of the worst operator; None where one has none."""
    from tuner.store.records import SurrogateRecord as Record

    accuracies = [o.response.accuracy if o.response else None for o in surrogate.operators]
    errors = [accuracy.error.value for accuracy in accuracies if accuracy is not None]
    return Record(
        application=surrogate.application,
        document=to_document(surrogate),
        start=surrogate.start,
        end=surrogate.end,
        windows=max(o.windows for o in surrogate.operators),
        health=worst(surrogate.checks),
        created=now,
        error=max(errors) if len(errors) == len(accuracies) else None,
    )


def from_record(record: Record) -> Surrogate:
    return from_document(record.document)
