"""What a dataset holds and calls is for its own code the same in a worker: no entry, no global is exchanged."""

from __future__ import annotations

import functools
import pickle
import sys
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms
from torchvision.transforms import v2

from pipebench import watching


def flip(value: Any) -> Any:
    return value.flip(0)


def scale(value: Any, by: int = 2) -> Any:
    return value * by


class Shift:
    def __call__(self, value: Any) -> Any:
        return value + self.by()

    def by(self) -> int:
        return 1

    def moved(self, value: Any) -> Any:
        return value + 1


class Steps:
    """A Compose of somebody's own."""

    def __init__(self, *steps: Any) -> None:
        self.transforms = steps

    def __call__(self, value: Any) -> Any:
        for one in self.transforms:
            value = one(value)
        return value


def loaded(index: int) -> Any:
    return torch.arange(4.0) + index


class Boxes(Dataset[Any]):
    """Looks at all that it holds and calls, as code of users does. A sample is what it saw."""

    def __init__(self, held: Any) -> None:
        self.transforms, self.transform = held, functools.partial(scale, by=3)
        self.loader, self.augment = loaded, Shift().moved

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        value = self.augment(self.transform(self.loader(index))) + loaded(index)
        if callable(self.transforms):
            value = self.transforms(value)
        entries = getattr(self.transforms, "transforms", self.transforms)
        if isinstance(entries, dict):
            entries = list(entries.values())
        for one in entries if entries is self.transforms or isinstance(self.transforms, dict) else ():
            value = one(value)
        seen = [self.transform.keywords, self.loader is loaded, flip in list(entries), self.loader.__code__.co_argcount]
        kinds = [type(one).__name__ for one in entries]
        names = [one.__code__.co_varnames[:1] for one in entries if hasattr(one, "__code__")]
        pickled = [pickle.dumps(one) for one in (self.transform, *entries) if isinstance(one, functools.partial)]
        return value, [*map(str, (seen, kinds, names, pickled))], pickle.loads(pickle.dumps(self.loader)) is loaded


HELD: dict[str, tuple[Any, list[str]]] = {
    "a list": ([flip, scale, Shift()], ["flip", "scale", "Shift"]),
    "a tuple": ((flip, functools.partial(scale, by=5)), ["flip", "scale"]),
    "a dict": ({"a": flip, "b": Shift()}, ["flip", "Shift"]),
    "a Compose": (transforms.Compose([flip, scale, Shift()]), ["flip", "scale", "Shift"]),
    "a v2.Compose": (v2.Compose([flip, v2.Identity()]), ["flip", "Identity"]),
    "a Compose of one's own": (Steps(flip, functools.partial(scale, by=5), Shift().moved), ["flip", "scale", "moved"]),
    "modules": (torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Flatten(0)), ["ReLU", "Flatten"]),
}


def _made(held: Any) -> list[Any]:
    fork = {"num_workers": 1, "multiprocessing_context": "fork"}
    return [
        [value.tolist(), seen, same]
        for batch in DataLoader(Boxes(held), batch_size=2, collate_fn=list, **fork)  # type: ignore[arg-type]
        for value, seen, same in batch
    ]


@pytest.mark.parametrize("held", HELD)
def test_a_dataset_sees_what_it_holds_and_each_has_its_row(held: str) -> None:
    entries, names = HELD[held]
    alone = _made(entries)
    with watching() as seen:
        assert _made(entries) == alone
    rows = {(one.kind, one.name) for one in seen.result.stages}
    assert {("transform", name) for name in names} <= rows
    assert {("transform", "moved"), ("transform", "scale"), ("function", "loader")} <= rows


DEEP = sys.getrecursionlimit() * 7 // 10


def depth(tree: Any) -> int:
    return 0 if tree is None else 1 + depth(tree[0])


class Trees(Dataset[int]):
    def __init__(self, by_method: bool) -> None:
        self.by_method, self.tree = by_method, None
        for _ in range(DEEP):
            self.tree = (self.tree,)  # type: ignore[assignment]

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return self.depth(self.tree) if self.by_method else depth(self.tree)

    def depth(self, tree: Any) -> int:
        return 0 if tree is None else 1 + self.depth(tree[0])


@pytest.mark.parametrize("by_method", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_function_that_calls_itself_goes_as_deep_as_without_us(by_method: bool, workers: int) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 200)  # the test itself lies deep in the stack
    try:
        with watching() as seen:
            fork = "fork" if workers else None
            loader = DataLoader(Trees(by_method), 2, num_workers=workers, multiprocessing_context=fork)
            assert [one.tolist() for one in loader] == [[DEEP] * 2] * 2
    finally:
        sys.setrecursionlimit(limit)
    if workers or by_method:
        assert ("Trees.depth" if by_method else "depth") in {one.name for one in seen.result.stages}
