"""Whether samples are read from a file that is open before workers start: forked workers would share its position."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from looked_at import made_up_recording
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset

from pipebench.watch.record.patches import Patches
from pipebench.watch.record.positions import moved, positions
from pipebench.watch.record.worker_lines import KeptOpen
from pipebench.watch.stages import finding_transforms
from pipebench.watch.stages.in_place import own_code
from pipebench.watch.worker import kept_open
from pipebench.watch.worker.kept_open import Held, may_share


class Kept(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return index


class ByProcess(Kept):
    def __getitem__(self, index: int) -> int:
        return os.getpid()


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter([1])


@pytest.mark.parametrize(
    ("dataset", "init", "may"),
    [
        (Kept(), None, True),
        (Subset(ConcatDataset([Kept()]), [0]), None, True),
        (Kept(), print, False),  # it may open the file anew
        (ByProcess(), None, False),
        (Subset(ConcatDataset([Kept(), ByProcess()]), [0]), None, False),
        (Stream(), None, False),  # its stream may begin with an open
        ([1, 2], None, False),
    ],
)
def test_what_may_be_opened_in_each_worker_is_not_told(dataset: Any, init: Any, may: bool) -> None:
    assert may_share(dataset, init) is may


def test_code_that_is_timed_tells_what_it_told_before() -> None:
    dataset, patches = ConcatDataset([ByProcess()]), Patches()
    plain = ByProcess.__getitem__.__code__
    finding_transforms.watch_tree(dataset, patches, may_change=False)
    assert ByProcess.__getitem__.__code__ is not plain and own_code(ByProcess.__getitem__) is plain
    assert not may_share(dataset, None)
    patches.undo()
    assert own_code(ByProcess.__getitem__) is plain


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda kept, path: kept.read(5), True),
        (lambda kept, path: os.pread(kept.fileno(), 5, 0), False),  # without its position
        (lambda kept, path: path.read_bytes(), False),
        (lambda kept, path: None, False),
    ],
)
def test_a_file_that_is_read_for_a_batch_and_was_open_before(read: Any, told: bool, tmp_path: Any) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(100_000))
    recording = made_up_recording()
    with open(path, "rb", buffering=0) as kept:
        held = Held(recording, 3, None)
        for _ in range(5):
            kept.seek(0, os.SEEK_CUR)
            held.begin()
            read(kept, path)
            held.end(recording)
    assert recording.written == [KeptOpen(3)] * told


def test_an_archive_counts_though_each_sample_ends_where_the_last_one_did(tmp_path: Any) -> None:
    path = tmp_path / "kept.npz"
    np.savez_compressed(path, x=np.zeros(100_000), y=np.arange(10))
    recording = made_up_recording()
    with np.load(path) as kept:
        held = Held(recording, 1, None)
        kept["x"], kept["y"]
        before = positions()
        held.begin()
        kept["x"], kept["y"]
        held.end(recording)
        assert not moved(before, positions()) and recording.written == [KeptOpen(1)]
    assert sys.getprofile() is None


def test_a_profiler_of_the_script_keeps_its_place_and_few_calls_are_looked_at(tmp_path: Any) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(100_000))
    recording, own = made_up_recording(), lambda *_: None
    with open(path, "rb"):
        held = Held(recording, 1, None)
        sys.setprofile(own)
        try:
            held.begin()
            assert sys.getprofile() is own
            held.end(recording)
            assert sys.getprofile() is own
        finally:
            sys.setprofile(None)
        held.begin()
        for _ in range(kept_open._CALLS):
            len("")
        assert sys.getprofile() is None
        held.end(recording)
    assert recording.written == []


def test_what_is_opened_with_the_first_sample_or_read_by_the_loop_is_each_workers_own(tmp_path: Any) -> None:
    path = tmp_path / "records"
    path.write_bytes(bytes(100_000))
    recording = made_up_recording()
    with open(path, "rb", buffering=0) as of_loop:
        held = Held(recording, 1, None)
        held.begin()
        with open(path, "rb", buffering=0) as late:
            held.end(recording)
            for _ in range(5):
                of_loop.read(5)
                held.begin()
                late.read(5)
                held.end(recording)
    assert recording.written == []


class Client:
    """A connection that code in C reads."""

    def __init__(self, number: int) -> None:
        self.number = number

    def fileno(self) -> int:
        return self.number


CLIENT = Client(7)


class Asks:
    def __getitem__(self, index: int) -> Any:
        return CLIENT


@pytest.mark.parametrize(
    ("growing", "dataset", "told"),
    [
        ((1, 1, 1), SimpleNamespace(store=SimpleNamespace(pool=[{"open": CLIENT}])), True),
        ((1, 1, 1), SimpleNamespace(dataset=SimpleNamespace(client=CLIENT)), True),  # as of a Subset
        ((1, 1, 1), Asks(), True),
        ((1, 0, 0), SimpleNamespace(client=CLIENT), False),  # a logger's thread gets an answer at times
        ((1, 1, 1), SimpleNamespace(client=Client(8)), False),  # the loop asks a server of its own
    ],
)
def test_a_connection_of_the_dataset_counts_if_it_is_read_again_and_again(
    growing: Any, dataset: Any, told: bool, monkeypatch: Any
) -> None:
    at, recording = SimpleNamespace(now=0), made_up_recording()
    monkeypatch.setattr(kept_open, "positions", dict)
    monkeypatch.setattr(kept_open, "received", lambda: {(7, 1, 1): at.now})
    held = Held(recording, 1, dataset)
    for more in growing:
        held.begin()
        at.now += more
        held.end(recording)
    assert bool(recording.written) is told
