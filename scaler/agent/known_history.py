"""Experience that the tuner sent with the orders: read once, and given to policies that have learned less themselves.

The rule: slots are counted that a policy has learned, those of a history that it began with included. One that has
learned as many as are offered, or more, keeps its own. Service times that the operator's own replicas showed are kept
in any case. What cannot be used is passed over, for a reason that goes on record once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from scaler.model.decision import RecordedNote
from scaler.model.errors import BadInput
from scaler.model.experience import Experience, adopt_experience, check_slot, parse_experience
from scaler.model.policy import Policy, Transition
from scaler.model.units import describe_span, format_count

BEGAN, REFUSED = "began_with_history", "history_refused"
UNREADABLE = "unreadable"  # in place of a digest


@dataclass(slots=True)
class HistoryOffer:
    """What the newest orders offer one operator, and what is to be recorded of it."""

    document: Any = None  # as it came last
    digest: str = ""  # of it
    experience: Experience | None = None  # None: there is none, or none that can be used
    notes: list[RecordedNote] = field(default_factory=list)

    def read(self, document: Any, slot_s: float) -> None:
        """Read what orders hold for the operator, once."""
        if document is self.document:
            return
        self.document, before = document, self.digest
        self.digest = digest_document(document)
        if self.digest == before:
            return
        self.experience = None
        if document is None:
            return
        try:
            if self.digest == UNREADABLE:
                raise BadInput("it is nested too deeply, or is no JSON")
            found = parse_experience(document)
            check_slot(found, found.policy, slot_s)
            self.experience = found
        except Exception as error:  # whatever it holds, the driver goes on
            self.refuse(error)

    def exceeds(self, policy: Policy | None, name: str) -> bool:
        """Whether it is of more slots than a policy of this name has learned."""
        found = self.experience
        if found is None or found.policy != name:
            return False
        return found.slots > (0 if policy is None else policy.count_slots())

    def give(self, policy: Policy, own: Policy | None) -> bool:
        """Let a new policy begin with it; whether it could."""
        found = self.experience
        if found is None:
            return False
        try:
            slots, span = format_count(found.slots, "slot", "slots"), describe_span(found.seconds)
            adopt_experience(policy, found, own)
        except Exception as error:
            self.refuse(error)
            return False
        self.note(BEGAN, f"began with {span} of history ({slots})", {"slots": found.slots, "seconds": found.seconds})
        return True

    def refuse(self, error: Exception) -> None:
        why = str(error) if isinstance(error, BadInput) else f"{type(error).__name__}: {error}"
        self.experience = None
        self.note(REFUSED, f"the history that came with the orders is not used: {why[:300]}")

    def note(self, code: str, message: str, data: Mapping[str, Any] | None = None) -> None:
        if all(one.message != message for one in self.notes):
            self.notes.append(RecordedNote(code, message, data or {}))

    def take_notes(self) -> tuple[RecordedNote, ...]:
        """What has not gone on record yet."""
        notes, self.notes = tuple(self.notes), []
        return notes


def digest_document(document: Any) -> str:
    """A digest of its text: NaN is equal to NaN there, and no nesting is too deep."""
    try:
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    except Exception:  # nested too deeply, most likely; all of these are refused as one
        return UNREADABLE


def list_later(transitions: Iterable[Transition], until: float | None) -> list[Transition]:
    """The transitions that a history up to then does not hold."""
    return [one for one in transitions if until is None or one.before.time >= until]
