"""What a dataset holds and how it is wrapped: rows against what was planted, by a clock that only the plants move."""

from __future__ import annotations

import functools
import gc
import io
import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from clockwork import Clock, Rows
from torch.utils.data import ChainDataset, ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, random_split
from torchvision.transforms import v2

from pipebench import watching
from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import finding_transforms, library_calls

CLOCK = Clock()


class Flip:
    def __call__(self, *, image: int, **rest: Any) -> dict[str, Any]:
        CLOCK.burn(10)
        return {"image": image + 1, **rest}


class Blur(Flip):
    """Inherits what it does."""


class Compose:
    """As albumentations has it: entries are called with keywords, and hold each other."""

    def __init__(self, transforms: Any) -> None:
        self.transforms = transforms

    def __call__(self, **data: Any) -> dict[str, Any]:
        CLOCK.burn(3)
        for one in self.transforms:
            data = one(**data)
        return data


class OneOf(Compose):
    def __call__(self, **data: Any) -> dict[str, Any]:
        CLOCK.burn(1)
        found: dict[str, Any] = self.transforms[-1](**data)
        return found


class Steps:
    """Somebody's own Compose, of a tuple."""

    def __init__(self, transforms: tuple[Any, ...]) -> None:
        self.transforms = transforms

    def __call__(self, value: Any) -> Any:
        CLOCK.burn(3)
        for one in self.transforms:
            value = one(value)
        return value


class Scale(torch.nn.Module):
    def forward(self, value: Any) -> Any:
        CLOCK.burn(5)
        return value


def half(value: Any) -> Any:
    CLOCK.burn(50)
    return value


def lookup(batch: dict[str, list[int]]) -> dict[str, list[int]]:
    CLOCK.burn(60)
    return batch


class Images(Dataset[int]):
    """Calls whatever it was given, under the name that it was given it by."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)
        self.name = next(iter(held), None)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(100)
        if self.name is None:
            return index
        held = getattr(self, self.name)
        if isinstance(held, dict):
            held = held["train"]
        if isinstance(held, Compose):
            held(image=index)
        else:
            held(index)
        return index


class Wrapped(Dataset[int]):
    """A wrapper of somebody's own, with a name of its own for what it wraps."""

    def __init__(self, dataset: Any, name: str = "whatever") -> None:
        setattr(self, name, dataset)
        self.name = name

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return getattr(self, self.name)[index]


