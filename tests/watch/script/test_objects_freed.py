"""What a loop has used is freed when the script lets it go, as without us: no garbage collection is waited for."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from looked_at import seen_from_outside
from torch.utils.data import DataLoader, Dataset, IterableDataset

from pipebench import watching
from pipebench.watch.record.per_code import forget
from pipebench.watch.record.trial_lines import NO_LOADER
from pipebench.watch.script.loop_place import loops_in
from pipebench.watch.script.thread_clock import ThreadClock


@pytest.fixture(autouse=True)
def no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Shard(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    """Gives how many of its iterators are open; `closed` counts those that are not any more."""

    opened = closed = 0

    def __iter__(self) -> Iterator[int]:
        Stream.opened += 1
        try:
            while True:
                yield Stream.opened - Stream.closed
        finally:
            Stream.closed += 1


@pytest.mark.parametrize("left_early", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataset_ends_with_its_loop(workers: int, left_early: bool) -> None:
    def epoch() -> Any:
        shard = Shard()
        for _ in DataLoader(shard, batch_size=4, num_workers=workers):
            if left_early:
                break
        return weakref.ref(shard)

    with watching():
        assert [epoch()() for _ in range(3)] == [None] * 3


def test_an_iterator_is_closed_where_its_loop_is_left() -> None:
    before = Stream.closed
    with watching():
        for _ in DataLoader(Stream(), batch_size=4):
            assert Stream.closed == before
            break
        assert Stream.closed == before + 1


def test_a_worker_that_persists_closes_the_iterator_of_the_pass_before() -> None:
    loader = DataLoader(Stream(), batch_size=1, num_workers=1, persistent_workers=True, multiprocessing_context="fork")
    with watching():
        assert [next(iter(loader)).item() for _ in range(4)] == [1, 1, 1, 1]


class Held:
    """Notes which thread frees it."""

    def __init__(self, freed_by: list[int]) -> None:
        self.freed_by = freed_by

    def __del__(self) -> None:
        self.freed_by.append(threading.get_ident())


def test_what_a_look_has_met_is_freed_where_it_returns(looker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look lets other threads run while it reads what the kernel counts. The function that it met returns then."""
    looked, returned, freed_by = threading.Event(), threading.Event(), list[int]()

    def needed_ns(clock: ThreadClock) -> int:
        looked.set()
        returned.wait(60)
        return 0

    def function(held: Held) -> None:
        other.start()
        looked.wait(60)

    monkeypatch.setattr(ThreadClock, "needed_ns", needed_ns)
    other = threading.Thread(target=looker.of._look)
    looker.of.came(1, sys._getframe())
    function(Held(freed_by))
    returned.set()
    other.join()
    assert looker.of._of[1].found and freed_by == [threading.get_ident()]


class Called(torch.nn.Module):
    def forward(self, at_work: Callable[[], None]) -> None:
        at_work()


_LOOP = """
def loop(looker, at_work, model):
    for turn in range(3):
        looker.came(1, sys._getframe())
        at_work()
        model(at_work)
        [one for one in range(3)]
        at_work()
"""


@pytest.mark.parametrize("loader", [1, NO_LOADER])
def test_code_that_looks_have_seen_ends_with_its_function(looker: Any, loader: int) -> None:
    """Else what torch has compiled outlives torch's own modules, and complains at the end of the process."""
    looker.of.early = lambda loader: True
    names: dict[str, Any] = {"sys": sys}
    exec(compile(_LOOP.replace("came(1", f"came({loader}"), "/a/train.py", "exec"), names)
    code = weakref.ref(names["loop"].__code__)
    names["loop"](looker.of, seen_from_outside(looker.of), Called())
    assert code() is not None
    looker.of.end()
    names.clear()
    forget()
    assert code() is None


def test_a_recording_that_ends_lets_go_of_code() -> None:
    code = compile("a = 1", "a.py", "exec")
    with watching():
        assert not loops_in(code) and loops_in.cache_info().currsize
    assert not loops_in.cache_info().currsize
