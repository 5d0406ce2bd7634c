"""Ranks whose steps do not tell all: waits that hide in a rank's own work, and what it does outside its loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from made_up_trials import LOADER
from simulated_ranks import NOTHING

from pipebench.render import layout
from pipebench.render.ranks import parts
from pipebench.results.batches import DeviceIdle
from pipebench.results.ranks import Ranks, StepOfRank
from pipebench.results.watched import PhaseResult, WorkerResult
from pipebench.watch.read.programs import steps_of
from pipebench.watch.read.ranks import Rank, compared
from pipebench.watch.record.program_lines import OwnStep

MS = 1_000_000
STEPS = 100
Ms = Callable[[int], float]


def _rank(
    number: int, wait: Ms, work: Ms, outside: Ms = lambda step: 0, step_s: float = 0.125, load_s: float = 0.0
) -> Rank:
    """A rank whose steps have these milliseconds. Its worker, if it has one, makes a batch in `load_s`."""
    steps = [
        StepOfRank(step, *(round(each(step) * MS) for each in (wait, work, outside)), made=step + 1)
        for step in range(STEPS)
    ]
    found = replace(NOTHING, iterations=STEPS, loop=(PhaseResult("forward", step_s, 1.0),))
    if load_s:
        worker = WorkerResult(1, 0, (), STEPS, STEPS, 0, load_s * STEPS, 0.0, 1.0, 0.0, 0, True)
        found = replace(found, loaders=(replace(LOADER, workers=1),), workers=(worker,))
    return Rank(number, number, steps, found)


def _with_device(ranks: Sequence[Rank], idle_s: Sequence[float]) -> list[Rank]:
    idle = [DeviceIdle(one, one / 0.125, STEPS) for one in idle_s]
    return [
        replace(rank, watched=replace(rank.watched, device_idle=one)) for rank, one in zip(ranks, idle, strict=True)
    ]


def _said(found: Ranks, full: bool = False) -> str:
    return " ".join(layout.text(parts(found, full=full), width=80).split())


def _waits_in_its_work() -> list[Rank]:
    """Rank 1 loads for 120 ms and works 14. Rank 0 loads for 20, and waits for it in `loss.item()`."""
    return [
        _rank(0, lambda step: 1, lambda step: 123 + step % 2, load_s=0.020),
        _rank(1, lambda step: 110, lambda step: 14.5, load_s=0.120),
    ]


def test_own_parts_that_are_equally_long_though_waits_differ_tell_no_cost() -> None:
    found = compared(2, _waits_in_its_work())
    assert (found.hidden, found.straggler, found.cost_s, found.cost_share) == ("work", None, 0, 0)
    said = _said(found)
    assert "Their own parts of a step are equally long, though they do not wait equally long for batches." in said
    assert "what the last of them costs is not known" in said and "holds the others up" not in said


def test_with_a_device_the_waits_while_it_is_idle_tell_the_cost() -> None:
    found = compared(2, _with_device(_waits_in_its_work(), (0.0, 0.110)))
    assert (found.hidden, found.straggler, found.part) == ("device", 1, "wait")
    assert found.behind_s == pytest.approx(0.109)
    assert found.cost_share == found.saved_share == pytest.approx(0.105 / 0.125)  # the other's workers need 20 ms
    assert [one.last_share for one in found.rows] == [0, 1]
    said = _said(found, full=True)
    assert "That costs 105 ms of each step of 125 ms (84 %; predicted, not verified on a GPU)." in said
    assert "In all, rank 1 costs the job 84 %" in said
    assert "last: share of the steps in which it waited longest for batches." in said


def test_a_wait_in_which_the_device_is_busy_costs_nothing_and_nobody_is_cleared() -> None:
    found = compared(2, _with_device(_waits_in_its_work(), (0.0, 0.001)))
    assert found.straggler is None and found.cost_share == pytest.approx(0.008)
    said = _said(found)
    assert "Longer waits for batches on one of them cost 1.00 ms of each step of 125 ms (1 %)." in said
    assert "Whether one works longer is not known" in said and "not verified on a GPU" in said
    assert "holds the others up" not in said


def test_with_a_device_of_ranks_without_workers_the_one_that_waits_is_named() -> None:
    ranks = [_rank(0, lambda step: 20, lambda step: 100), _rank(1, lambda step: 80, lambda step: 40)]
    found = compared(2, _with_device(ranks, (0.020, 0.080)))
    assert (found.straggler, found.cost_share) == (1, pytest.approx(0.060 / 0.125))


def test_equal_waits_with_a_device_name_nobody() -> None:
    """Which of them works longer is not told."""
    ranks = [_rank(number, lambda step: 20, lambda step: 100, load_s=0.1) for number in range(4)]
    found = compared(4, _with_device(ranks, (0.020,) * 4))
    assert (found.straggler, found.cost_share) == (None, 0) and "holds the others up" not in _said(found)


def test_of_two_ranks_the_named_one_costs_alone_most_of_what_both_cost() -> None:
    """Rank 1 is 20 ms late in seven steps of ten, and rank 0 in the others."""

    def late(of_three: bool) -> Ms:
        return lambda step: 50 if (step % 10 in (1, 4, 7)) == of_three else 30

    found = compared(2, [_rank(0, lambda step: 1, late(True)), _rank(1, lambda step: 1, late(False))])
    assert found.cost_share == pytest.approx(0.020 / 0.125) and found.straggler is None
    assert "In all" not in _said(found) and "No single rank is shown to cause it." in _said(found)


@pytest.mark.parametrize("of", [2, 4])
def test_what_one_rank_does_between_its_loops_is_told_apart(of: int) -> None:
    """Rank 0 validates for 1 s before each 20th step of 11.5 ms; then the others are in a barrier."""
    usual = [_rank(number, lambda step: 0, lambda step: 10, step_s=0.0115) for number in range(1, of)]
    alone = _rank(0, lambda step: 0, lambda step: 10, lambda step: 1000 * (step % 20 == 0), step_s=0.0115)
    found = compared(of, [alone, *usual])
    assert (found.straggler, found.cost_share) == (None, 0)
    assert found.outside_rank == 0 and found.outside_s == pytest.approx(4.0)
    assert found.outside_share == pytest.approx(4 / (4 + 99 * 0.0115))
    said = _said(found)
    assert "None holds the others up" not in said
    assert "Within the steps, waiting for the last one costs under 1 % of each step of 11.5 ms." in said
    others = "the other rank, which waits" if of == 2 else "the median of the others, and they wait"
    assert f"start of passes), rank 0 spends 4.00 s more than {others} meanwhile: 78 % of" in said


def _in_passes(rank: Rank, iterations: int) -> Rank:
    """A rank that made so many iterations, each with a step, in two passes."""
    loader = replace(LOADER, passes=2)
    found = replace(rank.watched, loaders=(loader,), iterations=iterations, warmup_iterations=0)
    return replace(rank, steps=rank.steps[:iterations], watched=found)


def test_a_rank_with_fewer_iterations_a_pass_waits_for_the_other_one_at_the_end_of_it() -> None:
    """Rank 1 waits in `join` for 500 ms after its 20 iterations of 10 ms, in which rank 0 makes 30 more."""
    long = _in_passes(_rank(0, lambda step: 0, lambda step: 10, step_s=0.0115), 100)
    short = _rank(1, lambda step: 0, lambda step: 10, lambda step: 500 * (step == 20), step_s=0.0115)
    found = compared(2, [long, _in_passes(short, 40)])
    assert (found.uneven, found.outside_rank, found.steps) == (((0, 50), (1, 20)), None, 19)
    said = _said(found)
    assert "Rank 0 trained 50 iterations a pass, and rank 1 20: rank 1 waits at the end of each pass for the" in said
    assert "Within the steps, waiting for the last one costs" in said and "Between its training" not in said
    three = compared(3, [long, replace(long, rank=2), _in_passes(short, 40)])
    assert "those with fewer wait at the end of each pass" in _said(three)


@pytest.mark.parametrize("why", ["as many steps", "cut", "nearly as many", "more passes"])
def test_other_numbers_of_iterations_make_no_rank_wait_at_the_end_of_a_pass(why: str) -> None:
    one = _in_passes(_rank(0, lambda step: 0, lambda step: 10), 100)
    other = _in_passes(_rank(1, lambda step: 0, lambda step: 10), 99 if why == "nearly as many" else 40)
    if why == "as many steps":  # it makes one of two and a half iterations on the other
        other = replace(other, steps=one.steps)
    elif why == "cut":
        other = replace(other, ended="cut")
    elif why == "more passes":
        other = replace(other, watched=replace(other.watched, loaders=(LOADER,)))
    assert compared(2, [one, other]).uneven is None


@pytest.mark.parametrize("of", [2, 4])
def test_a_rank_that_comes_late_to_the_process_group_is_told(of: int) -> None:
    usual = [_rank(number, lambda step: 0, lambda step: 10) for number in range(of)]
    met = [replace(one, joined_s=0.25 if one.rank == 1 else 6.5) for one in usual]
    found = compared(of, met)
    assert found.late == (1, 6.25)
    others = "the other rank, which waited" if of == 2 else "the median of the others, and they waited"
    assert f"Before the training, rank 1 came to init_process_group 6.25 s after {others} there for it." in _said(found)
    assert "None holds the others up" not in _said(found)
    assert compared(of, [*met[:-1], replace(met[-1], joined_s=None)]).late is None
    assert compared(of, [replace(one, joined_s=0.5 + 0.25 * one.rank) for one in usual]).late is None


def test_what_all_ranks_do_between_their_loops_makes_none_of_them_wait() -> None:
    """They validate for 1 s, and one of them is longer in its next step instead."""
    shares = [_rank(number, lambda step: 0, lambda step: 10, lambda step: 1000 * (step % 20 == 0)) for number in (0, 1)]
    assert compared(2, shares).outside_rank is None
    later = [
        _rank(0, lambda step: 0, lambda step: 10, lambda step: 1000 * (step % 20 == 0)),
        _rank(1, lambda step: 990 * (step % 20 == 0), lambda step: 10),
    ]
    assert compared(2, later).outside_s == pytest.approx(4 * 0.010)


def test_a_checkpoint_inside_the_loop_costs_what_the_others_wait_for_it() -> None:
    """Rank 0 saves for 1 s in each 20th step; the mean step is then 60 ms long, on all ranks."""
    saves = _rank(0, lambda step: 0, lambda step: 5 + 1000 * (step % 20 == 10), step_s=0.060)
    found = compared(2, [saves, _rank(1, lambda step: 0, lambda step: 5.1 - 0.2 * (step % 2), step_s=0.060)])
    assert found.cost_share == pytest.approx(5 / 99 / 0.060, rel=0.01)
    assert "None holds the others up" not in _said(found)


def test_a_step_is_as_long_as_on_the_rank_that_waits_for_no_other_one() -> None:
    """Rank 1 waits in backward for the validation of rank 0, inside an iteration of its own."""
    ranks = [_rank(0, lambda step: 1, lambda step: 5, step_s=0.010), _rank(1, lambda step: 1, lambda step: 5)]
    assert compared(2, ranks).step_s == compared(2, ranks[::-1]).step_s == pytest.approx(0.010)


def test_steps_of_another_loop_are_not_counted() -> None:
    """After 50 steps over loader 1, each step over loader 2 comes with one over loader 3. Loader 2 is shown."""
    made = [OwnStep(number, 0, MS, 0, 1, number + 1) for number in range(50)]
    made += [OwnStep(50 + number, 0, MS, 0, 2 + number % 2, 1 + number // 2) for number in range(200)]
    steps = list(steps_of(made, (2,)))
    assert [one.so_far for one in steps] == list(range(1, 101)) and [one.number for one in steps][:2] == [50, 52]
    found = replace(NOTHING, iterations=200, warmup_iterations=0, loop=(PhaseResult("wait", 0.01, 1.0),))
    assert compared(2, [Rank(number, number, steps, found) for number in range(2)]).step_s == pytest.approx(0.02)
    assert [one.so_far for one in steps_of(made, (2, 3))] == list(range(1, 201))
    assert len(list(steps_of([OwnStep(0, 0, MS)], (1,)))) == 1  # outside all loops
