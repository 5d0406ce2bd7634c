"""Several objects of one class: each has a row of its own, or one row says how many share it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clockwork import Clock, Rows
from torch.utils.data import ConcatDataset, Dataset
from torchvision.transforms import Compose

from pipebench.watch.record.exclusive_time import Stages
from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import finding_transforms, library_calls, transforms

CLOCK = Clock()


class Crop:
    def __init__(self, cost: int) -> None:
        self.cost = cost

    def __call__(self, value: Any) -> Any:
        CLOCK.burn(self.cost)
        return value


class Photos(Dataset[Any]):
    def __init__(self, *steps: Any) -> None:
        self.transforms = list(steps)

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        for step in self.transforms:
            index = step(index)
        return index


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    patches = Patches()

    def run(dataset: Any) -> dict[str, int]:
        library_calls.watch_module(patches, __import__("torchvision.transforms.transforms").transforms.transforms)
        finding_transforms.watch_tree(dataset, patches, may_change=True)
        found = Rows(dataset, tmp_path, CLOCK, monkeypatch)
        found.fetch(list(range(len(dataset))))
        return {name: spent for (kind, name), spent in found.found().items() if kind == "transform"}

    yield run
    patches.undo()


def test_two_objects_of_one_class_have_a_row_each(rows: Any) -> None:
    assert rows(Photos(Crop(10), Crop(300))) == {"Crop (1 of 2)": 40, "Crop (2 of 2)": 1200}


def test_also_in_a_compose_of_torchvision(rows: Any) -> None:
    assert transforms.watched_by_library(Compose)
    found = rows(Photos(Compose([Crop(10), Crop(300)])))
    assert found["Crop (1 of 2)"] == 40 and found["Crop (2 of 2)"] == 1200


def test_two_datasets_of_one_class_are_numbered_in_their_order(rows: Any) -> None:
    both = ConcatDataset([Photos(Crop(10)), Photos(Crop(300))])
    assert rows(both) == {"Crop (1 of 2)": 40, "Crop (2 of 2)": 1200}


def test_one_object_in_two_places_is_one_row(rows: Any) -> None:
    crop = Crop(10)
    assert rows(ConcatDataset([Photos(crop), Photos(crop)])) == {"Crop": 80}


def test_many_objects_share_a_row_that_says_so(rows: Any) -> None:
    assert rows(ConcatDataset([Photos(Crop(10)) for _ in range(9)])) == {"Crop (9 objects)": 9 * 40}


def test_an_object_that_is_gone_gives_its_number_to_no_other() -> None:
    """Another object may come to lie at its address."""
    known, crops, later = Stages(), [Crop(1), Crop(2)], Crop(3)
    known.tell_apart(crops)
    numbers = [known.of_transform(one) for one in crops]
    assert len(set(numbers)) == 2 and known.of_object(later) is None
    known._apart[id(later)] = known._apart[id(crops[0])]
    assert known.of_object(later) is None and known.of_transform(later) not in numbers
