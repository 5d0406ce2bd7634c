"""Times each link of a chain of iterables, as in Hugging Face's streaming datasets: `map`, `filter`, `shuffle`.

Each link asks the one before it for its next item. `__iter__` of its class is patched, and gives an iterator that times
each `next()`. The row has the name of the function that the link calls; else that of the link.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any

from pipebench.watch.record.exclusive_time import FUNCTIONS, OnlyHere, local, name_of, stages
from pipebench.watch.record.lines import StageName
from pipebench.watch.record.own_code import users_function
from pipebench.watch.record.patches import Patches, is_wrapper, unseen
from pipebench.watch.stages.called import is_own
from pipebench.watch.stages.helpers import Link
from pipebench.watch.stages.webdataset import only_iterates

# `filter` of Hugging Face holds a function of its own around that of the user
_CALLS = ("mask_function", "function", "fn", "filter_fn", "generate_examples_fn", "generate_tables_fn")
_INNER = ("ex_iterable", "ex_iterables", "datapipe", "datapipes", "source_datapipe", "source", "dataset", "datasets")
_FOUNDATION = "torch.utils.data"
_IN_THREADS = "CyclingMultiSourcesExamplesIterable"  # reads its sources in threads of its own, from datasets 5 on
# Hugging Face's classes, by what their users call them
_LINKS = {
    "MappedExamplesIterable": "map", "FilteredExamplesIterable": "filter", "BufferShuffledExamplesIterable": "shuffle",
    "TakeExamplesIterable": "take", "SkipExamplesIterable": "skip", "RepeatExamplesIterable": "repeat",
    "SelectColumnsIterable": "select_columns", "StepExamplesIterable": "shards of this worker",
    "RebatchedArrowExamplesIterable": "batches of rows", "FormattedExamplesIterable": "format of rows",
    "CyclingMultiSourcesExamplesIterable": "interleave", "VerticallyConcatenatedMultiSourcesExamplesIterable": "concat",
    "RandomlyCyclingMultiSourcesExamplesIterable": "interleave", "TypedExamplesIterable": "format of rows",
    "InterleavedShardsExamplesIterable": "shards in turn",
}  # fmt: skip


def watch_chain(links: Iterable[Any], patches: Patches) -> None:
    """Times the iterables that a dataset holds, by their classes."""
    for link in links:
        own = vars(link) if hasattr(link, "__dict__") else {}
        found = getattr(type(link), "__iter__", None)
        users = isinstance(found, types.FunctionType) and is_own(found)
        if users or any(name.lstrip("_") in (*_INNER, *_CALLS) for name in own):
            _watch(type(link), "__iter__", patches)


def watch_examples(patches: Patches, module: Any) -> None:
    """Patches the links of Hugging Face's streaming datasets. Some of their objects are made in the worker only."""
    for kind in list(vars(module).values()):
        if isinstance(kind, type) and issubclass(kind, module._BaseExamplesIterable):
            for name in ("__iter__", "_iter_arrow"):
                if name in vars(kind):
                    _watch(kind, name, patches)


def _watch(kind: type, name: str, patches: Patches) -> None:
    owner = next((base for base in kind.__mro__ if name in vars(base)), None)
    plain = vars(owner).get(name) if owner is not None else None
    if owner is None or not isinstance(plain, types.FunctionType) or owner.__module__.startswith(_FOUNDATION):
        return
    if is_wrapper(plain):
        return
    here = OnlyHere(timed=_timed)

    @unseen
    @functools.wraps(plain)
    def chained(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = plain(self, *args, **kwargs)
        return found if local.timer is None or found is self else here.timed(self, found)

    patches.replace(owner, name, chained)


def _timed(link: Any, iterator: Any) -> Any:
    timer = local.timer
    if timer is None or not only_iterates(iterator):
        return iterator
    waits = any(base.__name__ == _IN_THREADS for base in type(link).__mro__)
    return Link(iterator, stages.number(*_described(link)), timer, waits)


def _described(link: Any) -> StageName:
    """The name of a link's row."""
    own = vars(link) if hasattr(link, "__dict__") else {}
    called = next((own[name] for name in _CALLS if isinstance(own.get(name), FUNCTIONS)), None)
    inside = any(name.lstrip("_") in _INNER for name in own)
    if called is not None:
        return StageName("transform" if inside else "function", name_of(called), own=inside and users_function(called))
    name = type(link).__name__
    return StageName("getitem", _LINKS.get(name, f"{name}.__iter__"))
