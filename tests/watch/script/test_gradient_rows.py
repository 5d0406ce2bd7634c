"""Rows of its largest parameter that an optimiser gets a gradient of, and what is said of those without."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from looked_at import made_up_recording
from planted_runs import TRAINS, Planted, said

from pipebench.watch.record.program_lines import GradientRows
from pipebench.watch.script import gradient_rows
from pipebench.watch.script.gradient_rows import RowLooks, rows_of


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_rows, "_LEAST", 100)


def _after(rows: Any, sparse: bool = False) -> Any:
    table, rest = torch.nn.Embedding(50, 4, sparse=sparse), torch.nn.Linear(4, 1)
    kind: Any = torch.optim.SGD if sparse else torch.optim.Adam
    optimiser = kind([*table.parameters(), *rest.parameters()])
    rest(table(torch.tensor(rows))).sum().backward()
    optimiser.step()
    return optimiser


def test_the_rows_of_a_batch_have_a_gradient() -> None:
    assert rows_of(_after([3, 7, 7])) == GradientRows("Adam", 205, 200, 50, 50, 2)
    assert rows_of(_after(list(range(50)))) == GradientRows("Adam", 205, 200, 50, 50, 50)


@pytest.mark.parametrize("made", [lambda: _after([1], sparse=True), lambda: torch.optim.SGD([torch.ones(300)])])
def test_sparse_gradients_and_other_parameters_are_not_told(made: Any) -> None:
    assert rows_of(made()) is None
    assert rows_of(torch.optim.SGD([torch.nn.Parameter(torch.ones(50, 4))])) is None  # no gradient


def test_few_steps_are_looked_at_and_gradients_stay_as_they_are() -> None:
    recording: Any = made_up_recording()
    recording.guarded = lambda _, act, *args: act(*args)
    looks, optimiser = RowLooks(recording), _after([3])
    before = optimiser.param_groups[0]["params"][0].grad.clone()
    for _ in range(30):
        looks.stepped(optimiser)
    assert len(recording.written) == 4
    assert torch.equal(before, optimiser.param_groups[0]["params"][0].grad)


@pytest.mark.parametrize(
    ("optimiser", "largest", "touched", "told"),
    [(1500, 190, 1, True), (100, 190, 1, False), (1500, 90, 1, False), (1500, 190, 20, False)],
)
def test_steps_over_rows_without_a_gradient_are_a_cause(optimiser: int, largest: int, touched: int, told: bool) -> None:
    run = Planted()
    run.loader(**{**TRAINS, "optimiser": optimiser})
    run.lines += [GradientRows("Adam", 200, largest, 50_000, 100, few) for few in (0, touched)]
    account = run.account()
    assert ("optimiser" in {one.code for one in account.causes}) is told
    if told:
        text = said(account)
        assert text.startswith("The steps of Adam took 1.50 s of the run's")
        assert "over 50,000 rows of its largest parameter, of which about 1 % have a gradient" in text
