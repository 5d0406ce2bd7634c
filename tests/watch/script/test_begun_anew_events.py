"""What each pass does anew, by a clock that only the plants move: samplers that make their list at once, streams."""

from __future__ import annotations

import multiprocessing.context
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from clockwork import US, Clock, Training, rows, run_by
from torch.utils.data import DataLoader, Dataset, IterableDataset
from torch.utils.data import dataloader as torch_dataloader

from pipebench import watching
from pipebench.watch.record.patches import Patches
from pipebench.watch.script import spawned_workers
from pipebench.watch.worker import fetching, pickling

CLOCK = Clock()
BATCHES = 3


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(CLOCK, monkeypatch)


class Numbers(Dataset[Any]):
    """Each sample takes 2 µs in the process that makes it. A batch has two."""

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(2 * US)
        return index


class Process(multiprocessing.context.ForkProcess):
    """A worker whose start takes 500 µs of the script."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        CLOCK.burn(500 * US)
        super().__init__(*args, **kwargs)


class Context(multiprocessing.context.ForkContext):
    Process = Process  # type: ignore[assignment]


class Bucketed:
    """A batch sampler whose `__iter__` makes the list of a pass, in 70 µs. It notes what it gave."""

    def __init__(self) -> None:
        self.gave: list[Any] = []

    def __iter__(self) -> Iterator[list[int]]:
        CLOCK.burn(70 * US)
        self.gave.append(iter([[2 * one, 2 * one + 1] for one in range(BATCHES)]))
        return self.gave[-1]

    def __len__(self) -> int:
        return BATCHES


@pytest.mark.parametrize(("how", "begun", "twice"), [({}, 4, 70), ({"persistent_workers": True}, 3, 0)])
def test_a_sampler_that_makes_its_list_at_once(how: dict[str, Any], begun: int, twice: int) -> None:
    """torch begins it twice where workers are new. It is the sampler's time, not that of the start of workers."""
    sampler, step = Bucketed(), Training(CLOCK).step
    workers = {"num_workers": 1, "multiprocessing_context": Context(), **how}
    batches: Any = DataLoader(Numbers(), batch_sampler=sampler, **workers)
    with watching() as seen:
        for _ in range(2):
            iterator = iter(batches)
            assert iterator._sampler_iter is sampler.gave[-1] and iterator._index_sampler is sampler
            for _ in iterator:
                step()
    found = rows(seen.result)
    assert (found["sampler 1"], found["start-up 1"]) == (begun * 70, 500 if how else 1_000)
    account = seen.result.account
    assert account is not None
    (cause,) = (one for one in account.causes if one.code == "sampler")
    assert round(float(cause.values.get("twice_s", 0)) * 1e6) == twice


def test_a_sampler_makes_its_list_once_without_workers() -> None:
    batches: Any = DataLoader(Numbers(), batch_sampler=Bucketed())
    with watching() as seen:
        for _ in batches:
            CLOCK.burn(10 * US)
    found = rows(seen.result)
    assert (found["sampler 1"], found["start-up 1"]) == (70, 4)


def test_what_a_sampler_raises_is_the_script_s() -> None:
    class Failing(Bucketed):
        def __iter__(self) -> Iterator[list[int]]:
            raise ValueError("no buckets")

    with watching() as seen:
        for _ in DataLoader(Numbers(), 2):
            pass
        with pytest.raises(ValueError, match="no buckets"):
            iter(DataLoader(Numbers(), batch_sampler=Failing()))
    assert seen.result.iterations == BATCHES


class Stream(IterableDataset[Any]):
    """Its `__iter__` takes 200 µs at once, in the worker."""

    def __iter__(self) -> Iterator[Any]:
        CLOCK.burn(200 * US)
        return iter(range(2 * BATCHES))


def test_to_begin_a_stream_is_not_saved_by_workers_that_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the 500 µs that the script takes to start a worker, the worker takes 200 to begin the stream."""
    monkeypatch.setattr(pickling, "perf_counter_ns", CLOCK)
    batches: Any = DataLoader(Stream(), batch_size=2, num_workers=1, multiprocessing_context=Context())
    with watching() as seen:
        for _ in range(2):
            for _ in batches:
                CLOCK.burn(10 * US)
    account = seen.result.account
    assert account is not None
    (row,) = (one for one in account.rows if one.code == "start-up")
    assert round((row.recoverable_s or 0) * 1e6) == 500 - 200


def test_a_spawned_worker_begins_a_stream_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawned_workers, "perf_counter_ns", CLOCK)
    monkeypatch.setattr(fetching, "is_own", lambda fetcher: True)
    sums = SimpleNamespace(round=0, number=3)
    watched: Any = SimpleNamespace(recording=SimpleNamespace(on=True), sums=sums, prepare=lambda dataset: None)
    patches = Patches()
    try:
        spawned_workers._watch_factory(watched, patches)
        torch_dataloader._DatasetKind.create_fetcher(1, Stream(), True, list, False)
    finally:
        patches.undo()
    assert (sums.created_ns, sums.number) == (200 * US, 0)
