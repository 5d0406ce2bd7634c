"""Proxies that replace a dataset inside torch's fetcher while a batch is fetched. They time each sample.

Between two batches the fetcher holds the original, so other code that looks at it (torchdata's state, a resumed
iterator) sees the script's own dataset and iterator. In any thread that is not fetching, a proxy only forwards.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from pipebench.watch.record.exclusive_time import local, stages
from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import unseen
from pipebench.watch.stages.webdataset import Passing
from pipebench.watch.worker import contents
from pipebench.watch.worker.batch_sums import Sums


class _Dataset:
    """A proxy of a map-style dataset. `lists` says that an index that is a list asks for a whole batch."""

    def __init__(self, dataset: Any, sums: Sums, stage: int, lists: bool) -> None:
        self._dataset, self._sums, self._stage, self._lists = dataset, sums, stage, lists

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._dataset, name)
        if name != "__getitems__" or not found:
            return found
        in_subset = _is_subset(self._dataset) and getattr(found, "__self__", None) is self._dataset
        return self._in_subset(found) if in_subset else self._whole_batch(found)

    @unseen
    def __getitem__(self, index: Any) -> Any:
        sums, timer = self._sums, local.timer
        if timer is None:
            return self._dataset[index]
        if sums.present is not None:
            sums.present.note(index)
        before = timer.switch(self._stage)
        began = timer.last
        several = self._lists and isinstance(index, list)
        looks = found = None
        if not sums.split.here:  # no stage is entered
            timer.splits, timer.current = False, sums.split.shown
        try:
            looks = sums.looking(several) if sums.pending else None
            found = self._dataset[index]
        finally:
            timer.splits, timer.current = True, self._stage
            timer.switch(before)
            if looks is not None:
                looks.ends(index, found)
        sums.split.samples_ns += timer.last - began
        if several or looks is not None:  # what looking took is not the sample's
            sums.several(len(index) if several else 1)
        else:
            sums.sample(began, timer.last, index)
        return found

    def _whole_batch(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @unseen
        def whole_batch(indices: Any) -> Any:
            timer = local.timer
            if timer is None:
                return function(indices)
            if self._sums.present is not None:
                self._sums.present.note(indices)
            before = timer.switch(self._stage)
            looks = None
            try:
                looks = self._sums.looking(several=True) if self._sums.pending else None
                found = function(indices)
            finally:
                timer.switch(before)
                if looks is not None:
                    looks.ends(None, None)
            self._sums.several(_length(indices) or _length(found))
            return found

        return whole_batch

    def _in_subset(self, function: Any) -> Callable[[Any], Any]:
        """The unchanged `Subset.__getitems__` over a proxy of the inner dataset, so that each sample is timed."""
        inside = _Dataset(self._dataset.dataset, self._sums, self._stage, self._lists)
        return types.MethodType(function.__func__, _Subset(self._dataset, inside))


class _Subset:
    """A proxy of a `Subset` for the methods of that `Subset`. Only the dataset that it holds is another one."""

    def __init__(self, subset: Any, dataset: _Dataset) -> None:
        self._subset, self.dataset = subset, dataset

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subset, name)


def _length(several: Any) -> int:
    with forgiving():  # a user's batch sampler may give iterators
        return len(several)
    return 0


def _is_subset(dataset: Any) -> bool:
    kind = type(dataset)
    return kind.__name__ == "Subset" and kind.__module__ == "torch.utils.data.dataset"


class _Iterator(Passing):
    """A proxy of the iterator of an iterable dataset. `batches` says that it gives whole batches."""

    def __init__(self, iterator: Any, sums: Sums, stage: int, batches: bool = False) -> None:
        super().__init__(iterator)
        self._sums, self._stage, self._batches = sums, stage, batches

    @unseen
    def __next__(self) -> Any:
        timer = local.timer
        if timer is None:
            return next(self._iterator)
        sums, before = self._sums, timer.switch(self._stage)
        began = timer.last
        looks = found = None
        try:
            looks = sums.looking(self._batches or timer.batched is not None) if sums.pending else None
            found = next(self._iterator)
        finally:
            timer.switch(before)
            if looks is not None:
                looks.ends((sums.place.worker, sums.round, sums.number, sums.samples), found)
        if self._batches:
            sums.several(contents.samples_in(found))
        elif timer.batched is not None:
            sums.several(timer.batched)
            timer.batched = 0
        elif looks is not None:
            sums.several(1)
        else:
            sums.sample(began, timer.last, _key_of(found, sums))
        return found


def _key_of(sample: Any, sums: Sums) -> object:
    key = sample.get("__key__") if isinstance(sample, dict) else None
    return key if isinstance(key, str) else sums.samples


def maker(loader: Any) -> Any:
    """What makes the batches of a loader that is its own dataset, as fastai's for torch's iterators are; else None."""
    own = vars(loader) if hasattr(loader, "__dict__") else {}
    return own.get("d") if own.get("dataset") is loader else None


def behind(dataset: Any) -> Any:
    """The user's dataset behind a loader that is its own dataset; else `dataset` itself."""
    found = getattr(maker(dataset), "dataset", None)
    return dataset if found is None else found


def _name_of(dataset: Any) -> str:
    """The class name of the dataset that does the work. Torch's own wrappers of one dataset, as Subset, are skipped."""
    dataset = behind(dataset)
    for _ in range(8):
        inner = vars(dataset).get("dataset") if hasattr(dataset, "__dict__") else None
        if inner is None or not type(dataset).__module__.startswith("torch.utils.data"):
            break
        dataset = inner
    return type(dataset).__name__


def _gives_batches(dataset: Any) -> bool:
    """Whether the dataset itself, inside any `Subset`, makes a whole batch in one call."""
    while _is_subset(dataset):
        dataset = dataset.dataset
    return bool(getattr(dataset, "__getitems__", None))


def stand_in_for(fetcher: Any, sums: Sums) -> tuple[str, Callable[[Any], Any]]:
    """The attribute of `fetcher` to replace while it fetches, and a function that makes the proxy of its value."""
    name = _name_of(fetcher.dataset)
    if hasattr(fetcher, "dataset_iter"):
        stage = stages.number("getitem", f"{name}.__iter__")
        batches = maker(fetcher.dataset) is not None
        return "dataset_iter", functools.partial(_Iterator, sums=sums, stage=stage, batches=batches)
    batched = fetcher.auto_collation and _gives_batches(fetcher.dataset)
    stage = stages.number("getitem", f"{name}.{'__getitems__' if batched else '__getitem__'}")
    sums.split.outer = stage
    return "dataset", functools.partial(_Dataset, sums=sums, stage=stage, lists=not fetcher.auto_collation)
