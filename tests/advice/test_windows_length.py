"""How long the windows of a trial are: longer where slow iterations are rare, so that every window has some."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from made_up_trials import seen

from pipebench.advise.trial import has_room, needed_s, window_s
from pipebench.results.advice import Change

BUDGET_S = 180.0  # its windows last 1 s or more: ten iterations of `seen()`
MORE = Change("num_workers", {"num_workers": 4}, "")


def _rarely(each: int, slow: float = 1.0, number: int = 600) -> list[float]:
    """0.1 s or so on average, with slow iterations at random."""
    chance = random.Random(11)
    return [slow if chance.random() < 1 / each else 0.05 for _ in range(number)]


def test_windows_of_even_iterations_are_short():
    chance = random.Random(11)
    noisy = [0.1 + chance.gauss(0, 0.02) for _ in range(200)]
    in_bursts = [0.19, 0.01] * 100  # two workers that finish together
    for lengths in ((), [0.1] * 100, noisy, in_bursts):
        assert window_s(replace(seen(), lengths=lengths), BUDGET_S) == 1.0


def test_windows_hold_enough_of_the_slow_iterations():
    """Their means scatter by what a pair may, where those of windows of 1 s scatter by more than twice as much."""
    lengths = _rarely(20, slow=0.5)
    figures = replace(seen(), lengths=lengths)
    found = window_s(figures, BUDGET_S)
    more = _rarely(20, slow=0.5, number=60_000)

    def scatter(seconds: float) -> float:
        block = round(seconds / figures.iteration_s)
        means = [fmean(more[begin : begin + block]) for begin in range(0, len(more) - block, block)]
        return stdev(means) / fmean(means)

    assert scatter(1.0) > 0.35 and scatter(found) == pytest.approx(0.15, rel=0.5)


def test_no_window_takes_more_than_its_part_of_the_budget():
    rare = replace(seen(), lengths=_rarely(50, slow=20.0))
    assert window_s(rare, BUDGET_S) == 9.0 and window_s(rare, 60.0) == 3.0


def test_a_pass_without_room_for_long_windows_is_tried_whole():
    figures = seen(batches=200)
    assert has_room(figures, MORE, BUDGET_S)
    assert not has_room(replace(figures, lengths=_rarely(20)), MORE, BUDGET_S)


def test_few_iterations_tell_nothing():
    assert window_s(replace(seen(), lengths=[0.1, 5.0, 0.1]), BUDGET_S) == 1.0


def test_in_a_long_pass_one_pair_of_windows_is_enough():
    """A pair of 2 and 4 workers takes 58 batches of 0.1 s; two passes take 16 s or more of 180 s."""
    room = [one for one in range(10, 200) if has_room(replace(seen(), batches=one), MORE, BUDGET_S)]
    pair = min(one for one in room)
    assert 2 * pair * 0.1 > BUDGET_S / 12 or has_room(replace(seen(), batches=2 * pair), MORE, BUDGET_S)
    assert room == list(range(pair, 200))


@pytest.mark.parametrize(("passes", "iterations", "room"), [(1, 40, True), (2, 60, False), (2, 6_000, True)])
def test_a_pass_whose_length_no_loader_says_is_as_long_as_those_that_were_seen(passes, iterations, room):
    figures = seen(batches=None)
    figures = replace(figures, loader=replace(figures.loader, passes=passes, iterations=iterations))
    assert has_room(figures, MORE, BUDGET_S) is room
    assert (needed_s(figures, True, BUDGET_S) is None) is (passes == 1)
