"""Divides the wait of the loop into its parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.results.watched import WaitPart
from pipebench.watch.read.settled import Settled, count
from pipebench.watch.record.exclusive_time import REST
from pipebench.watch.record.record_file import WAIT_PARTS

_NS = 1e-9


def wait_parts(groups: Iterable[Settled], wait_s: float) -> tuple[WaitPart, ...]:
    """The parts of `wait_s`, the wait per iteration. They add up to it; what no other part holds is "rest".

    The first iteration of a pass has no parts, so those of the others stand for it, as in the wait itself.
    """
    per_turn = [0.0] * len(WAIT_PARTS)
    for lines, weight in groups:
        later = count(lines) - sum(one.first_wait_ns is not None for one in lines)
        for one in lines:
            for part, spent in enumerate(one.wait_parts_ns):
                per_turn[part] += spent * _NS * weight * (count(lines) / later if later else 1.0)
    per_turn[REST] = max(0.0, wait_s - sum(per_turn[REST + 1 :]))
    if not wait_s or not any(per_turn[REST + 1 :]):
        return ()
    named = [*zip(WAIT_PARTS, per_turn, strict=True)]
    return tuple(WaitPart(name, spent, spent / wait_s) for name, spent in (*named[1:], named[REST]) if spent)
