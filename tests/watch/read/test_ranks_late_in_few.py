"""A rank that holds the others up in a few steps only, as by a checkpoint, from planted times."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_ranks import MS, STEPS, _rank, _text

from pipebench.results.ranks import LateInFew, StepOfRank
from pipebench.watch.read.ranks import Rank, compared


def _late(number: int, steps: dict[int, tuple[float, float]]) -> Rank:
    """A rank like the others, but for some steps, in which it waits and works longer, in milliseconds."""
    made = _rank(number, 1)
    own = [*made.steps]
    for step, (wait_ms, work_ms) in steps.items():
        own[step] = StepOfRank(step, round(wait_ms * MS), round(work_ms * MS))
    return replace(made, steps=own)


@pytest.mark.parametrize("of", [2, 4])
@pytest.mark.parametrize(
    ("own", "part", "said"),
    [((1, 2005), "work", "by its own work before a collective"), ((2001, 5), "wait", "by waiting for batches")],
)
def test_the_rank_and_what_it_costs_are_said_and_not_a_cost_of_each_step(
    of: int, own: tuple[float, float], part: str, said: str
) -> None:
    found = compared(of, [_late(number, {60: own} if number == 1 else {}) for number in range(of)])
    assert found.straggler is None and found.held_up_by == 1
    assert found.late_in_few == LateInFew(1, 1, pytest.approx(2.0), part)  # type: ignore[arg-type]
    text = " ".join(_text(found).split())
    others = "the other rank waited" if of == 2 else "the others waited"
    assert f"Rank 1 came late to 1 step of 99, {said}: {others} 2.00 s for it (40 % of all steps)." in text
    assert "In the other steps, waiting for the last one costs next to nothing." in text
    assert "of each step" not in text


def test_what_the_other_steps_cost_is_said_too() -> None:
    uneven = {step: (1.0, 9.0) for step in range(1, STEPS, 2)}
    found = compared(2, [_late(0, uneven), _late(1, {60: (1, 2005)})])
    assert found.late_in_few is not None and found.late_in_few.s == pytest.approx(2.0)
    assert "waiting for the last one costs 2.04 ms." in " ".join(_text(found).split())


@pytest.mark.parametrize(
    "late",
    [
        [{60: (1, 1005)}, {61: (1, 1005)}],  # of both ranks
        [{}, {step: (1, 105) for step in range(10, 20)}],  # a tenth of the steps
        [{}, {60: (1, 20)}],  # little of the loop
    ],
)
def test_several_ranks_many_steps_or_little_time_are_no_such_rank(late: list[dict[int, tuple[float, float]]]) -> None:
    found = compared(2, [_late(number, its) for number, its in enumerate(late)])
    assert found.late_in_few is None and "came late" not in _text(found)


def test_a_rank_that_comes_last_at_no_cost_is_told_why() -> None:
    found = replace(compared(2, [_rank(0, 1), _rank(1, 1)]), cost_share=0.001)
    rows = (replace(found.rows[0], last_share=1.0, wait_s=0.02), replace(found.rows[1], last_share=0.0))
    text = " ".join(_text(replace(found, rows=rows)).split())
    assert "costs under 1 % of each step of 50.0 ms. Rank 0 comes last in 100 % of them" in text
    worked = (replace(rows[0], wait_s=0.0), rows[1])
    assert "comes last" not in _text(replace(found, rows=worked))
