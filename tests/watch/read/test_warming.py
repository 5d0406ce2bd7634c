"""Workers that fill a cache anew in each pass: told from the times of their batches, which are made up."""

from __future__ import annotations

import random

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.watch.record.lines import HandedOver


def _run(cost: object, *, persistent: bool = False, wait: int = 1000, batches: int = 24, workers: int = 4) -> Planted:
    """Workers whose batch number n takes `cost(n)` ms. The loop waits for `wait` ms in its pass."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=wait, persistent=persistent)
    for number in range(workers):
        handed, now = [], 0
        for nth in range(batches):
            took = int(cost(nth) * MS)  # type: ignore[operator]
            handed.append(HandedOver(nth, 0, nth, now, now + took, now + took, now + took, 1, 10, 1, 100, 0, 0))
            now += took
        run.worker(number, handed=handed)
    return run


def test_a_cache_that_is_filled_in_each_pass() -> None:
    """The first batch counts as start. Of the others, 11 take 30 ms each and 12 take 10 ms."""
    account = _run(lambda nth: 500 if not nth else 30 if nth < 12 else 10).account()
    (cause,) = (one for one in account.causes if one.code == "warm-up")
    assert cause.values["early_s"] == pytest.approx(0.03) and cause.values["late_s"] == pytest.approx(0.01)
    assert cause.recoverable_s == cause.s == pytest.approx(0.5 * 2.0)  # half of the pass
    assert "takes a worker 30.0 ms, and one of the second 10.0 ms." in said(account)
    assert "persistent_workers=True could save about 1.00 s" in said(account)


def test_no_more_is_saved_than_the_loop_waited() -> None:
    causes = _run(lambda nth: 30 if nth < 12 else 10, wait=100).causes()
    assert causes["warm-up"].s == pytest.approx(0.1)


@pytest.mark.parametrize(
    "how",
    [
        {"cost": lambda nth: 20},
        {"cost": lambda nth: 30 if nth < 12 else 10, "persistent": True},
        {"cost": lambda nth: 30 if nth < 12 else 10, "wait": 0},
        {"cost": lambda nth: 30 if nth < 3 else 10, "batches": 8},
        {"cost": lambda nth: 10 if nth < 12 else 30},
        {"cost": lambda nth: 22 if nth < 12 else 20},
        {"cost": lambda nth: 30 if nth < 12 else 10, "workers": 2},
    ],
    ids=["even", "persistent", "no-wait", "few-batches", "later", "slightly", "two-workers"],
)
def test_else_nothing_is_said(how: dict[str, object]) -> None:
    assert "warm-up" not in _run(**how).causes()  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_a_skewed_cost_that_does_not_change_is_none(seed: int) -> None:
    draw = random.Random(seed)
    assert "warm-up" not in _run(lambda nth: draw.lognormvariate(2, 1)).causes()
