"""A pass that is looked at: seeds, outputs of inputs that were not timed, and answers from a cache."""

import functools
import random

import numpy as np
import pytest
import torch

from pipebench.compare import one_pass
from pipebench.compare.leaves import Leaves
from pipebench.compare.open_call import OpenCall


def shown(step, seen=(1, 2, 3), unseen=(4, 5, 6, 7), **more):
    call = OpenCall(lambda: map(step, seen), unseen=(lambda: map(step, unseen)) if unseen else None, **more)
    for _ in range(3):
        call(None)
    return one_pass.shown(Leaves(), one_pass.of_call(call), 5, Leaves())


def work(value):
    made = 0
    for one in range(20):
        made += one * value
    return made


def remembering(memo):
    """A step that keeps its answers. The key and the work are plain operators, without any call."""

    def step(value):
        if value not in memo:
            memo[value] = value * 2 + 1
        return memo[value]

    return step


def last_answer():
    kept = []

    def step(value):
        if not kept:
            kept.append(work(value))
        return kept[0]

    return step


def test_seeds_make_all_generators_draw_the_same():
    drawn = []
    for number in (3, 3, 4):
        one_pass.seed(number)
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert drawn[0] == drawn[1] and all(one != other for one, other in zip(drawn[1], drawn[2], strict=True))


@pytest.mark.parametrize("step", [functools.cache(work), remembering({})], ids=["functools", "own"])
def test_an_answer_from_a_cache_is_seen(step):
    assert shown(step)["repeated"] == (4, 4)


def grows_for_one():
    """A step that sets something up for the value 5 only."""
    ready = set()

    def step(value):
        if value == 5 and not ready:
            ready.add(work(5))
        return work(value)

    return step


@pytest.mark.parametrize(
    ("step", "repeated"),
    [
        (work, 0),
        (lambda value: value + random.random(), 0),
        (lambda value: work(value) if random.random() < 0.5 else 0, 0),
        (functools.lru_cache(maxsize=1)(work), 0),  # four inputs in turn: it never answers
        (grows_for_one(), 1),  # less than half of the inputs: not judged as a cache
    ],
)
def test_honest_work_takes_as_many_steps_the_second_time(step, repeated):
    assert shown(step)["repeated"] == (repeated, 4)


def test_what_is_not_the_same_twice_is_no_answer_from_a_cache():
    """It takes fewer steps from call to call, but what it returns is new each time."""
    left = [50]

    def step(value):
        left[0] -= 1
        return work(value) + sum(1 for _ in range(left[0]))

    assert shown(step)["repeated"] == (0, 4)


def test_an_answer_that_ignores_its_input_shows_in_inputs_that_were_not_timed():
    found = [[one for one in shown(step, seen=(1,))["leaves"] if one[0] == "unseen"] for step in (work, last_answer())]
    assert found[0] != found[1]


def test_without_other_inputs_nothing_is_said_of_a_cache():
    assert shown(functools.cache(work), unseen=())["repeated"] == (0, 0)


def test_inputs_and_samples_are_shown():
    found = shown(work, given=lambda: [1, 2, 3], samples=lambda output: 2)
    assert [one[0] for one in found["leaves"]] == ["input"] * 3 + ["output"] * 3 + ["unseen"] * 4
    assert found["samples"] == 6


def test_a_call_returns_its_samples_and_one_that_shows_nothing_is_none():
    assert OpenCall(lambda: iter("abc"))(None) == 3
    assert one_pass.of_call(lambda given: 3) is None
