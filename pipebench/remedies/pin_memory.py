"""Batches in pinned memory, from which a device copies without a detour. Only where the script uses a device."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Change, Finding

PLACE = 4


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if tried or not seen.device or seen.settings.get("pin_memory"):
        return None
    return Change("pin_memory", {"pin_memory": True}, "pinned memory, a thread")
