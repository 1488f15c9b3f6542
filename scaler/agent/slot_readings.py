"""Read an operator's slots; an earlier reading may stand for a slot whose reports are late."""

from __future__ import annotations

import logging
from collections import deque

from scaler.sensing.observation import MAX_AGE_SLOTS, fill_from_previous, is_whole
from scaler.sensing.reading import NoteCode, Reading, Sensor

LOG = logging.getLogger("scaler.agent")


class SlotReadings:
    """Readings of one operator; where the sensor fails, nothing is known of the slot."""

    def __init__(self, operator: str, sensor: Sensor, complete: float) -> None:
        self.operator, self.sensor, self.complete = operator, sensor, complete
        self.latest: Reading | None = None  # the newest that is known as a whole
        self.decided = float("-inf")  # the end of the last slot that was decided about as a whole
        self.unknown = deque[tuple[float, float]](maxlen=int(MAX_AGE_SLOTS))  # later slots: their reports may yet come

    def read(self, start: float, end: float) -> tuple[Reading, Reading]:
        """The slot as it was read, and as it is decided about."""
        reading = self.read_once(start, end)
        for lost in (note for note in reading.notes if note.code == NoteCode.REPLICA_LOST):
            LOG.warning("operator %r %s", self.operator, lost.message)
        if is_whole(reading, self.complete):
            self.latest = reading
            self.unknown.clear()
        else:
            self.read_again()
            self.unknown.append((start, end))
        shown = fill_from_previous(reading, self.latest, self.complete, self.decided)
        if self.latest is not None and (shown.has(NoteCode.REPORTED_LATE) or shown is self.latest):
            self.decided = self.latest.end
        return reading, shown

    def read_once(self, start: float, end: float) -> Reading:
        try:
            return self.sensor.read(self.operator, start, end)
        except Exception as error:  # the stream goes on
            LOG.warning("operator %r: the sensor failed (%s)", self.operator, error, exc_info=error)
            return Reading(self.operator, start, end, completeness=0.0)

    def read_again(self) -> None:
        """Find the newest of the unknown slots of which the reports have come by now."""
        for slot in reversed(self.unknown):
            again = self.read_once(*slot)
            if is_whole(again, self.complete):
                self.latest = again
                while self.unknown and self.unknown[0] <= slot:
                    self.unknown.popleft()
                return
