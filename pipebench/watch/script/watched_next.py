"""Lets a looker know of each batch that a loop asks torch's iterators for."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.script.loop_looks import LoopLooker


def watch_next(looker: LoopLooker, patches: Patches, kind: Any, number: Callable[[Any], int | None]) -> None:
    """Lets `looker` know of each batch of the iterators of `kind`, torch's base class, in this process."""
    plain, process = kind.__next__, os.getpid()

    @unseen
    @functools.wraps(plain)
    def __next__(self: Any) -> Any:
        return looker.next(plain, self, number) if os.getpid() == process else plain(self)

    patches.replace(kind, "__next__", __next__)
