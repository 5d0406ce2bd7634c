"""Describes a loader, once, when it is first iterated."""

from __future__ import annotations

import sys
from typing import Any

from pipebench.watch.record.lines import CodePlace, LoaderFound
from pipebench.watch.script.dividing import shards, undivided
from pipebench.watch.script.made import Makers, read
from pipebench.watch.script.nested_columns import nested_columns
from pipebench.watch.worker import standins

_CALLS = 40  # of those that led to a loader


def start_method(loader: Any) -> str:
    if not read(loader, "num_workers"):
        return "none"
    context = read(loader, "multiprocessing_context") or sys.modules["torch.multiprocessing"]
    return str(context.get_start_method())


def described(loader: Any, number: int, makers: Makers) -> LoaderFound:
    workers, dataset = _size(read(loader, "num_workers")) or 0, standins.behind(read(loader, "dataset"))
    return LoaderFound(
        number,
        dataset=type(dataset).__name__,
        workers=workers,
        batch_size=_size(read(loader, "batch_size", read(standins.maker(loader), "bs"))),
        start_method=start_method(loader),
        prefetch_factor=_size(read(loader, "prefetch_factor")) if workers else None,
        persistent=bool(read(loader, "persistent_workers")),
        made=[CodePlace(*one) for one in makers.calls(loader)[:_CALLS]],
        undivided=undivided(dataset, read(loader, "worker_init_fn")),
        nested=nested_columns(dataset),
        shards=shards(dataset),
    )


def _size(found: Any) -> int | None:
    return int(found) if hasattr(found, "__index__") else None  # it may be a number of NumPy
