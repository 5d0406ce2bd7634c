"""A loader that a background thread iterates: the wait is that of the thread that trains, or there is no verdict."""

from __future__ import annotations

import multiprocessing.queues
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
import torch
from clockwork import US, Clock, Training, phases_us, run_by, verdict_of
from torch.utils.data import DataLoader, Dataset

from pipebench import watching
from pipebench.results.watched import WatchResult

CLOCK = Clock()
BATCHES = 4
PATIENCE_S = 60


class Gate:
    """Lets two threads run in turns, so that the clock of the test moves in a fixed order."""

    def __init__(self) -> None:
        self.filled = threading.Semaphore(0)
        self.wanted = threading.Semaphore(0)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(CLOCK, monkeypatch)


class Numbers(Dataset[Any]):
    """Makes a sample in 40 µs, while the loop waits for it."""

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> Any:
        CLOCK.burn(40 * US)
        return torch.tensor(float(index))


class Buffer(DataLoader[Any]):
    """As MONAI's ThreadDataLoader: a thread iterates, and the loop polls the queue. They take turns here."""

    def __init__(
        self,
        dataset: Any,
        end: object = None,
        handed: Callable[[Any], Any] = lambda one: one,
        made: Callable[[], Any] = queue.Queue,
    ) -> None:
        super().__init__(dataset, 1)
        self.gate, self.queue, self.end, self.handed = Gate(), made(), end, handed

    def _fill(self, source: Any) -> None:
        self.gate.wanted.acquire(timeout=PATIENCE_S)
        for batch in source:
            self.queue.put(self.handed(batch))
            self.gate.filled.release()
            self.gate.wanted.acquire(timeout=PATIENCE_S)
        if self.end is not None:
            self.queue.put(self.end)
        self.gate.filled.release()

    def __iter__(self) -> Any:
        thread = threading.Thread(target=self._fill, args=(super().__iter__(),), daemon=True)
        thread.start()
        while True:
            with pytest.raises(queue.Empty):
                self.queue.get_nowait()
            self.gate.wanted.release()
            self.gate.filled.acquire(timeout=PATIENCE_S)
            if self.queue.empty():
                break
            found = self.queue.get()
            if found is self.end:
                break
            yield found
        thread.join(PATIENCE_S)


def _run(loader: Any, passes: int = 2) -> WatchResult:
    training = Training(CLOCK, 0)
    with watching() as seen:
        for _ in range(passes):
            for batch in loader:
                training.step(batch if isinstance(batch, torch.Tensor) else batch[1])
            CLOCK.burn(100 * US)
    return seen.result


@pytest.mark.parametrize("end", [None, StopIteration()], ids=["no sign of the end", "a sign of the end"])
@pytest.mark.parametrize(
    ("made", "handed"),
    [
        (queue.Queue, lambda one: one),
        (queue.Queue, lambda one: (0, one)),
        (queue.Queue, lambda one: one.clone()),
        (queue.Queue, lambda one: [3, one.numpy()]),
        (lambda: queue.SimpleQueue(), lambda one: one),
    ],
    ids=["the batch", "a tuple with it", "a copy", "its array", "a SimpleQueue"],
)
def test_the_wait_is_that_of_the_thread_that_trains(end: Any, handed: Any, made: Any) -> None:
    """A `SimpleQueue` is of our class if it was made while we watch."""
    training = Training(CLOCK, 0)
    with watching() as seen:
        loader = Buffer(Numbers(), end, handed, made)
        for _ in range(2):
            for batch in loader:
                training.step(torch.as_tensor(batch[1] if isinstance(batch, (tuple, list)) else batch))
            CLOCK.burn(100 * US)
    result = seen.result
    assert not result.notes
    (loader,) = result.loaders
    assert (loader.passes, loader.iterations, loader.training, loader.beside) == (2, 2 * BATCHES, True, False)
    assert (
        phases_us(result)["wait"] == 40 and phases_us(result)["forward"] == 20 and phases_us(result)["backward"] == 30
    )
    assert verdict_of(result).limit == "data" and [one.part for one in result.wait_parts] == ["wait-for-worker"]


@pytest.mark.parametrize(("end", "logged"), [(None, 6), (StopIteration(), 8)])
def test_the_account_has_every_microsecond(end: Any, logged: int) -> None:
    """The queue is known from the first batch on, so the wait for the very first one is outside the loop."""
    result = _run(Buffer(Numbers(), end))
    assert result.account is not None
    assert sum(round(one.s * 1e9) for one in result.account.rows) == round(result.account.wall_s * 1e9)
    rows = {one.code: round(one.s * 1e6) for one in result.account.rows if one.s}
    assert rows == {
        "start-up": 40, "wait-for-worker": 2 * 3 * 40, "forward": 8 * 20, "backward": 8 * 30,
        "other": logged * 7, "outside-loops": 40 + 100 + 7 * (8 - logged), "after-loops": 100,
    }  # fmt: skip


def test_each_pass_may_have_a_queue_and_a_loader_of_its_own() -> None:
    """The queue is gone before anything says that its loop is over."""
    training, numbers = Training(CLOCK, 0), Numbers()
    with watching() as seen:
        for _ in range(3):
            loader = Buffer(numbers)
            for batch in loader:
                training.step(batch)
            CLOCK.burn(100 * US)
    assert [(one.passes, one.iterations, one.again) for one in seen.result.loaders] == [(3, 3 * BATCHES, 2)]
    assert seen.result.account is not None and phases_us(seen.result)["wait"] == 40
    assert sum(one.s for one in seen.result.account.rows if one.code == "other") < 3 * BATCHES * 8e-6


