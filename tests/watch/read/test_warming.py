"""Workers that fill a cache anew in each pass: told from the times of their batches, which are made up."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.watch.record.lines import HandedOver


def _run(
    cost: Callable[[int], float], *, persistent: bool = False, wait: int = 1000, batches: int = 25, passes: int = 3,
    workers: int = 2, size: Callable[[int], int] = lambda nth: 100, iterable: bool = False,
) -> Planted:  # fmt: skip
    """Workers whose batch number n takes `cost(n)` ms in each pass. The loop waits for `wait` ms in a pass."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=wait, persistent=persistent, passes=passes, iterable=iterable)
    for number in range(workers * passes):
        handed, now = [], 0
        for nth in range(batches):
            took = int(cost(nth) * MS)
            times = now, now + took, now + took, now + took
            handed.append(HandedOver(nth, number // workers, nth, *times, 1, 10, 1, size(nth), 0, 0))
            now += took
        run.worker(number, handed=handed)
    return run


def _filling(nth: int) -> float:
    """The first two batches count as start. Of the others, 11 take 30 ms each and 12 take 10 ms."""
    return 500 if nth < 2 else 30 if nth < 13 else 10


def test_a_cache_that_is_filled_in_each_pass() -> None:
    account = _run(_filling).account()
    (cause,) = (one for one in account.causes if one.code == "warm-up")
    assert cause.values["early_s"] == pytest.approx(0.03) and cause.values["late_s"] == pytest.approx(0.01)
    assert cause.recoverable_s == cause.s == pytest.approx(0.5 * 2 * 2.0) and cause.unsure  # of the two later passes
    assert "takes a worker 30.0 ms, and one of the second 10.0 ms, as where workers fill a cache" in said(account)
    assert "persistent_workers=True could save about 2.00 s" in said(account)


def test_no_more_is_saved_than_the_loop_waited() -> None:
    assert _run(_filling, wait=100).causes()["warm-up"].s == pytest.approx(0.3)


@pytest.mark.parametrize(
    "how",
    [
        {"cost": lambda nth: 20},
        {"cost": _filling, "persistent": True},
        {"cost": _filling, "iterable": True},
        {"cost": _filling, "wait": 0},
        {"cost": lambda nth: 30 if nth < 5 else 10, "batches": 9},
        {"cost": lambda nth: 10 if nth < 13 else 30},
        {"cost": lambda nth: 22 if nth < 13 else 20},
        {"cost": _filling, "passes": 1, "workers": 4},
        {"cost": _filling, "passes": 2, "workers": 4},
        {"cost": _filling, "workers": 1},
        {"cost": _filling, "size": lambda nth: 3000 if nth < 13 else 1000},
    ],
    ids=[
        "even", "persistent", "stream", "no-wait", "few-batches", "later", "slightly", "one-pass", "two-passes",
        "two-workers", "long-samples-first",
    ],
)  # fmt: skip
def test_else_nothing_is_said(how: dict[str, Any]) -> None:
    assert "warm-up" not in _run(**how).causes()


def test_a_skewed_cost_that_does_not_change_is_hardly_ever_one() -> None:
    """It is one in 0.5 % of runs: in more than two of 40 with a chance of 0.1 %."""

    def told(seed: int) -> bool:
        draw = random.Random(seed)
        return "warm-up" in _run(lambda nth: draw.lognormvariate(2, 1)).causes()

    assert sum(map(told, range(40))) <= 2
