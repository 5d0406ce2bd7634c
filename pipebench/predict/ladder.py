"""Numbers of workers that are worth a look: each twice the one before, and a few between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, takewhile


def ladder(lowest: int, most: float, between: Iterable[float | None] = ()) -> list[int]:
    """Numbers of workers from `lowest` up to `most`, each twice the one before; none if already the lowest is more.

    With the whole part of each of those `between` that is no more either, such as the cores. None: not known.
    """
    doubled = takewhile(lambda rung: rung <= most, (lowest << times for times in count()))
    return sorted({*doubled, *(int(one) for one in between if one is not None and 1 <= one <= most)})
