"""A loader that is made anew for each epoch is one loader; two loaders of one line are two."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from pipebench import watching

NUMBERS: Any = TensorDataset(torch.arange(8.0))


def _made(dataset: Any, **how: Any) -> Any:
    return DataLoader(dataset, 2, **how)


@pytest.mark.parametrize("workers", [0, 1])
def test_one_loader_for_all_epochs(workers: int) -> None:
    with watching() as seen:
        for _ in range(3):
            loader = _made(TensorDataset(torch.arange(8.0)), num_workers=workers)
            for _ in loader:
                pass
    (found,) = seen.result.loaders
    assert (found.passes, found.iterations, found.samples, found.again) == (3, 12, 24, 2)
    assert found.file == __file__ and found.line == _made.__code__.co_firstlineno + 1
    assert [one.loader for one in seen.result.stages if one.kind == "collate"] == [1]
    assert len({one.pids for one in seen.result.workers}) == workers


def test_loaders_of_one_line_for_two_datasets_are_two() -> None:
    with watching() as seen:
        loaders = [DataLoader(TensorDataset(torch.arange(8.0)), 2) for _ in range(2)]
        for loader in loaders:
            for _ in loader:
                pass
    assert [(one.loader, one.passes, one.again) for one in seen.result.loaders] == [(1, 1, 0), (2, 1, 0)]


def test_loaders_that_are_iterated_together_are_two() -> None:
    with watching() as seen:
        for _ in zip(*[_made(NUMBERS) for _ in range(2)], strict=True):
            pass
    assert [one.passes for one in seen.result.loaders] == [1, 1]


@pytest.mark.parametrize("other", [{"shuffle": True}, {"batch_size": 4}, {"num_workers": 1}])
def test_other_settings_make_another_loader(other: dict[str, Any]) -> None:
    with watching() as seen:
        for how in ({}, other):
            loader: Any = DataLoader(NUMBERS, **{"batch_size": 2, **how})  # type: ignore[arg-type]
            for _ in loader:
                pass
    assert [one.passes for one in seen.result.loaders] == [1, 1]


def test_other_lengths_make_another_loader() -> None:
    with watching() as seen:
        for length in (8, 6):
            loader = _made(TensorDataset(torch.arange(float(length))))
            for _ in loader:
                pass
    assert [one.iterations for one in seen.result.loaders] == [4, 3]


@pytest.mark.parametrize(("trains", "passes"), [("TTTT", [1, 3]), ("----", [1, 3]), ("T-TT", [1, 1, 1, 1])])
def test_of_a_line_that_makes_other_lengths_again_and_again_all_but_the_first_are_one(
    trains: str, passes: list[int]
) -> None:
    """As of clients, files or folds. Where one trained and another did not, they may be training and validation."""
    weight = torch.ones(1, requires_grad=True)
    with watching() as seen:
        for trained, length in zip(trains, (8, 6, 10, 4), strict=True):
            for (batch,) in _made(TensorDataset(torch.arange(float(length)))):
                loss = (weight * batch).sum()
                if trained == "T":
                    loss.backward()  # type: ignore[no-untyped-call]
    assert [one.passes for one in seen.result.loaders] == passes


def test_loaders_of_other_lengths_that_live_together_are_not_one() -> None:
    loaders = [_made(TensorDataset(torch.arange(float(length)))) for length in (8, 6, 10)]
    with watching() as seen:
        for loader in loaders:
            for _ in loader:
                pass
    assert [one.passes for one in seen.result.loaders] == [1, 1, 1]


def test_a_loader_that_is_reached_in_other_ways_is_one() -> None:
    """As Lightning's: the first epoch calls the user's function from another place than the later ones."""

    def later() -> Any:
        return _made(NUMBERS)

    with watching() as seen:
        for make in (lambda: _made(NUMBERS), later, later):
            for _ in make():
                pass
    assert [(one.passes, one.again) for one in seen.result.loaders] == [(3, 2)]


def test_a_loader_for_another_dataset_that_is_reached_in_another_way_is_another() -> None:
    with watching() as seen:
        for _ in _made(NUMBERS):
            pass
        for _ in (lambda: _made(TensorDataset(torch.arange(8.0))))():
            pass
    assert [one.passes for one in seen.result.loaders] == [1, 1]


@pytest.mark.parametrize(("batches", "loaders"), [(4, 1), (3, 2)])
def test_an_iterator_that_has_given_all_its_batches_is_no_longer_iterated(batches: int, loaders: int) -> None:
    """Lightning asks for no more batches than there are, and keeps the iterator until it has the next one."""
    kept = []
    with watching() as seen:
        for _ in range(2):
            kept.append(iter(_made(NUMBERS)))
            for _ in range(batches):
                next(kept[-1])
    assert len(seen.result.loaders) == loaders
