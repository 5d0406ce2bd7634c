"""Loops that iterate no DataLoader: iterations by optimiser step, and the functions of `--span` as rows."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from clockwork import US, Clock, Slow, Training, phases_us, run_by, verdict_of
from torch.utils.data import DataLoader, TensorDataset

import pipebench
from pipebench import watching
from pipebench.results.watched import WatchResult
from pipebench.watch.script.loop_looks import LoopLooker
from pipebench.watch.script.loop_place import loops_in

CLOCK = Clock()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    run_by(CLOCK, monkeypatch)


def get_batch() -> torch.Tensor:
    """As nanoGPT's: 50 µs of its own, of which `crop` is another 8."""
    CLOCK.burn(50 * US)
    return crop()


def crop() -> torch.Tensor:
    CLOCK.burn(8 * US)
    return torch.ones(1)


def uncalled() -> None:
    """What nothing calls."""


class Program(Training):
    def run(self, iterations: int) -> None:
        for _ in range(iterations):
            self.step(sys.modules[__name__].get_batch())


def _run(iterations: int = 6, functions: tuple[str, ...] = ()) -> WatchResult:
    training = Program(CLOCK)
    with watching(functions=functions) as seen:
        CLOCK.burn(1_000 * US)
        training.run(iterations)
    return seen.result


def test_an_iteration_ends_where_the_optimiser_has_stepped() -> None:
    """The first step makes the loop known, and the second one is its begin."""
    result = _run()
    assert phases_us(result) == {"before-backward": 85, "backward": 30, "optimiser": 5}
    assert result.iterations == 4 and verdict_of(result).limit == "no-loader"
    assert [(one.loader, one.training, one.iterations) for one in result.loaders] == [(0, True, 4)]


def test_each_turn_is_known_where_the_stack_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = list[tuple[int, bool]]()
    monkeypatch.setattr(LoopLooker, "stepped", lambda self, number: turns.append((number, self.early(number))))
    _run()
    assert turns == [(0, True)] * 4


def test_a_function_of_span_is_a_row_in_the_loop() -> None:
    result = _run(functions=(f"{__name__}:get_batch", f"{__name__}:crop"))
    assert phases_us(result) == {"before-backward": 27, "backward": 30, "optimiser": 5, "spans": 58}
    assert {one.name: round(one.s_per_iteration * 1e6, 3) for one in result.spans} == {"get_batch": 50, "crop": 8}
    assert sum(one.share for one in result.spans) == pytest.approx(58 / 120)
    assert not result.notes


def test_a_block_of_span_is_one_too() -> None:
    training = Program(CLOCK)
    with watching() as seen:
        for _ in range(6):
            with pipebench.span("the data"):
                batch = get_batch()
            training.step(batch)
    assert [(one.name, round(one.s_per_iteration * 1e6, 3)) for one in seen.result.spans] == [("the data", 58)]


def test_the_account_has_every_microsecond() -> None:
    result = _run(functions=(f"{__name__}:get_batch",))
    assert result.account is not None
    rows = {one.code: round(one.s * 1e6) for one in result.account.rows if one.s}
    assert sum(round(one.s * 1e9) for one in result.account.rows) == round(result.account.wall_s * 1e9)
    assert rows == {
        "before-loops": 1_000 + 2 * 120 - 7, "before-backward": 4 * 27, "backward": 4 * 30, "optimiser": 4 * 5,
        "spans": 4 * 58, "after-loops": 7,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "lacks"),
    [
        (f"{__name__}:get_bach", "span-not-found", "function"),
        ("no_such_module:get_batch", "span-not-found", "module"),
        (f"{__name__}:uncalled", "span-not-run", None),
    ],
)
def test_a_span_that_matched_nothing_is_said(text: str, code: str, lacks: str | None) -> None:
    (note,) = _run(functions=(text,)).notes
    assert not isinstance(note, str)
    assert (note.code, note.values["span"], note.values.get("lacks")) == (code, text, lacks)


def test_steps_between_loops_over_a_loader_make_no_loop() -> None:
    """As when the last batches of a pass are trained on after the loader has ended."""
    training, loader = Program(CLOCK), DataLoader(TensorDataset(torch.ones(4)), 1)
    with watching() as seen:
        for _ in range(2):
            for (batch,) in loader:
                training.step(batch)
            training.run(5)
    assert [(one.loader, one.iterations) for one in seen.result.loaders] == [(1, 8)]
    assert verdict_of(seen.result).loader == 1


def test_a_loader_that_is_iterated_ends_the_loop() -> None:
    training, loader = Program(CLOCK), DataLoader(TensorDataset(torch.ones(4)), 1)
    with watching() as seen:
        training.run(5)
        for (batch,) in loader:
            training.step(batch)
    assert [(one.loader, one.iterations) for one in seen.result.loaders] == [(0, 3), (1, 4)]


class Several(Training):
    """Two optimisers step one after the other in a loop of their own, the second one in each `every`-th iteration."""

    def __init__(self, every: int) -> None:
        super().__init__(CLOCK)
        self.every, self.second = every, Slow([self.weight], CLOCK, 9)

    def run(self, iterations: int) -> None:
        for number in range(iterations):
            loss = self.weight * get_batch()
            CLOCK.burn(20 * US)
            loss.register_hook(lambda _: CLOCK.burn(30 * US))
            loss.backward()
            for one in (self.optimiser, self.second)[: 1 + (number % self.every == 0)]:
                one.step()
            CLOCK.burn(7 * US)


@pytest.mark.parametrize(("every", "optimiser", "iterations"), [(1, 14, 19), (4, 7.25, 19)])
def test_several_optimisers_step_in_one_iteration(every: int, optimiser: float, iterations: int) -> None:
    training = Several(every)
    with watching() as seen:
        training.run(21)
    found = phases_us(seen.result)
    assert seen.result.iterations == pytest.approx(iterations, abs=1)
    assert found["before-backward"] == pytest.approx(85, rel=0.1) and found["backward"] == pytest.approx(30, rel=0.1)
    assert found["optimiser"] == pytest.approx(optimiser, rel=0.15)


def test_the_loop_is_the_one_of_the_backward_and_not_that_of_the_optimisers(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = list[range | None]()
    turned = LoopLooker._turns

    def noted(self: LoopLooker, loader: int, loop: Any) -> None:
        loops.append(loop.inside)
        turned(self, loader, loop)

    monkeypatch.setattr(LoopLooker, "_turns", noted)
    with watching():
        Several(1).run(6)
    longest = max(loops_in(Several.run.__code__), key=len)
    assert loops and set(loops[1:]) == {longest}
