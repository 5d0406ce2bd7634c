"""Datasets with which one line makes a loader anew: one, such as look the same, or such as do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from pipebench import watching
from pipebench.watch.script.same_samples import Samples


class Photos(Dataset[Any]):
    """The dataset of a script: what tells one from another is in its attributes."""

    def __init__(self, where: Any) -> None:
        self.where = where


WHOLE: Any = TensorDataset(torch.arange(8.0))


def _subset(*indices: int) -> Any:
    return Subset(WHOLE, list(indices))


def _fold(number: int) -> Any:
    return _subset(*(one for one in range(200) if one % 5 != number))


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (lambda: WHOLE, lambda: WHOLE, "same"),
        (lambda: TensorDataset(torch.arange(8.0)), lambda: TensorDataset(torch.arange(8.0)), "alike"),
        (lambda: TensorDataset(torch.arange(8.0)), lambda: TensorDataset(torch.arange(8.0) + 1), "other"),
        (lambda: _subset(0, 1, 2), lambda: _subset(0, 1, 2), "alike"),
        (lambda: _subset(0, 1, 2), lambda: _subset(3, 1, 2), "other"),
        (lambda: _subset(0, 1, 2), lambda: _subset(0, 2), "other"),
        (lambda: _fold(1), lambda: _fold(2), "other"),  # which begin and end alike
        (lambda: Photos(np.array(_fold(1).indices)), lambda: Photos(np.array(_fold(2).indices)), "other"),
        (lambda: Photos([*"abcde"]), lambda: Photos([*"abxde"]), "other"),
        (lambda: Photos(torch.tensor([])), lambda: Photos(torch.tensor([])), "alike"),
        (lambda: ConcatDataset([WHOLE, _subset(1)]), lambda: ConcatDataset([WHOLE, _subset(2)]), "other"),
        (lambda: Photos("a.csv"), lambda: Photos("a.csv"), "alike"),
        (lambda: Photos(Path("a.csv")), lambda: Photos(Path("b.csv")), "other"),
        (lambda: Photos(np.zeros((2, 3))), lambda: Photos(np.zeros((2, 3))), "alike"),
        (lambda: Photos(np.zeros((2, 3))), lambda: Photos(np.zeros((3, 3))), "other"),
        (lambda: Photos(object()), lambda: Photos(object()), "alike"),
        (lambda: WHOLE, lambda: Photos("a.csv"), "other"),
        (lambda: ["a", "b"], lambda: ["a", "c"], "other"),
    ],
)
def test_what_shows_of_two_datasets(first: Any, second: Any, found: str) -> None:
    known = Samples()
    kept = first()
    assert known.of(1, kept) == "same" and known.of(2, second()) == "same"  # each is the first of its loader
    assert known.of(1, second()) == found
    assert known.others[1] == (found == "other")


def test_other_data_is_counted_beside_what_the_rest_was() -> None:
    """Of two folds, each with one dataset; and of folds whose part is made anew for each epoch."""
    folds, samples = [_subset(0, 1), _subset(2, 3)], Samples()
    assert [samples.of(1, folds[fold]) for fold in (0, 0, 0, 1, 1)] == ["same"] * 5
    assert (samples.others[1], samples.of(1, _subset(2, 3)), samples.others[1]) == (1, "alike", 1)
    assert [samples.of(2, _subset(one, 9)) for one in (0, 1, 2)] == ["same", "other", "other"]
    assert samples.of(2, _subset(2, 9)) == "alike" and samples.others[2] == 2


def test_what_cannot_be_looked_at_is_alike() -> None:
    class Closed(Dataset[Any]):
        @property
        def __dict__(self) -> Any:
            raise ValueError

    known = Samples()
    assert (known.of(1, Closed()), known.of(1, Closed())) == ("same", "alike")


@pytest.mark.parametrize(("clients", "remade"), [((0, 0), "alike"), ((0, 4), "other")])
def test_loaders_of_clients_are_told_from_one_that_is_made_anew(clients: tuple[int, int], remade: str) -> None:
    with watching() as seen:
        for begin in clients:
            for _ in DataLoader(_subset(*range(begin, begin + 4)), 2):
                pass
    (found,) = seen.result.loaders
    assert (found.passes, found.again, found.remade) == (2, 1, remade)


@pytest.mark.parametrize(
    ("made", "inside"),
    [
        (lambda one: Subset(TensorDataset(torch.arange(8.0)), [one]), "TensorDataset"),
        (lambda one: ConcatDataset([Subset(Photos("a.csv"), [one])]), "Photos"),
        (lambda one: Subset(WHOLE, [one]), ""),  # one dataset for all parts
        (lambda one: Subset(Photos(f"{one}.csv"), [one]), ""),
        (lambda one: Subset(Photos("a.csv") if one < 2 else WHOLE, [one]), ""),
        (lambda one: Photos("a.csv"), ""),  # nothing inside: it is made anew itself
    ],
)
def test_a_dataset_that_is_made_anew_for_each_part_of_it(made: Any, inside: str) -> None:
    samples = Samples()
    for one in range(4):
        samples.of(1, made(one))
    assert samples.anew(1) == inside
