"""Keeps the account of the thread that the recording began in: the script's main thread.

The loops of other threads run beside it, so their time is only noted.
"""

from __future__ import annotations

from threading import get_ident
from time import process_time_ns

from pipebench.watch.record.record_file import WAIT
from pipebench.watch.record.recording import Recording
from pipebench.watch.record.spent import END_OF_PASS, RECORDING, START_UP, Ledger

Place = tuple[int, int]
"""A loader's number, and the number of a pass over it."""


class MainThread:
    """Enters every event of the loops in the ledger, and writes its lines. In other threads it does almost nothing."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.ledger = Ledger(recording.file.began, process_time_ns)
        self._thread = get_ident()
        self._begun = False

    def here(self) -> bool:
        return get_ident() == self._thread

    def phase(self, place: Place | None, phase: int, now: int, spent: int, unnamed: int | None) -> None:
        """The time since the last event was `phase` of a loop: see `Ledger.phase`. Another thread `spent` it.

        `waited` divides a wait.
        """
        if get_ident() != self._thread:
            if place is not None:
                self.ledger.beside(spent)
        elif phase != WAIT:
            self.ledger.phase(place, phase, now, unnamed)

    def name(self, place: Place | None, phase: int) -> None:
        """What was kept was `phase` of a loop."""
        if self.here():
            self.ledger.phase(place, phase, self.ledger.mark, phase)

    def keep(self, now: int) -> None:
        if self.here():
            self.ledger.keep(now)

    def waited(self, place: Place, turn: int, now: int, parts: list[int], last: bool) -> None:
        """The time since the last event was a wait for batch `turn` of a pass. `last` says that none came."""
        if not self.here():
            return
        if last or turn == 0:
            self.ledger.row(place, END_OF_PASS if last else START_UP, now, parts)
        else:
            self.ledger.wait(place, now, parts)

    def recorded(self, place: Place, now: int) -> None:
        """The time since the last event was ours: what is noted and written after a wait."""
        if self.here():
            self.ledger.row(place, RECORDING, now)

    def write_if_due(self) -> None:
        if self.here() and self.ledger.due():
            self.recording.write(self.ledger.take())

    def started(self, place: Place, now: int, parts: list[int]) -> None:
        """The time since the last event was the construction of an iterator, or the reset of a persistent one."""
        if self.here():
            self.ledger.row(place, START_UP, now, parts)

    def ended(self, place: Place, now: int) -> None:
        """The time since the last event was the end of the workers of a pass."""
        if self.here():
            self.ledger.row(place, END_OF_PASS, now)

    def loop_begins(self) -> None:
        """Writes the time before the first loop, once."""
        if self.here() and not self._begun:
            self._begun = True
            self.recording.write(self.ledger.take("before"))

    def stops(self) -> None:
        """Writes what is left, because recording ends."""
        if self.here():
            self.recording.write(self.ledger.take())

    def ends(self, now: int) -> None:
        """Writes what is left, because the process ends. The time since the last event was after the last loop."""
        if self.here():
            before = self.ledger.take()
            self.ledger.phase(None, 0, now, None)
            self.recording.write(before, self.ledger.take("after" if self._begun else "before"))