class Texts(Dataset[Any]):
    """As a dataset of Hugging Face's after `set_transform`: it gives whole batches."""

    def __init__(self) -> None:
        self._format_type, self._format_kwargs = "custom", {"transform": lookup, "columns": None}

    def __len__(self) -> int:
        return 8

    def __getitems__(self, indices: list[int]) -> list[int]:
        CLOCK.burn(100 * len(indices))
        return list(self._format_kwargs["transform"]({"index": indices})["index"])  # type: ignore[operator,index]


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    calls = [kind.__call__ for kind in (Flip, Blur, Compose, OneOf, Scale)]
    yield
    assert local.timer is None
    assert [kind.__call__ for kind in (Flip, Blur, Compose, OneOf, Scale)] == calls
    assert "__call__" not in vars(Blur)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Fetches every sample of a dataset, in fours, as a worker would; gives the rows."""
    patches = Patches()

    def run(dataset: Any, **how: Any) -> Rows:
        finding_transforms.watch_tree(dataset, patches, may_change=how.pop("may_change", True))
        found = Rows(dataset, tmp_path, CLOCK, monkeypatch, **how)
        began = CLOCK.now
        assert [found.fetch([first + one for one in range(4)]) for first in (0, 4)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert sum(found.found().values()) == CLOCK.now - began and found.sums.samples == 8
        return found

    yield run
    patches.undo()


def _transforms(found: Rows) -> dict[str, int]:
    return {name: spent for (kind, name), spent in found.found().items() if kind == "transform"}


def test_each_entry_of_a_compose_of_any_library(rows: Any) -> None:
    """Named by class, however deep; what a container does itself is its own row. Objects of a class are told apart."""
    nested = Compose([Flip(), OneOf([Flip(), Blur()]), Compose((Flip(),))])
    found = rows(Images(aug=nested))
    assert found.found() == {
        ("getitem", "Images.__getitem__"): 800,
        ("transform", "Compose (1 of 2)"): 8 * 3,
        ("transform", "Compose (2 of 2)"): 8 * 3,
        ("transform", "Flip (1 of 3)"): 8 * 10,
        ("transform", "Flip (3 of 3)"): 8 * 10,
        ("transform", "OneOf"): 8 * 1,
        ("transform", "Blur"): 8 * 10,
    }


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"transforms": {"train": half}}, {"half": 400}),
        ({"tfms": {"train": Compose([Flip()])}}, {"Compose": 24, "Flip": 80}),
        ({"anything": Compose([Flip()])}, {"Compose": 24, "Flip": 80}),
        ({"anything": Steps((half, Scale(), half))}, {"Steps": 24, "half": 800, "Scale": 40}),
        ({"transform": functools.partial(half)}, {"half": 400}),
        ({"transform": torch.nn.Sequential(Scale(), Scale())}, {"Scale (1 of 2)": 40, "Scale (2 of 2)": 40}),
        ({"transform": v2.RandomApply(torch.nn.ModuleList([Scale()]), p=1)}, {"Scale": 40}),
        ({"augment": v2.RandomChoice([Scale()])}, {"Scale": 40}),
    ],
    ids=[
        "dictionary",
        "dictionary-compose",
        "any-name",
        "tuple",
        "partial",
        "sequential",
        "random-apply",
        "random-choice",
    ],
)
def test_transforms_are_found_by_name_or_by_what_they_hold(
    held: dict[str, Any], expected: dict[str, int], rows: Any
) -> None:
    assert _transforms(rows(Images(**held))) == expected


@pytest.mark.parametrize(
    "wrap",
    [
        lambda images: Subset(images, range(8)),
        lambda images: Subset(Subset(images, range(8)), range(8)),
        lambda images: ConcatDataset([Subset(images, range(8)), images]),
        lambda images: Wrapped(images, "base"),
        lambda images: Wrapped(Wrapped(images)),
        lambda images: random_split(Wrapped(images), [8, 0], generator=_Straight())[0],
    ],
    ids=["Subset", "Subset of Subset", "ConcatDataset", "base", "whatever", "random_split"],
)
def test_wrapped_datasets(wrap: Any, rows: Any) -> None:
    """What is inside is found, and samples are told apart also where torch asks a Subset for a whole batch."""
    found = rows(wrap(Images(transform=half)))
    assert _transforms(found) == {"half": 400}
    assert sum(found.sums.lengths.values()) == 8
    assert len(found.sums.slow_new) == 8


class _Straight(torch.Generator):
    """A generator whose permutation is none, so that the order is that of the other cases."""


@pytest.fixture(autouse=True)
def straight(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = __import__("torch.utils.data.dataset").utils.data.dataset
    monkeypatch.setattr(module, "randperm", lambda count, generator=None: torch.arange(count))


def test_a_dataset_that_gives_whole_batches(rows: Any) -> None:
    for dataset in (Texts(), Subset(Texts(), range(8))):
        found = rows(dataset)
        assert found.found() == {("getitem", "Texts.__getitems__"): 800, ("transform", "lookup"): 120}
        assert found.sums.lengths == {}


def test_in_the_script_s_own_process_nothing_of_the_script_changes(rows: Any) -> None:
    """Without workers, functions stay as they are, and so do modules that a model might have too."""
    images = Images(transform=half, other=Compose([Flip(), half]), net=torch.nn.Sequential(Scale()))
    before = [dict(vars(images)), list(images.other.transforms), Scale.__call__]  # type: ignore[attr-defined]
    assert _transforms(rows(images, may_change=False)) == {}
    assert [dict(vars(images)), list(images.other.transforms), Scale.__call__] == before  # type: ignore[attr-defined]


class Opened(Images):
    """Opens the same image from a path and from bytes in memory."""

    def __getitem__(self, index: int) -> int:
        for file in ("a.jpg", io.BytesIO(), io.BytesIO()):
            self.pillow.open(file)  # type: ignore[attr-defined]
        self.pillow.open(fp=io.BytesIO())  # type: ignore[attr-defined]
        return index


def test_an_image_in_memory_is_not_read(rows: Any) -> None:
    pillow = types.ModuleType("PIL.Image")
    vars(pillow)["open"] = lambda fp: CLOCK.burn(7)
    patches = Patches()
    library_calls.watch_module(patches, pillow)
    assert rows(Opened(pillow=pillow)).found() == {("read", "Image.open"): 56, ("decode", "Image.open"): 3 * 56}
    patches.undo()


class Threaded(Images):
    """Hands its work to threads, one sample or one batch at a time."""

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(100)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.transform, [index, index]))  # type: ignore[attr-defined]
        self.transform(index)  # type: ignore[attr-defined]
        return index


def test_work_in_threads_is_in_the_row_that_waited_for_it(rows: Any) -> None:
    found = rows(Threaded(transform=half))
    assert found.found() == {("getitem", "Threaded.__getitem__"): 800 + 2 * 400, ("transform", "half"): 400}


def test_two_threads_on_one_loader_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is not recorded while the first fetches, and neither is disturbed."""
    inside, go_on = threading.Event(), threading.Event()

    class Slow(Dataset[int]):
        def __getitem__(self, index: int) -> int:
            if index == 0:
                inside.set()
                assert go_on.wait(10)
            CLOCK.burn(100)
            return index

    found = Rows(Slow(), tmp_path, CLOCK, monkeypatch)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(found.fetch([0, 1])))
    thread.start()
    assert inside.wait(10)
    assert found.fetch([2, 3]) == [2, 3]
    go_on.set()
    thread.join()
    assert results == [[0, 1]] and found.sums.samples == 2


