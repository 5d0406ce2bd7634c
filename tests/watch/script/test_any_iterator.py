"""Iterators of libraries: classes that inherit from torch's, and torch's own over objects that are no DataLoader."""

from __future__ import annotations

import functools
import itertools
import multiprocessing
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import dataloader as torch_dataloader

from pipebench import watching
from pipebench.results.watched import WatchResult
from pipebench.watch.script.described import described
from pipebench.watch.script.made import Makers


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return torch.tensor(float(index))


class Alone(torch_dataloader._SingleProcessDataLoaderIter):
    """As litdata's: it leaves out batches that are None."""

    def _next_data(self) -> Any:
        data = None
        while data is None:
            data = super()._next_data()
        return data


class WithWorkers(torch_dataloader._MultiProcessingDataLoaderIter):
    """As litdata's: it sets itself up before torch does, and hands its loader on by name."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        super().__init__(loader=loader)

    def _next_data(self) -> Any:
        return super()._next_data()


class Streaming(DataLoader[Any]):
    def _get_iterator(self) -> Any:
        return (WithWorkers if self.num_workers else Alone)(self)

    def __iter__(self) -> Any:
        yield from super().__iter__()


def _kept(one: Any) -> Any:
    return one


class Fake:
    """What fastai gives to torch's iterators: no batch size, no sampler, and it is its own dataset."""

    _IterableDataset_len_called, _auto_collation, drop_last = None, False, False
    _index_sampler, generator, prefetch_factor, in_order = itertools.count(), None, 2, True
    dataset_kind = _dataset_kind = torch_dataloader._DatasetKind.Iterable
    collate_fn = staticmethod(_kept)

    def __init__(self, d: Any, num_workers: int) -> None:
        self.dataset = self
        self.default = self.d = d
        self.worker_init_fn = functools.partial(_init, self)
        self.num_workers, self.pin_memory, self.timeout, self.persistent_workers = num_workers, False, 0, False
        self.pin_memory_device = ""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.d.create_batches())

    @property
    def multiprocessing_context(self) -> Any:
        return (None, multiprocessing)[self.num_workers > 0]


def _init(fake: Fake, worker: int) -> None:
    info: Any = torch.utils.data.get_worker_info()
    info.dataset.d.num_workers, info.dataset.d.offs = info.num_workers, info.id


class Fastai:
    """A loader of fastai's, cut down to what it does with torch's iterators."""

    def __init__(self, dataset: Any, bs: int, num_workers: int) -> None:
        self.dataset, self.bs, self.num_workers, self.offs = dataset, bs, 1, 0
        self.fake_l = Fake(self, num_workers)

    def create_batches(self) -> Iterator[Any]:
        for first in range(self.offs * self.bs, len(self.dataset), self.bs * self.num_workers):
            yield torch.stack([self.dataset[one] for one in range(first, first + self.bs)])

    def __iter__(self) -> Iterator[Any]:
        kinds: Any = (
            torch_dataloader._MultiProcessingDataLoaderIter,
            torch_dataloader._SingleProcessDataLoaderIter,
        )
        yield from kinds[self.fake_l.num_workers == 0](self.fake_l)


def _trained(loader: Any) -> tuple[list[float], WatchResult]:
    weight = torch.ones(1, requires_grad=True)
    optimiser = torch.optim.SGD([weight], 0.1)
    seen = []
    with watching() as watched:
        for batch in loader:
            seen += batch.tolist()
            (weight * batch.mean()).sum().backward()
            optimiser.step()
    return seen, watched.result


def _faults(result: WatchResult) -> list[Any]:
    return [one for one in result.notes if not isinstance(one, str) and one.code in ("fault", "workers-not-watched")]


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_that_inherit_from_torchs_are_watched(workers: int) -> None:
    seen, result = _trained(Streaming(Numbers(), 4, num_workers=workers))
    assert seen == list(range(12)) and not _faults(result)
    (loader,) = result.loaders
    assert (loader.dataset, loader.workers, loader.iterations, loader.samples) == ("Numbers", workers, 3, 12)
    assert {"Numbers.__getitem__", "default_collate"} <= {one.name for one in result.stages}
    assert loader.training and loader.watched


def test_only_torchs_own_loader_can_let_workers_live_on() -> None:
    """Who calls torch's iterator classes gets new workers in each pass, whatever the setting says."""
    fake = Fastai(Numbers(), 4, 2).fake_l
    fake.persistent_workers = True
    own = Streaming(Numbers(), 4, num_workers=2, persistent_workers=True)
    for loader, can in ((fake, False), (own, True)):
        found = described(loader, 1, Makers())
        assert (found.can_persist, found.persistent) == (can, can)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_that_lacks_attributes_is_watched(workers: int) -> None:
    """The samples are counted in the batches that it gives; dataset and batch size are those of the user's loader."""
    seen, result = _trained(Fastai(Numbers(), 4, workers))
    assert sorted(seen) == list(range(12)) and not _faults(result)
    (loader,) = result.loaders
    assert (loader.dataset, loader.batch_size, loader.workers) == ("Numbers", 4, workers)
    assert (loader.iterations, loader.samples, loader.watched) == (3, 12, True)
    assert "Numbers.__iter__" in {one.name for one in result.stages}
