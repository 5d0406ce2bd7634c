"""An optimiser whose step calls a closure again and again: each phase is found to the nanosecond."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from clockwork import Clock, loop_by
from torch.utils.data import DataLoader

from pipebench import watching
from pipebench.watch.script.loop_place import Place, place_in

CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    loop_by(CLOCK, monkeypatch)


class Slow(torch.autograd.Function):
    """A backward of 7 µs."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        CLOCK.burn(7_000)
        return gradient


class Searching(torch.optim.Optimizer):
    """Calls the closure three times, and computes 2 µs before and after each call."""

    def __init__(self, weights: list[Any]) -> None:
        super().__init__(weights, {})

    def step(self, closure: Any = None) -> Any:
        for _ in range(3):
            CLOCK.burn(2_000)
            found = closure()
        CLOCK.burn(2_000)
        return found


def _phases(optimiser: Any, weight: Any, step: Callable[[Any, Any], Any]) -> tuple[dict[str, int], int]:
    """Nanoseconds of each phase in the last two of three iterations, and how often the closure ran in them."""
    calls: list[float] = []
    with watching() as seen:
        for numbers in DataLoader(torch.arange(6.0), 2):  # type: ignore[arg-type]

            def closure(numbers: Any = numbers) -> Any:
                calls.append(float(numbers[0]))
                optimiser.zero_grad()
                CLOCK.burn(5_000)
                loss = ((Slow.apply(weight) - numbers) ** 4).sum()
                loss.backward()
                CLOCK.burn(100)
                return loss

            step(optimiser, closure)
            CLOCK.burn(10)
    assert seen.result.iterations == 3
    return {one.phase: round(one.s_per_iteration * 2e9) for one in seen.result.loop if one.s_per_iteration}, len(
        [one for one in calls if one]
    )


@pytest.mark.parametrize(
    "step",
    [
        lambda optimiser, closure: optimiser.step(closure),
        lambda optimiser, closure: optimiser.step(closure=closure),
        lambda optimiser, closure: optimiser.step(lambda: closure()),
        lambda optimiser, closure: optimiser.step(functools.partial(Calling().call, closure)),
    ],
    ids=["by place", "by name", "lambda", "method in a partial"],
)
def test_what_a_closure_does_is_not_the_optimiser_s(step: Any) -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    found, calls = _phases(Searching([weight]), weight, step)
    assert calls == 6
    assert found == {"forward": 6 * 5_000, "backward": 6 * 7_000, "optimiser": 2 * 8_000, "other": 6 * 100 + 2 * 10}


class Calling:
    def call(self, closure: Any) -> Any:
        return closure()


class Projecting(torch.optim.SGD):
    """Its step takes a model, or whatever else one gives it, but no closure."""

    def step(self, model: Any = None, **how: Any) -> Any:  # type: ignore[override]
        super().step()
        return model, how


class Returning(torch.optim.SGD):
    """Its step gives back the closure that it got."""

    def step(self, closure: Any = None) -> Any:
        super().step()
        return closure


class Counted:
    """A closure with a state, which an optimiser may look at."""

    calls = 3

    def __call__(self) -> Any:
        raise AssertionError("nobody calls it")


def _given(optimiser: Any, *given: Any, **named: Any) -> Any:
    """What the step of an optimiser gets in a watched loop."""
    found = []
    with watching():
        for _ in DataLoader(torch.arange(2.0), 1):  # type: ignore[arg-type]
            found.append(optimiser.step(*given, **named))
    return found[-1]


@pytest.mark.parametrize("model", [torch.nn.Linear(1, 1), Counted(), len, lambda: None])
def test_what_is_not_a_closure_reaches_the_step_as_it_is(model: Any) -> None:
    optimiser = Projecting([torch.nn.Parameter(torch.ones(1))])
    assert _given(optimiser, model)[0] is model
    assert _given(optimiser, model=model)[0] is model
    assert _given(optimiser, other=model)[1] == {"other": model}


@pytest.mark.parametrize("closure", [torch.nn.Linear(1, 1), Counted(), None])
def test_an_object_that_is_a_closure_stays_itself(closure: Any) -> None:
    optimiser = Returning([torch.nn.Parameter(torch.ones(1))])
    assert _given(optimiser, closure) is closure
    assert _given(optimiser, closure=closure) is closure


def test_methods_and_partials_keep_what_they_hold() -> None:
    optimiser, calling = Returning([torch.nn.Parameter(torch.ones(1))]), Calling()
    method = _given(optimiser, calling.call)
    assert method.__self__ is calling and method.__name__ == "call" and method(lambda: 5) == 5
    part = _given(optimiser, functools.partial(calling.call, lambda: 6))
    assert part.func.__self__ is calling and len(part.args) == 1 and part() == 6


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs(search: str | None) -> None:
    """Its own computing takes no time by this clock, so the optimiser has no phase."""
    weight = torch.nn.Parameter(torch.ones(2))
    optimiser = torch.optim.LBFGS([weight], max_iter=4, line_search_fn=search)
    found, calls = _phases(optimiser, weight, lambda optimiser, closure: optimiser.step(closure))
    assert calls > 4
    assert found == {"forward": calls * 5_000, "backward": calls * 7_000, "other": calls * 100 + 20}


class Deriving(torch.optim.SGD):
    """Calls `super().step()` twice, with 5 µs of its own before each."""

    def __init__(self, weights: list[Any]) -> None:
        torch.optim.SGD(weights, lr=0.1)  # from the first optimiser of a class on, torch calls hooks around its step
        super().__init__(weights, lr=0.1)

    def step(self, closure: Any = None) -> Any:
        for _ in range(2):
            CLOCK.burn(5_000)
            super().step()
        return None if closure is None else closure()


def test_a_step_that_calls_the_step_of_its_base_class_is_one_step() -> None:
    weight = torch.ones(1, requires_grad=True)
    found, _ = _phases(Deriving([weight]), weight, lambda optimiser, closure: optimiser.step())
    assert found == {"optimiser": 2 * 10_000, "other": 2 * 10}


class Holding(torch.optim.SGD):
    """As a ZeroRedundancyOptimizer: computes 3 µs before and after the step of the optimiser that it holds."""

    def __init__(self, weights: list[Any]) -> None:
        super().__init__(weights, lr=0.1)
        self.held = Deriving(weights)

    def step(self, closure: Any = None) -> Any:
        CLOCK.burn(3_000)
        self.held.step()
        CLOCK.burn(3_000)


def test_the_step_of_an_optimiser_that_another_one_holds_is_a_part_of_that_one_s() -> None:
    weight = torch.ones(1, requires_grad=True)
    found, _ = _phases(Holding([weight]), weight, lambda optimiser, closure: optimiser.step())
    assert found == {"optimiser": 2 * 16_000, "other": 2 * 10}


def test_a_look_in_a_closure_finds_its_own_lines() -> None:
    """As if the loop had called it: torch's optimiser, which does, is left out."""
    weight, found = torch.nn.Parameter(torch.ones(1)), list[Place | None]()
    optimiser, loop = torch.optim.SGD([weight], 0.1), id(sys._getframe())
    with watching():
        for numbers in DataLoader(torch.arange(6.0), 2):  # type: ignore[arg-type]

            def closure(numbers: Any = numbers) -> Any:
                loss = (weight - numbers).sum()
                loss.backward()
                found.append(place_in(sys._getframe(), loop))
                return loss

            optimiser.step(closure)
    place = found[-1]
    assert place is not None and not (place.trains or place.in_step)
    (function,) = place.functions
    assert function.endswith("<locals>.closure") and [code.co_name for code, _ in place.path][1:] == ["closure"]
