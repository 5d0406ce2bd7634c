"""Describes a loader, once, when it is first iterated."""

from __future__ import annotations

import sys
from typing import Any

from pipebench.watch.record.lines import CodePlace, LoaderFound
from pipebench.watch.script.dividing import shards, starts_processes, undivided
from pipebench.watch.script.held_models import held_models
from pipebench.watch.script.made import Makers, read, within
from pipebench.watch.script.nested_columns import nested_columns
from pipebench.watch.worker import standins

_CALLS = 40  # of those that led to a loader


def start_method(loader: Any) -> str:
    if not read(loader, "num_workers"):
        return "none"
    context = read(loader, "multiprocessing_context") or sys.modules["torch.multiprocessing"]
    return str(context.get_start_method())


def described(loader: Any, number: int, makers: Makers) -> LoaderFound:
    # A library that calls torch's iterator classes itself, as fastai, gets new workers in each pass.
    own = isinstance(loader, sys.modules["torch.utils.data"].DataLoader)
    workers, dataset = _size(read(loader, "num_workers")) or 0, standins.behind(read(loader, "dataset"))
    return LoaderFound(
        number,
        dataset=type(dataset).__name__,
        workers=workers,
        batch_size=_size(read(loader, "batch_size", read(standins.maker(loader), "bs"))),
        start_method=start_method(loader),
        prefetch_factor=_size(read(loader, "prefetch_factor")) if workers else None,
        persistent=own and bool(read(loader, "persistent_workers")),
        can_persist=own,
        made=[CodePlace(*one) for one in makers.calls(loader)[:_CALLS]],
        undivided=undivided(dataset, read(loader, "worker_init_fn")),
        nested=nested_columns(dataset),
        shards=shards(dataset),
        own_processes=not workers and starts_processes(dataset),
        models=held_models(dataset) if _makes_batches(loader) else [],
        **_sampler(loader),
    )


def _makes_batches(loader: Any) -> bool:
    """Whether its dataset gives single samples: else it gives whole batches."""
    return read(loader, "batch_size") is not None or read(loader, "batch_sampler") is not None


def _sampler(loader: Any) -> dict[str, Any]:
    """The sampler that chooses the samples: the script's own batch sampler, or else the sampler, as in LoaderFound."""
    batches = read(loader, "batch_sampler")
    own = batches is not None and not within(_file(batches))
    one = batches if own else read(loader if batches is None else batches, "sampler")
    if one is None or type(one).__module__ == "builtins":
        return {}
    if not (file := _file(one)) or within(file):
        return {"sampler": type(one).__name__}
    iterates = type(one).__iter__
    return {"sampler": iterates.__qualname__, "sampler_at": CodePlace(file, iterates.__code__.co_firstlineno)}


def _file(sampler: Any) -> str:
    """The file in which a sampler's `__iter__` is written ("": not in Python)."""
    return str(getattr(getattr(getattr(type(sampler), "__iter__", None), "__code__", None), "co_filename", ""))


def _size(found: Any) -> int | None:
    return int(found) if hasattr(found, "__index__") else None  # it may be a number of NumPy
