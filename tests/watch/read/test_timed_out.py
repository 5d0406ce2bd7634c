"""A wait for a worker that ended with its loader's timeout is told as that. The times are made up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said
from torch.utils.data import DataLoader, Dataset

from pipebench import watching
from pipebench.watch.record.worker_lines import TimedOut
from pipebench.watch.script.lost_workers import LostWorkers

MESSAGE = "DataLoader timed out after 5 seconds"


def _codes(*timeouts: float, end: int = 5100) -> tuple[dict[str, float], str]:
    run = Planted()
    run.loader(**TRAINS, start_up=20, end_of_pass=end)
    run.worker(busy=0.1, cpu=1.0)
    run.lines += [TimedOut(1, one) for one in timeouts]
    account = run.account()
    return {one.code: one.s for one in account.causes}, said(account)


def test_the_loop_is_said_to_have_waited_for_a_worker() -> None:
    found, told = _codes(5.0)
    assert found["timed-out"] == pytest.approx(5.0) and "start-up" not in found
    assert "The loop over loader 1 waited for a worker until the timeout of its DataLoader (5 s): 5.00 s of" in told


def test_the_end_of_workers_is_what_is_left() -> None:
    found, _ = _codes(5.0, end=13_000)
    assert (found["timed-out"], found["start-up"]) == pytest.approx((5.0, 8.02))


@pytest.mark.parametrize("timeouts", [(), (0.0,)])
def test_without_a_timeout_it_is_the_end_of_workers(timeouts: tuple[float, ...]) -> None:
    found, _ = _codes(*timeouts)
    assert found["start-up"] == pytest.approx(5.12) and "timed-out" not in found


class OfUsers(RuntimeError):
    pass


@pytest.mark.parametrize(
    ("error", "known", "written"),
    [
        (RuntimeError(MESSAGE), True, [TimedOut(3, 5.0)]),
        (RuntimeError(MESSAGE), False, []),
        (RuntimeError("DataLoader worker (pid 7) is killed"), True, []),
        (OfUsers(MESSAGE), True, []),
        (StopIteration(), True, []),
    ],
)
def test_torchs_own_error_says_it(error: BaseException, known: bool, written: list[TimedOut]) -> None:
    found: list[Any] = []
    passes = {"iterator": SimpleNamespace(loader=3)} if known else {}

    class Iterator(str):
        _timeout = 5

    recording: Any = SimpleNamespace(write=found.append)
    LostWorkers(recording).failed(passes, Iterator("iterator"), error)
    assert found == written


class Hangs(Dataset[int]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        raise RuntimeError(MESSAGE)


def test_an_iterator_that_fails_is_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []

    def failed(self: Any, passes: Any, iterator: Any, error: BaseException) -> None:
        asked.append((passes[iterator].loader, str(error)))

    monkeypatch.setattr(LostWorkers, "failed", failed)
    with watching(), pytest.raises(RuntimeError, match=MESSAGE):
        next(iter(DataLoader(Hangs())))
    assert asked == [(1, MESSAGE)]