def test_an_index_that_is_a_tuple_is_one_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sized(Dataset[Any]):
        def __getitem__(self, index: Any) -> Any:
            CLOCK.burn(100)
            return index

    found = Rows(Sized(), tmp_path, CLOCK, monkeypatch)
    assert found.fetch([(0, 224), (1, 256)]) == [(0, 224), (1, 256)] and found.sums.samples == 2
    found = Rows(Sized(), tmp_path, CLOCK, monkeypatch, batched=False)
    assert found.fetch([0, 1, 2]) == [0, 1, 2] and found.sums.samples == 3


class Stream(IterableDataset[int]):
    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __iter__(self) -> Iterator[int]:
        for number in self.numbers:
            CLOCK.burn(100)
            yield number


def test_datasets_that_are_generators(rows: Any) -> None:
    assert rows(Stream(range(8))).found() == {("getitem", "Stream.__iter__"): 800}
    chained = ChainDataset([Stream(range(4)), Stream(range(4, 8))])
    assert rows(chained).found() == {("getitem", "Stream.__iter__"): 800}


def test_between_batches_the_fetcher_holds_what_torch_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, stream = Images(), Stream(range(2))
    found = Rows(images, tmp_path, CLOCK, monkeypatch)
    found.fetch([0])
    assert found.fetcher.dataset is images
    found = Rows(stream, tmp_path, CLOCK, monkeypatch)
    found.fetch([0])
    assert type(found.fetcher.dataset_iter).__name__ == "generator" and found.fetcher.dataset is stream
    found.fetcher.dataset_iter = iter([7])  # as a resumed state does
    assert found.fetch([0]) == [7]


class Nesting(Dataset[Any]):
    """Iterates a loader of its own in each sample."""

    def __init__(self, transform: Any) -> None:
        self.inside = Images(transform=transform)

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> list[Any]:
        return [batch.tolist() for batch in DataLoader(self.inside, batch_size=4)]


def _iterated_first(number: int) -> None:
    """A `worker_init_fn` that iterates a loader before the worker has its own fetcher."""
    assert len(list(DataLoader(Images(), batch_size=2))) == 4


@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_inside_a_sample_or_before_the_first_are_no_samples(workers: int) -> None:
    how: dict[str, Any] = {"worker_init_fn": _iterated_first, "multiprocessing_context": "fork"} if workers else {}

    def batches() -> list[Any]:
        loader = DataLoader(
            Nesting(half), batch_size=3, num_workers=workers, collate_fn=list, persistent_workers=bool(workers), **how
        )
        return [list(loader), list(loader)]

    alone = batches()
    with watching() as seen:
        assert batches() == alone
    gc.collect()
    result = seen.result
    assert [(one.dataset, one.samples, one.passes) for one in result.loaders] == [("Nesting", 12, 2)]
    assert all(one.watched for one in result.loaders) and result.notes == ()
    names = {(one.kind, one.name) for one in result.stages}
    assert ("getitem", "Nesting.__getitem__") in names
    assert (("transform", "half") in names) == bool(workers)
    shares = sum(one.worker_share for one in result.stages if one.kind != "serialise")
    assert shares == pytest.approx(1, abs=0.02)
