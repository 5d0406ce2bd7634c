"""Tells what a loop computes again between a batch and its backward: the same in each iteration, or twice in one. Pure.

Such as a mask or positions that are made anew in each forward, or neighbours that each layer looks for.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.results.account import Cause
from pipebench.watch.read.needless import needless_in_forward
from pipebench.watch.read.of_causes import MATTERS, Seen

CODE = "computed-again"


def computed_again(seen: Seen) -> Iterable[Cause]:
    """The function of each loop that takes longest for it. Where a backward goes through it, that is not counted."""
    for one in seen.in_loop:
        if not one.training or seen.on_device:
            continue
        for found in needless_in_forward(seen.run, one.loader)[:1]:
            spent = found.share * seen.forward_s(one.loader)
            if spent < MATTERS * seen.loops_s:
                continue
            values: dict[str, str | int | float] = {
                "what": found.what, "function": found.function, "file": found.file, "line": found.line,
                "several": int(found.several), "iterations": found.samples, "calls": found.calls, "again": found.again,
            }  # fmt: skip
            yield Cause(CODE, spent, spent, one.loader, values)
