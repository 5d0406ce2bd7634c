"""Spans in a loop: what is timed inside them, and what they are inside of, by a planted clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from clockwork import US, Clock, Training, phases_us, run_by
from torch.utils.data import DataLoader

from pipebench import span, watching
from pipebench.results.watched import WatchResult

CLOCK = Clock()
BATCHES = 3


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(CLOCK, monkeypatch)


def burn(microseconds: int) -> None:
    CLOCK.burn(microseconds * US)


def loader(**how: Any) -> Any:
    return DataLoader(torch.arange(2.0 * BATCHES), 2, **how)  # type: ignore[arg-type]


def spans_us(result: WatchResult) -> dict[str, float]:
    return {one.name: round(one.s_per_iteration * 1e6, 3) for one in result.spans}


def rows_us(result: WatchResult) -> dict[str, float]:
    """The microseconds of all iterations, by row of the account, of loops only."""
    account = result.account
    assert account is not None
    assert sum(round(one.s * 1e9) for one in account.rows) == round(account.wall_s * 1e9)
    return {one.code: round(one.s * 1e6, 3) for one in account.rows if one.s and one.loader}


def _run(step: Callable[[], object], **how: Any) -> WatchResult:
    with watching() as seen:
        for _ in loader(**how):
            step()
    return seen.result


class Indices:
    """A sampler of 10 µs for each index, of which a span is 6."""

    def __iter__(self) -> Iterator[int]:
        for index in range(2 * BATCHES):
            burn(4)
            with span("shuffle"):
                burn(6)
            yield index

    def __len__(self) -> int:
        return 2 * BATCHES


def test_a_span_inside_next_is_a_part_of_the_wait() -> None:
    result = _run(lambda: burn(7), sampler=Indices())
    assert phases_us(result) == {"wait": 20, "other": 7} and not result.spans
    assert [(one.part, round(one.share, 6)) for one in result.wait_parts] == [("sampler", 1.0)]
    assert rows_us(result) == {"sampler": BATCHES * 20, "other": BATCHES * 7}


def test_a_span_around_a_backward_and_a_step_has_the_rest() -> None:
    training = Training(CLOCK)

    def step() -> None:
        burn(3)
        with span("outer"):
            burn(1)
            with span("inner"):
                training.step()
        burn(2)

    result = _run(step)
    expected = {"forward": 3, "backward": 30, "optimiser": 5, "other": 2, "spans": 1 + 20 + 7}
    assert phases_us(result) == expected and spans_us(result) == {"outer": 1, "inner": 20 + 7}
    assert rows_us(result) == {name: BATCHES * spent for name, spent in expected.items()}


def test_the_batches_of_an_evaluation_inside_the_loop_are_told_from_those_of_training() -> None:
    """As nanoGPT's: the same function makes both. A function that only runs without gradients keeps its name."""
    training = Training(CLOCK)

    def step() -> None:
        with torch.no_grad():
            with span("get_batch"):
                burn(70)
            with span("look up"):
                burn(4)
        with span("get_batch"):
            burn(9)
        training.step()

    result = _run(step)
    assert spans_us(result) == {"get_batch without gradients": 70, "get_batch": 9, "look up": 4}


def test_a_span_around_another_loop_has_its_work() -> None:
    """The loop inside does not train, and its wait for each batch is 20 µs."""
    training, check = Training(CLOCK), loader(sampler=Indices())

    def step() -> None:
        training.step()
        with span("validate"):
            burn(1)
            for _ in check:
                burn(9)
            burn(2)

    result = _run(step)
    assert phases_us(result) == {"forward": 20, "backward": 30, "optimiser": 5, "other": 7, "spans": 3}
    assert result.account is not None
    (inside,) = [one.inside for one in result.account.rows if one.code == "validation"]
    spent = {one.code: round(one.s * 1e6, 3) for one in inside if one.s}
    assert spent == {"sampler": BATCHES * BATCHES * 20, "spans": BATCHES * BATCHES * 9}


def _around_a_span() -> None:
    burn(2)
    with span("on the host"):
        burn(3)
    burn(1)


class Offloaded(torch.autograd.Function):
    """Its backward is 3 µs and a span."""

    @staticmethod
    def forward(ctx: Any, value: Any) -> Any:
        return value * 1.0

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:  # type: ignore[override]
        _around_a_span()
        return gradient


class Offloading(torch.optim.Optimizer):
    """Its step is 3 µs and a span, before its closure and after it."""

    def __init__(self, weights: list[Any]) -> None:
        super().__init__(weights, {})

    def step(self, closure: Any = None) -> Any:
        _around_a_span()
        found = closure()
        _around_a_span()
        return found


def test_what_comes_before_a_span_in_a_backward_or_a_step_is_theirs() -> None:
    weight = torch.ones(1, requires_grad=True)
    optimiser = Offloading([weight])

    def closure() -> Any:
        burn(20)
        loss = Offloaded.apply(weight)
        loss.backward()
        return loss

    result = _run(lambda: optimiser.step(closure))
    expected = {"forward": 20, "backward": 3, "optimiser": 2 * 3, "spans": 3 * 3}
    assert phases_us(result) == expected and spans_us(result) == {"on the host": 9}
    assert rows_us(result) == {name: BATCHES * spent for name, spent in expected.items()}
