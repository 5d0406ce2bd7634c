"""What the workers of a trial read, and how much of it came from storage."""

from __future__ import annotations

from dataclasses import dataclass

_MUCH = 1_000_000  # bytes: less tells nothing of how a training reads
_APART = 0.1  # of what is read


@dataclass(frozen=True)
class TrialReads:
    """Bytes that were read in the windows of a trial, with the changed loader and with the present one.

    `stored` is what storage gave of each; the rest came from the page cache. With memory maps, storage can give more
    than read calls asked for.
    """

    changed: int
    changed_stored: int
    present: int
    present_stored: int

    @property
    def whole(self) -> int:
        return max(self.changed, self.changed_stored) + max(self.present, self.present_stored)

    @property
    def told(self) -> bool:
        """Whether so much was read that its share from storage means something."""
        return self.whole >= _MUCH

    @property
    def cached_share(self) -> float:
        """The share of all that was read that came from the page cache (0 to 1)."""
        return 1.0 - (self.changed_stored + self.present_stored) / self.whole if self.whole else 1.0

    @property
    def warmer(self) -> bool:
        """Whether storage gave clearly less to the changed loader than to the present one."""
        if not self.told or self.present_stored < _MUCH:
            return False
        return _share(self.present_stored, self.present) - _share(self.changed_stored, self.changed) > _APART


def _share(stored: int, read: int) -> float:
    return stored / max(stored, read) if stored else 0.0


def summed(each: list[TrialReads]) -> TrialReads:
    """What all these trials read."""
    return TrialReads(
        sum(one.changed for one in each),
        sum(one.changed_stored for one in each),
        sum(one.present for one in each),
        sum(one.present_stored for one in each),
    )
