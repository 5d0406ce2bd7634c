"""Live batches behind a pass: copies of any shape, settling, discarding, beginning anew."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from pipebench.watch.bound import batches
from pipebench.watch.bound.live_batches import LiveSource
from pipebench.watch.script.made import length_of

Pair = namedtuple("Pair", "image label")


@dataclass
class Custom:
    pixels: Any
    note: str


def test_batches_of_any_shape_are_copied() -> None:
    def build() -> list[Any]:
        one = torch.arange(6.0).reshape(3, 2)
        named = UserDict(a=one.clone(), b=[one.clone(), "text"])
        return [one.clone(), {"x": (one.clone(), 3)}, Pair(one.clone(), [1, 2]), named, Custom(one.clone(), "n")]

    batch, other = build(), build()
    copy = batches.copied(batch)
    assert batches.nbytes(batch) == 6 * 24 == batches.nbytes(copy)
    assert batches.samples(batch, None) == 3 and batches.samples(batch, 2) == 2
    seen = batches.versions(batch)
    for leaf in batches.leaves(batch):
        leaf.zero_()
    assert batches.versions(batch) != seen
    assert all(torch.equal(a, b) for a, b in zip(batches.leaves(copy), batches.leaves(other), strict=True))
    assert type(copy[2]) is Pair and type(copy[3]) is UserDict and copy[3]["b"][1] == "text" and copy[4].note == "n"
    same = batches.same(batch)
    batch[1].clear()
    assert same[1]["x"][0] is not None and same[0] is batch[0]


def test_only_the_tensors_at_the_named_places_are_moved() -> None:
    batch = {"lengths": torch.ones(2), "pair": Pair(torch.zeros(3), [torch.ones(1), "text"])}
    assert [one.shape[0] for one in batches.listed(batch)] == [2, 3, 1]
    moved = batches.moved(batch, "meta", {1})
    assert [one.device.type for one in batches.leaves(moved)] == ["cpu", "meta", "cpu"]
    moved["lengths"].zero_()
    assert batch["lengths"].tolist() == [1, 1]  # what stays is a copy


class Numbers(Dataset[int]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return index


def test_a_source_settles_discards_is_kept_busy_and_begins_anew() -> None:
    loader = DataLoader(Numbers(), 1, num_workers=1, prefetch_factor=2)
    iterator = iter(loader)
    source = LiveSource(iterator, next, 0, length_of(loader), lambda: iter(loader))
    assert (source.length, source.in_flight, source.cold) == (6, 2, True)
    source.cold = False
    source.settle(0.01)
    assert source._made() == 2
    assert source.draw().item() == 0
    source.discard()
    assert source.draw().item() == 3
    source.keep_busy(0.001)
    thread = source._thread
    assert thread is not None
    thread.join()  # it has drawn what was left
    source.rest()
    assert source.cold
    source.cold = False
    source.given = 5
    assert not source.over() and source.draw().item() == 0 and source.cold
    source.given = 6
    assert source.over()
    iterator._shutdown_workers()
    source.iterator._shutdown_workers()


class Unanswered:
    """An iterator one of whose workers has used up its part of an iterable: what else it was asked never comes."""

    _num_workers, _prefetch_factor, _tasks_outstanding = 2, 2, 4

    def __init__(self) -> None:
        self._data_queue = self._worker_result_queue = SimpleNamespace(qsize=lambda: 3)
        self._workers = [SimpleNamespace(is_alive=lambda: True)]


def test_settling_ends_where_the_workers_of_an_iterable_will_not_answer() -> None:
    moments = iter(range(1000))
    source = LiveSource(Unanswered(), next, 0, None, None, now=lambda: float(next(moments)))
    source.settle(0.5)
    assert next(moments) < 10
