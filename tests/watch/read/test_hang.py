"""Ranks that made no step any more before they were ended: how long, and which of them hung."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_ranks import NOTHING, _rank

from pipebench.render import layout
from pipebench.render.programs import ends
from pipebench.render.ranks import parts
from pipebench.results.programs import Program
from pipebench.results.ranks import Hang, LastStep
from pipebench.watch.launch.exits import Exit
from pipebench.watch.read import hang
from pipebench.watch.read.gather import Process
from pipebench.watch.read.hang import hang_of, with_hang
from pipebench.watch.read.programs import _note_early
from pipebench.watch.read.ranks import compared
from pipebench.watch.record import program_lines
from pipebench.watch.record.lines import Line, Moment
from pipebench.watch.record.program_lines import OwnStep, OwnSteps
from pipebench.watch.record.spent import TimeSpent

S = 1_000_000_000
HUNG, WAITED = LastStep(12.4, 0.05, 29, 12.4), LastStep(15.1, 0.05, 29, 1.0)
ERRORS = ("RuntimeError: connection closed (graph.py:1082)", "KeyboardInterrupt (ddp.py:64)")


def _ended(*last: LastStep | None, **more: Any) -> list[Program]:
    return [
        Program(number, "ddp.py", 0.0, 20.0, "failed", rank=number, ranks=len(last), last_step=one, watched=NOTHING)
        if one is not None
        else Program(number, "ddp.py", 0.0, 20.0, "cut", rank=number, ranks=len(last), watched=NOTHING, **more)
        for number, one in enumerate(last)
    ]


def test_the_rank_that_hung_is_named_first_and_no_straggler_from_a_few_steps() -> None:
    ranks = [_rank(0, 21, steps=29), _rank(1, 1, steps=29)]
    assert compared(2, ranks).straggler == 0
    found = with_hang(compared(2, ranks), _ended(WAITED, HUNG))
    assert found.hang == Hang(12.4, (1,), (0,)) and found.straggler is None
    said = " ".join(layout.text(parts(found, errors=dict(enumerate(ERRORS)))).split())
    assert said.startswith(
        "Rank 1 hung: no rank made a step for 12.4 s before the end. Meanwhile, rank 0 waited in backward or another "
        "collective. What ended rank 1 shows where it was: KeyboardInterrupt (ddp.py:64). Own part of a step"
    )
    assert "comes last" not in said and "costs" not in said


def test_many_steps_before_a_hang_name_a_straggler_after_it() -> None:
    ranks = [_rank(0, 21, steps=200), _rank(1, 1, steps=200)]
    said = " ".join(layout.text(parts(with_hang(compared(2, ranks), _ended(WAITED, HUNG)))).split())
    assert said.startswith("Rank 1 hung") and "Before that: 2 ranks train together. Rank 0 comes last in 100 %" in said


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ((WAITED, LastStep(4.0, 0.05, 29, 4.0)), None),  # a failure that the others lost their connection by
        ((WAITED, LastStep(12.4, 1.3, 29, 12.4)), None),  # a step took 1.3 s before
        ((WAITED, LastStep(12.4, 0.05, 2, 12.4)), None),
        ((HUNG, HUNG), Hang(12.4)),  # a wait that is not seen as one
        ((WAITED, WAITED), Hang(15.1, (), (0, 1))),
        ((HUNG, replace(HUNG, made=28)), Hang(12.4, (1,))),
        ((HUNG, WAITED, HUNG), Hang(12.4, (0, 2), (1,))),
        ((WAITED, replace(HUNG, own_s=0.1, outside_s=12.3)), Hang(12.4, (1,), (0,), outside=True)),
        ((replace(HUNG, own_s=0.1, outside_s=12.3),) * 2, None),  # all of them had left their loops
        ((LastStep(60.0, 1.0), LastStep(61.0, 1.0)), Hang(60.0)),  # killed by a signal: no line at their end
    ],
)
def test_what_tells_which_rank_hung(last: tuple[LastStep, ...], found: Hang | None) -> None:
    assert hang_of(_ended(*last)) == found


def test_a_run_that_reached_its_end_has_not_hung() -> None:
    first, second = _ended(WAITED, HUNG)
    assert hang_of([first, replace(second, ended="ended")]) is None


def test_the_one_rank_that_was_killed_when_the_others_gave_up_waiting_hung() -> None:
    for left_s, ranks in ((33.0, (1,)), (30.0, ()), (None, ())):
        first, second = _ended(replace(WAITED, since_s=30.0), None, left_s=left_s)
        found = hang_of([replace(first, left_s=31.0), second])
        assert found is not None and found.ranks == ranks


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Hang(9.0), "The ranks hung: no rank made a step for 9.00 s before the end. Which of them held the others up"),
        (Hang(9.0, (), (0, 1)), "before the end, and all of them waited in backward or another collective."),
        (
            Hang(9.0, (1,), (0,), outside=True),
            "Rank 1 held the others up outside the training iterations (validation, a checkpoint): no rank made",
        ),
        (Hang(9.0, (0, 1, 2, 5, 7, 8)), "Ranks 0, 1, 2 and 3 more hung: no rank"),
    ],
)
def test_what_is_said(found: Hang, said: str) -> None:
    ranks = replace(compared(2, [_rank(0, 1), _rank(1, 1)]), hang=found)
    assert said in " ".join(layout.text(parts(ranks)).split())


def test_the_last_step_of_a_rank_is_read_from_its_last_line() -> None:
    line = program_lines.LastStep(40 * S, 29, 12 * S, S // 20, 10 * S, S)
    assert hang.last_step(Process([line]), None) == LastStep(12.0, 0.05, 29, 10.0, 1.0)


def test_of_a_killed_rank_the_lines_tell_when_its_loop_went_on() -> None:
    steps = OwnSteps([OwnStep(number, 1, 1) for number in range(9)])
    lines: list[Line] = [TimeSpent(0, 4 * S), steps, TimeSpent(4 * S, 5 * S), TimeSpent(5 * S, 7 * S)]
    found = hang.last_step(Process(lines), Exit(69 * S, -15))
    assert found == LastStep(pytest.approx(60.0), 2.0)
    assert hang.last_step(Process(lines), None) is None
    assert hang.last_step(Process([*lines, Moment("end", 8 * S)]), Exit(69 * S, -15)) is None


@pytest.mark.parametrize(
    ("gone_s", "last", "early"),
    [
        (9.0, LastStep(4.1, 0.05, 29, 0.1, 0.02), True),
        (11.0, LastStep(4.1, 0.05, 29, 0.1, 0.02), False),  # it left later
        (9.0, LastStep(4.1, 0.05, 29, 0.1, 4.0), False),  # the other one failed after its loop
        (9.0, None, False),
        (None, LastStep(4.1, 0.05, 29, 0.1, 0.02), False),
    ],
)
def test_a_rank_that_ended_while_another_one_was_in_its_steps_is_noted(
    gone_s: float | None, last: LastStep | None, early: bool
) -> None:
    ranks = _ended(HUNG, HUNG)
    found = [replace(ranks[0], last_step=last, left_s=10.0), replace(ranks[1], ended="ended", left_s=gone_s)]
    _note_early(found)
    assert [one.early for one in found] == [False, early]
    said = " ".join(" ".join(ends(found)).split())
    left = (
        "ddp.py (rank 1, process 1) ended without an error while other ranks were still in their training iterations."
    )
    assert (left in said) is early and ("failed, 1.00 s after rank 1 was gone" in said) is early
