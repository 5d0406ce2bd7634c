"""Keeps the account of the thread that the recording began in: the script's main thread.

The loops of other threads run beside it, so their time is only noted.
"""

from __future__ import annotations

from time import process_time_ns

from pipebench.watch.record.recording import Recording
from pipebench.watch.record.spent import END_OF_PASS, RECORDING, START_UP, Ledger

Place = tuple[int, int]
"""A loader's number, and the number of a pass over it."""


class MainThread(Ledger):
    """The ledger of that thread, in which it enters every event of its loops, and the writing of its lines.

    Other threads may only call `beside`.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording.file.began, process_time_ns)
        self.recording = recording
        self._begun = False

    def name(self, place: Place | None, phase: int) -> None:
        """What was kept was `phase` of a loop."""
        self.phase(place, phase, self.mark, phase)

    def recorded(self, place: Place, now: int) -> None:
        """The time since the last event was ours: what is noted and written after a wait."""
        self.row(place, RECORDING, now)

    def write_if_due(self) -> None:
        if self.mark > self.due:
            self.recording.write(self.take())

    def started(self, place: Place, now: int, parts: list[int]) -> None:
        """The time since the last event was the start of a pass.

        That is the construction of an iterator, or the reset of a persistent one, and the wait for the first batch.
        """
        self.row(place, START_UP, now, parts)

    def ended(self, place: Place, now: int, parts: list[int] | None = None) -> None:
        """The time since the last event was the end of a pass: a wait with these `parts`, or the end of its workers."""
        self.row(place, END_OF_PASS, now, parts)

    def loop_begins(self) -> None:
        """Writes the time before the first loop, once."""
        if not self._begun:
            self._begun = True
            self.recording.write(self.take("before"))

    def stops(self) -> None:
        """Writes what is left, because recording ends."""
        self.recording.write(self.take())

    def ends(self, now: int) -> None:
        """Writes what is left, because the process ends. The time since the last event was after the last loop."""
        before = self.take()
        self.phase(None, 0, now, None)
        self.recording.write(before, self.take("after" if self._begun else "before"))
