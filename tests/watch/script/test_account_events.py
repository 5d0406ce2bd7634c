"""The account of a run: amounts of time are planted with a clock that only the plants move, and each is in its row."""

from __future__ import annotations

import gc
import multiprocessing.context
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from clockwork import US, Clock, Training, phases_us, rows, run_by
from torch.utils.data import DataLoader, Dataset

from pipebench import watching
from pipebench.watch.record import recording
from pipebench.watch.record.lines import LoopSums

CLOCK = Clock()
BATCHES = 3


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(CLOCK, monkeypatch)


class Numbers(Dataset[Any]):
    """Each sample takes 2 µs in the process that makes it. A batch has two."""

    def __len__(self) -> int:
        return 2 * BATCHES

    def __getitem__(self, index: int) -> Any:
        CLOCK.burn(2 * US)
        return torch.tensor(float(index))


class Process(multiprocessing.context.ForkProcess):
    """A worker whose start takes 500 µs of the script, and whose end takes 300 µs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        CLOCK.burn(500 * US)
        super().__init__(*args, **kwargs)

    def join(self, timeout: float | None = None) -> None:
        CLOCK.burn(300 * US)
        super().join(timeout)


class Context(multiprocessing.context.ForkContext):
    Process = Process  # type: ignore[assignment]


class Indices:
    """A sampler that takes 10 µs for each index."""

    def __iter__(self) -> Iterator[int]:
        for index in range(2 * BATCHES):
            CLOCK.burn(10 * US)
            yield index

    def __len__(self) -> int:
        return 2 * BATCHES


TRAINED = {"forward": 20, "backward": 30, "optimiser": 5, "other": 7}


def loader(**how: Any) -> Any:
    return DataLoader(Numbers(), batch_size=2, **how)


def test_every_microsecond_is_in_its_row() -> None:
    batches, step = loader(sampler=Indices()), Training(CLOCK).step
    with watching() as seen:
        CLOCK.burn(1_000 * US)
        for _ in range(2):
            for _ in batches:
                step()
            CLOCK.burn(400 * US)
        CLOCK.burn(90 * US)
    assert rows(seen.result) == {
        "before-loops": 1_000,
        "start-up 1": 2 * 4,  # the first batch of each pass, without the sampler
        "sampler 1": 2 * BATCHES * 20,
        "make-batch 1": 2 * (BATCHES - 1) * 4,
        **{f"{name} 1": 2 * BATCHES * spent for name, spent in TRAINED.items()},
        "outside-loops": 400,
        "after-loops": 490,
    }


def test_validation_inside_training_is_counted_once() -> None:
    train, check, step = loader(), loader(), Training(CLOCK).step
    with watching() as seen:
        for _ in train:
            step()
            for number, _ in enumerate(check):
                CLOCK.burn(11 * US)
                if number == 1:
                    break
            CLOCK.burn(3 * US)
    assert rows(seen.result) == {
        "start-up 1": 4,
        "make-batch 1": (BATCHES - 1) * 4,
        **{f"{name} 1": BATCHES * (spent + 3 * (name == "other")) for name, spent in TRAINED.items()},
        "validation: start-up 2": BATCHES * 4,
        "validation: make-batch 2": BATCHES * 4,
        "validation: other 2": BATCHES * 22,
    }


def test_what_follows_a_loop_that_was_left_is_outside() -> None:
    batches = loader()
    with watching() as seen:
        for _ in range(2):
            for _ in batches:
                CLOCK.burn(10 * US)
                break
            CLOCK.burn(400 * US)
    assert rows(seen.result) == {"start-up 1": 8, "other 1": 20, "outside-loops": 400, "after-loops": 400}


def test_a_loop_that_was_left_in_its_first_iteration_has_trained() -> None:
    batches, step = loader(), Training(CLOCK).step
    with watching() as seen:
        for _ in range(2):
            for _ in batches:
                step()
                break
        for _ in batches:
            step()
    found = rows(seen.result)
    assert found["forward 1"] == (2 + BATCHES) * 20 and not [name for name in found if name.startswith("validation")]


def test_what_follows_a_loop_over_workers_that_persist_is_outside_too() -> None:
    """Their iterator lives on, but to iterate again shows that the loop was left."""
    batches = loader(num_workers=1, multiprocessing_context=Context(), persistent_workers=True)
    step = Training(CLOCK).step
    with watching() as seen:
        for _ in range(2):
            for _ in batches:
                step()
                break
            CLOCK.burn(400 * US)
        for _ in batches:
            step()
    found = rows(seen.result)
    assert found["outside-loops"] == 2 * (400 + TRAINED["other"])
    assert found["other 1"] == BATCHES * TRAINED["other"] and found["forward 1"] == (2 + BATCHES) * 20


def test_two_loaders_in_step_share_their_iterations() -> None:
    first, second, step = loader(), loader(), Training(CLOCK).step
    with watching() as seen:
        for _ in zip(first, second, strict=True):
            step()
    found = rows(seen.result)
    spent = {name: found.get(f"{name} 1", 0) + found.get(f"{name} 2", 0) for name in TRAINED}
    assert spent == {name: BATCHES * spent for name, spent in TRAINED.items()}
    assert [found[f"{name} {one}"] for name in ("start-up", "make-batch") for one in (1, 2)] == [4, 4, 8, 8]


@pytest.mark.parametrize(("how", "starts", "ends"), [({}, 2, 2), ({"persistent_workers": True}, 1, 0)])
def test_the_workers_of_each_pass_start_and_end(how: dict[str, Any], starts: int, ends: int) -> None:
    batches, step = loader(num_workers=2, multiprocessing_context=Context(), **how), Training(CLOCK).step
    with watching() as seen:
        for _ in range(2):
            for _ in batches:
                step()
        CLOCK.burn(50 * US)
    expected = {
        "start-up 1": starts * 1_000, "end-of-pass 1": ends * 600, "after-loops": 50,
        **{f"{name} 1": 2 * BATCHES * spent for name, spent in TRAINED.items()},
    }  # fmt: skip
    assert rows(seen.result) == {name: spent for name, spent in expected.items() if spent}
    account = seen.result.account
    assert account is not None
    saved = {one.code: one.recoverable_s for one in account.rows if one.reason == "persistent-workers"}
    assert saved.get("end-of-pass") == (None if how else pytest.approx(6e-4)) and ("start-up" in saved) == (not how)


def test_a_loop_whose_iterator_another_thread_frees_is_left() -> None:
    """As garbage collection does for an iterator that a trainer keeps as its own attribute."""

    def epoch() -> None:
        cycle = [iter(batches)]
        cycle.append(cycle)
        for _ in cycle[0]:
            CLOCK.burn(10 * US)
            break

    batches = loader()
    gc.disable()
    try:
        with watching() as seen:
            epoch()
            other = threading.Thread(target=gc.collect)
            other.start()
            other.join()
            CLOCK.burn(400 * US)
            for _ in batches:
                CLOCK.burn(20 * US)
                break
    finally:
        gc.enable()
    assert rows(seen.result) == {"start-up 1": 8, "outside-loops": 410, "other 1": 20}


def test_a_loop_goes_on_after_a_sample_that_failed() -> None:
    class Failing(Numbers):
        def __getitem__(self, index: int) -> Any:
            if index == 2:
                raise ValueError
            return super().__getitem__(index)

    with watching() as seen:
        batches = iter(DataLoader(Failing(), batch_size=2))
        next(batches)
        CLOCK.burn(10 * US)
        with pytest.raises(ValueError):
            next(batches)
        for _ in batches:
            CLOCK.burn(20 * US)
    assert rows(seen.result) == {"start-up 1": 4, "other 1": 30, "make-batch 1": 4}


def test_workers_that_end_with_a_loop_that_was_left() -> None:
    batches = loader(num_workers=2, multiprocessing_context=Context())
    with watching() as seen:
        for _ in batches:
            CLOCK.burn(10 * US)
            break
        CLOCK.burn(50 * US)
    assert rows(seen.result) == {"start-up 1": 1_000, "other 1": 10, "end-of-pass 1": 600, "after-loops": 50}


def test_a_loop_in_another_thread_is_beside_the_account() -> None:
    def loop() -> None:
        for _ in loader():
            CLOCK.burn(10 * US)

    with watching() as seen:
        for _ in loader():
            CLOCK.burn(10 * US)
        other = threading.Thread(target=loop)
        other.start()
        other.join()
    assert rows(seen.result) == {"start-up 1": 4, "make-batch 1": 8, "other 1": 30, "after-loops": 42}
    assert seen.result.account is not None and round(seen.result.account.beside_s * 1e6) == 42


def test_what_is_not_recorded_is_a_row() -> None:
    from pipebench.watch.read.account import spent_in
    from pipebench.watch.read.gather import Process
    from pipebench.watch.record.lines import Moment, ProcessStarted
    from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

    rows = [1] * len(ROWS)
    lines = [
        ProcessStarted(1, "script", 100),
        TimeSpent(100, 150, 50, "before"),
        TimeSpent(150, 150 + 4 + len(ROWS), 4, "between", [SpentInPass(1, 0, rows)]),
    ]
    for end, last in (([], "not-recorded"), ([Moment("end", 180)], "exit")):
        found = spent_in(Process([*lines, *end]), (90, 300))
        assert found is not None and found.passes == {(1, 0): rows}
        assert found.outside == {
            "interpreter": 10, "before-loops": 50, "outside-loops": 4, last: 300 - 154 - len(ROWS),
        }  # fmt: skip


def test_what_recording_takes_is_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of an iteration takes 400 µs here. It lies in no phase of the loop, and in no wait."""
    whole = recording.Recording.write

    def write(self: Any, *lines: Any) -> None:
        CLOCK.burn(400 * US * sum(isinstance(one, LoopSums) for one in lines))
        whole(self, *lines)

    monkeypatch.setattr(recording.Recording, "write", write)
    with watching() as seen:
        step = Training(CLOCK).step
        for _ in loader():
            step()
    found = rows(seen.result)
    assert {name: found[f"{name} 1"] for name in TRAINED} == {name: BATCHES * spent for name, spent in TRAINED.items()}
    assert found["make-batch 1"] == (BATCHES - 1) * 4
    assert found["recording 1"] == BATCHES * 400
    assert phases_us(seen.result) == {"wait": 4, **TRAINED}
