"""A dataset inside another one has a row of its own, and so has a callable object that a dataset holds."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from fetched_rows import CLOCK
from torch.utils.data import ConcatDataset, Dataset, Subset

from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import finding_transforms


class Raw(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(50)
        return index


class Wrapper(Dataset[int]):
    """Holds anything under a name that says nothing."""

    def __init__(self, held: Any) -> None:
        self.x = held

    def __len__(self) -> int:
        return 8

    def of(self, index: int) -> Any:
        return self.x

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(1)
        return int(self.of(index)[index])


class Mixed(Wrapper):
    def of(self, index: int) -> Any:
        return self.x[index % 2]


class MixedByName(Wrapper):
    def of(self, index: int) -> Any:
        return self.x["ab"[index % 2]]


class InLists(Wrapper):
    def of(self, index: int) -> Any:
        return self.x[0][index % 2]


class Bare:
    """No dataset of torch's."""

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(50)
        return index


def _first_of_two() -> ConcatDataset[int]:
    return ConcatDataset([Raw(), Raw()])


@pytest.mark.parametrize("may_change", [True, False])
@pytest.mark.parametrize(
    ("made", "inner"),
    [
        (lambda: Wrapper(Subset(_first_of_two(), range(8))), "Raw"),
        (lambda: Mixed([Raw(), Raw()]), "Raw"),
        (lambda: Mixed((Bare(), Bare())), "Bare"),
        (lambda: MixedByName({"a": Raw(), "b": Subset(Raw(), range(8))}), "Raw"),
        (lambda: InLists([[Raw(), Bare()]]), "Raw"),
    ],
)
def test_a_dataset_inside_another_one_has_its_time(
    rows: Any, made: Callable[[], Any], inner: str, may_change: bool
) -> None:
    dataset = made()
    found = rows(dataset, may_change=may_change).found()
    wrapper = type(dataset).__name__
    spent = sum(ns for (kind, name), ns in found.items() if kind == "function" and name.endswith(".__getitem__"))
    assert found["getitem", f"{wrapper}.__getitem__"] == 8
    assert spent == 8 * 50 and ("function", f"{inner}.__getitem__") in found


class Left(Raw): ...


class Right(Raw): ...


@pytest.mark.parametrize(("second", "named"), [(Right, "Raw"), (Bare, "Left")])
def test_a_getter_that_several_inherit_has_the_name_of_its_class(rows: Any, second: type, named: str) -> None:
    assert ("function", f"{named}.__getitem__") in rows(Mixed([Left(), second()])).found()


def test_torchs_wrappers_have_none_of_the_time(rows: Any) -> None:
    found = rows(ConcatDataset([Subset(Raw(), range(4)), Subset(Raw(), range(4, 8))])).found()
    assert found == {("function", "Raw.__getitem__"): 8 * 50}


def test_behind_a_subset_the_row_of_the_sample_is_the_datasets(rows: Any) -> None:
    assert rows(Subset(Raw(), range(8))).found() == {("getitem", "Raw.__getitem__"): 8 * 50}


def test_a_wrapper_of_its_own_kind_has_one_row(rows: Any) -> None:
    found = rows(Wrapper(Wrapper(Raw()))).found()
    assert found == {("getitem", "Wrapper.__getitem__"): 8 * 2, ("function", "Raw.__getitem__"): 8 * 50}


class Noise:
    def __call__(self, sample: int) -> int:
        CLOCK.burn(30)
        return self.shifted(sample)

    def shifted(self, sample: int) -> int:
        CLOCK.burn(3)
        return sample


class Augmented(Raw):
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def __getitem__(self, index: int) -> int:
        return int(self.changed(super().__getitem__(index)))

    def changed(self, sample: int) -> Any:
        return self.fn(sample)  # type: ignore[attr-defined]


class Transformed(Raw):
    def __init__(self) -> None:
        self.transform = Noise()

    def __getitem__(self, index: int) -> int:
        return self.transform(index)


@pytest.mark.parametrize("may_change", [True, False])
def test_a_callable_object_under_any_name_is_a_row(rows: Any, may_change: bool) -> None:
    found = rows(Augmented(fn=Noise(), unused=Bare()), may_change=may_change).found()
    assert found == {
        ("function", "Raw.__getitem__"): 8 * 50,
        ("function", "Noise.__call__"): 8 * 30,
        ("function", "Noise.shifted"): 8 * 3,
    }


def test_a_transform_has_one_row(rows: Any) -> None:
    assert rows(Transformed()).found() == {("transform", "Noise"): 8 * 33}


def test_nothing_of_what_a_dataset_holds_is_another_object() -> None:
    dataset = Wrapper([Raw(), Bare()])
    parts, getter, calls = dataset.x, Raw.__getitem__, Noise.__call__
    held = [*parts]
    before = pickle.dumps(dataset)
    code = getter.__code__
    patches = Patches()
    finding_transforms.watch_tree(dataset, patches, may_change=True)
    finding_transforms.watch_tree(Augmented(fn=Noise()), patches, may_change=True)
    assert dataset.x is parts and all(one is other for one, other in zip(parts, held, strict=True))
    assert Raw.__getitem__ is getter and Noise.__call__ is calls and pickle.dumps(dataset) == before
    assert getter.__code__ is not code
    patches.undo()
    assert getter.__code__ is code


def test_a_function_of_a_row_can_be_exchanged_by_its_name() -> None:
    asked: list[int] = []

    def wrap(plain: Any, of_object: bool) -> Any:
        assert of_object

        def exchanged(self: Any, index: int) -> int:
            asked.append(index)
            return int(plain(self, index))

        return exchanged

    dataset, patches = Mixed([Raw(), Raw()]), Patches()
    assert finding_transforms.replace_called(dataset, patches, "Raw.__getitem__", wrap) == 1
    assert dataset[3] == 3 and asked == [3]
    patches.undo()