def test_what_is_no_batch_is_not_taken_for_one() -> None:
    """The thread hands on plain numbers, so nothing says which item of the queue is a batch of the loader."""
    result = _run(Buffer(Numbers(), StopIteration(), lambda one: (0, float(one))), passes=6)
    found = verdict_of(result)
    assert (found.limit, found.loader, found.dataset) == ("not-followed", 1, "Numbers") and result.next_move is None
    assert [(one.loader, one.beside) for one in result.loaders] == [(1, True), (0, False)]
    assert result.wait_share in (0.0, None)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_wait_for_a_future_is_the_wait_for_data(threads: int) -> None:
    training, loader = Training(CLOCK, 0), DataLoader(Numbers(), 1)
    with watching() as seen, ThreadPoolExecutor(threads) as pool:
        for _ in range(3):
            source = iter(loader)
            while (batch := pool.submit(next, source, None).result()) is not None:
                training.step(batch)
            CLOCK.burn(100 * US)
    result = seen.result
    (found,) = result.loaders
    assert (found.training, found.beside) == (True, False) and 3 * BATCHES - 1 <= found.iterations <= 3 * BATCHES
    assert verdict_of(result).limit == "data" and not result.notes
    assert result.account is not None
    assert sum(round(one.s * 1e9) for one in result.account.rows) == round(result.account.wall_s * 1e9)


def test_a_queue_of_multiprocessing_is_followed_between_threads() -> None:
    """Its items are copies: it pickles them."""
    training, loader, given = Training(CLOCK, 0), DataLoader(Numbers(), 1), 0

    def fill(items: Any) -> None:
        for batch in loader:
            items.put((batch.numpy(), "first"))
        items.put(None)

    with watching() as seen:
        for _ in range(3):
            items = multiprocessing.get_context("fork").Queue()
            thread = threading.Thread(target=fill, args=(items,))
            thread.start()
            while (item := items.get(timeout=PATIENCE_S)) is not None:
                training.step(torch.from_numpy(item[0]))
                given += 1
            thread.join(PATIENCE_S)
    assert given == 3 * BATCHES
    assert verdict_of(seen.result).limit != "not-followed" and [one.training for one in seen.result.loaders] == [True]


def test_a_simple_queue_is_one_whenever_it_was_made() -> None:
    plain, before = queue.SimpleQueue, queue.SimpleQueue()
    with watching():
        here: Any = queue.SimpleQueue
        assert here is not plain and isinstance(before, here) and issubclass(plain, here) and issubclass(here, plain)
        assert "put" not in vars(here) and not isinstance(3, here) and repr(here) == "<class 'queue.SimpleQueue'>"
        found = queue.SimpleQueue()
        found.put(3)
    assert queue.SimpleQueue is plain and type(before) is plain
    assert found.get() == 3 and isinstance(found, plain) and not isinstance(before, type("Own", (here,), {}))


def test_a_loop_in_a_thread_that_does_not_train_has_no_verdict() -> None:
    loader = DataLoader(Numbers(), 1)
    with watching() as seen:
        other = threading.Thread(target=lambda: [CLOCK.burn(US) for _ in loader])
        other.start()
        other.join()
    assert verdict_of(seen.result).limit == "not-followed"


def test_a_thread_that_trains_on_its_own_loader_is_a_loop_as_any_other() -> None:
    loader, training = DataLoader(Numbers(), 1), Training(CLOCK, 0)
    with watching() as seen:
        other = threading.Thread(target=lambda: [training.step(batch) for batch in loader])
        other.start()
        other.join()
    assert verdict_of(seen.result).limit == "data" and phases_us(seen.result)["wait"] == 40


def test_the_queue_is_put_back() -> None:
    kinds = queue.Queue, multiprocessing.queues.Queue
    before = [(one.get, one.put) for one in kinds], Future.result, Future.set_result
    _run(Buffer(Numbers()))
    assert ([(one.get, one.put) for one in kinds], Future.result, Future.set_result) == before


def test_the_queue_is_patched_only_for_another_thread() -> None:
    before = queue.Queue.get
    with watching():
        for _ in DataLoader(Numbers(), 1):
            pass
        assert queue.Queue.get is before


class Meeting:
    """Batches of one index each. Another thread makes an iterator while that over these is made."""

    def __init__(self, batches: int, meet: Callable[[], object]) -> None:
        self.batches, self.meet = batches, meet

    def __iter__(self) -> Any:
        self.meet()
        return iter([[index] for index in range(self.batches)])


def test_iterators_that_two_threads_make_at_the_same_time_stay_apart() -> None:
    first, second, made = threading.Event(), threading.Event(), threading.Event()

    def waits_for_the_second() -> None:
        first.set()
        second.wait(PATIENCE_S)

    def waits_for_the_first() -> None:
        second.set()
        made.wait(PATIENCE_S)

    def behind() -> None:
        first.wait(PATIENCE_S)
        list(DataLoader(Numbers(), batch_sampler=Meeting(3, waits_for_the_first)))  # type: ignore[arg-type]

    with watching() as seen:
        other = threading.Thread(target=behind)
        other.start()
        for _ in DataLoader(Numbers(), batch_sampler=Meeting(2, waits_for_the_second)):  # type: ignore[arg-type]
            made.set()
        other.join()
    assert {(one.loader, one.samples) for one in seen.result.stages} == {(1, 2), (2, 3)}
