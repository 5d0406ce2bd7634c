"""Names in datasets in the style of libraries: what is planted is found, and at least 90 % of it has a name.

The datasets are cut down to what those of torchvision, torchaudio, torch_geometric, mosaicml-streaming, Hugging Face,
MONAI and yolov5 do around the user's functions. The clock moves only where a test moves it.
"""

from __future__ import annotations

import functools
import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fetched_rows import CLOCK, named
from torch.utils.data import Dataset, IterableDataset

from pipebench.watch.record.patches import Patches, is_wrapper
from pipebench.watch.stages import called, in_place, iterables, library_calls


class Melody(torch.nn.Module):
    def forward(self, value: int) -> int:
        CLOCK.burn(90)
        return value


class Augmentations(torch.nn.Sequential):
    """As kornia's AugmentationSequential: a Sequential of its own kind."""


class Speech(Dataset[int]):
    """Holds modules under names of its own, as users of torchaudio do."""

    def __init__(self, **held: torch.nn.Module) -> None:
        vars(self).update(held)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(10)
        for one in vars(self).values():
            index = one(index)
        return index


def test_a_module_under_any_name_is_a_row(rows: Any) -> None:
    found = rows(Speech(mel=Melody()))
    assert found.found() == {("transform", "Melody"): 720, ("getitem", "Speech.__getitem__"): 80}
    assert named(found) == 0.9


def test_the_modules_of_a_sequential_of_another_kind_are_rows(rows: Any) -> None:
    found = rows(Speech(chain=Augmentations(Melody(), Melody())))
    assert {name for kind, name in found.found() if kind == "transform"} == {"Melody (1 of 2)", "Melody (2 of 2)"}


def test_in_the_scripts_process_the_class_of_a_module_is_left_alone(rows: Any) -> None:
    """It may be in the model as well, and `torch.compile` reacts to what is done to it."""
    plain = Melody.__call__
    rows(Speech(mel=Melody()), may_change=False)
    assert Melody.__call__ is plain


def letterbox(index: int) -> int:
    CLOCK.burn(30)
    return index


def tiny(index: int) -> int:
    return index


def never(index: int) -> Iterator[int]:
    CLOCK.burn(1)
    yield index


class Mosaic(Dataset[int]):
    """As yolov5's: methods that call methods, and functions of a module."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(5)
        return next(never(self.load_mosaic(index)))

    def load_mosaic(self, index: int) -> int:
        CLOCK.burn(10)
        return max(self.load_image(index) for _ in range(4))

    def load_image(self, index: int) -> int:
        CLOCK.burn(20)
        return self.scaled(letterbox(index))

    @staticmethod
    def scaled(index: int) -> int:
        CLOCK.burn(3)
        return tiny(index)


def test_the_functions_that_getitem_calls_are_rows(rows: Any) -> None:
    found = rows(Mosaic())
    assert found.found() == {
        ("getitem", "Mosaic.__getitem__"): 8 * 6,
        ("function", "Mosaic.load_mosaic"): 8 * 10,
        ("function", "Mosaic.load_image"): 8 * 80,
        ("function", "Mosaic.scaled"): 8 * 12,
        ("function", "letterbox"): 8 * 120,
    }
    assert named(found) > 0.9


def test_functions_have_their_time_with_what_they_call_too(rows: Any) -> None:
    assert rows(Mosaic()).whole() == {
        ("function", "Mosaic.load_mosaic"): 8 * (10 + 80 + 12 + 120),
        ("function", "Mosaic.load_image"): 8 * (80 + 12 + 120),
        ("function", "Mosaic.scaled"): 8 * 12,
        ("function", "letterbox"): 8 * 120,
    }


class Nested(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return self.halved(index, 3)

    def halved(self, index: int, times: int) -> int:
        CLOCK.burn(10)
        return self.halved(index, times - 1) if times else index


def test_a_function_that_calls_itself_counts_once(rows: Any) -> None:
    found = rows(Nested())
    assert found.whole() == {("function", "Nested.halved"): 8 * 40}
    found.sums.timer.whole[0] = 5  # all of it in stages inside, and none of its own
    found.sums.write()
    assert found.whole() == found.found() == {}


def test_in_the_scripts_process_only_methods_are_rows(rows: Any) -> None:
    plain = letterbox
    found = rows(Mosaic(), may_change=False)
    assert letterbox is plain
    assert {name for kind, name in found.found() if kind == "function"} == {
        "Mosaic.load_mosaic", "Mosaic.load_image", "Mosaic.scaled",
    }  # fmt: skip


def test_what_was_replaced_is_put_back() -> None:
    before = vars(Mosaic)["load_image"], vars(Mosaic)["scaled"], letterbox
    patches = Patches()
    codes = [before[0].__code__, before[1].__func__.__code__, letterbox.__code__]
    called.watch_called(called.functions_called([Mosaic()], may_change=True), patches)
    for one in (before[0], before[1].__func__, letterbox):
        assert is_wrapper(one)
    assert (vars(Mosaic)["load_image"], vars(Mosaic)["scaled"], letterbox) == before
    patches.undo()
    assert [before[0].__code__, before[1].__func__.__code__, letterbox.__code__] == codes
    assert (vars(Mosaic)["load_image"], vars(Mosaic)["scaled"], letterbox) == before


def test_a_short_function_is_timed_no_longer(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is short from the third call on. What it takes then is in the row of what calls it."""
    monkeypatch.setattr(in_place, "_TRIED", 3)
    found = rows(Mosaic()).found()
    assert found["function", "letterbox"] == 3 * 30
    assert sum(found.values()) == 8 * (6 + 10 + 80 + 12 + 120)


class Graphs(Dataset[int]):
    """As torch_geometric's Dataset: `__getitem__` is the library's, and `get` the user's."""

    def indices(self) -> range:
        return range(8)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(5)
        return int(self.get(self.indices()[index]))  # type: ignore[attr-defined]


class Molecules(Graphs):
    def get(self, index: int) -> int:
        CLOCK.burn(95)
        return index


class Shards(Dataset[int]):
    """As StreamingDataset of mosaicml-streaming, whose `get_item` finds the shard."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(3)
        return self.get_item(index)

    def get_item(self, sample_id: int) -> int:
        CLOCK.burn(97)
        return sample_id


@pytest.mark.parametrize(("dataset", "name"), [(Molecules(), "Molecules.get"), (Shards(), "Shards.get_item")])
def test_the_function_that_libraries_call_for_a_sample_is_a_row(rows: Any, dataset: Any, name: str) -> None:
    found = rows(dataset)
    assert ("function", name) in found.found() and named(found) >= 0.9


def pil_loader(index: int) -> int:
    CLOCK.burn(60)
    return index


def default_loader(index: int) -> int:
    CLOCK.burn(2)
    return pil_loader(index)


class Folder(Dataset[int]):
    """As torchvision's ImageFolder: the loader is a function that it holds."""

    def __init__(self, loader: Callable[[int], int] = default_loader) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(4)
        return self.loader(index)


def test_the_loader_of_an_image_folder_isnamed(rows: Any) -> None:
    found = rows(Folder())
    assert found.found()["function", "pil_loader"] == 480 and named(found) > 0.9


def tokenise(value: int) -> int:
    CLOCK.burn(50)
    return value


def wanted(value: int) -> bool:
    CLOCK.burn(7)
    return True


def rows_of_file() -> Iterator[int]:
    for value in range(8):
        CLOCK.burn(20)
        yield value


class _BaseExamplesIterable:
    def __init__(self, ex_iterable: Any = None, function: Any = None) -> None:
        self.ex_iterable, self.function = ex_iterable, function


class ExamplesIterable(_BaseExamplesIterable):
    def __init__(self, generate_examples_fn: Any) -> None:
        self.generate_examples_fn = generate_examples_fn

    def __iter__(self) -> Any:
        yield from self.generate_examples_fn()


class MappedExamplesIterable(_BaseExamplesIterable):
    def __iter__(self) -> Any:
        for one in self.ex_iterable:
            CLOCK.burn(1)
            yield self.function(one)


def add_mask(mask_function: Any, value: int) -> bool:
    return bool(mask_function(value))


class FilteredExamplesIterable(_BaseExamplesIterable):  # holds a function of its own around the user's, and that
    def __init__(self, ex_iterable: Any, function: Any) -> None:
        super().__init__(ex_iterable, functools.partial(add_mask, function))
        self.mask_function = function

    def __iter__(self) -> Any:
        yield from (one for one in self.ex_iterable if self.function(one))


class BufferShuffledExamplesIterable(_BaseExamplesIterable):
    def __iter__(self) -> Any:
        for one in self.ex_iterable:
            CLOCK.burn(5)
            yield one


def _links() -> types.ModuleType:
    """A module like `datasets.iterable_dataset`, with the links that it makes of `map`, `filter` and `shuffle`."""
    module = types.ModuleType("datasets.iterable_dataset")
    for kind in (_BaseExamplesIterable, *_BaseExamplesIterable.__subclasses__()):
        setattr(module, kind.__name__, kind)
    return module


class Streamed(IterableDataset[int]):
    def __init__(self, module: Any, make: bool = False) -> None:
        self._made = module if make else None
        self._ex_iterable = None if make else self._chain(module)

    @staticmethod
    def _chain(module: Any) -> Any:
        source = module.ExamplesIterable(rows_of_file)
        mapped = module.MappedExamplesIterable(source, tokenise)
        return module.BufferShuffledExamplesIterable(module.FilteredExamplesIterable(mapped, wanted))

    def __iter__(self) -> Iterator[int]:
        CLOCK.burn(2)
        yield from self._ex_iterable if self._made is None else self._chain(self._made)


@pytest.mark.parametrize("make", [False, True], ids=["held by the dataset", "made in the worker"])
def test_the_links_of_a_streamed_dataset_are_rows(rows: Any, make: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    module = _links()
    patches = Patches()
    if make:
        library_calls.watch_module(patches, module)
    found = rows(Streamed(module, make))
    patches.undo()
    spent: Counter[str] = Counter()
    for (_, name), nanoseconds in found.found().items():
        spent[name] += nanoseconds
    assert spent == {"rows_of_file": 160, "tokenise": 408, "wanted": 56, "shuffle": 40, "Streamed.__iter__": 2}
    assert 1 - spent["Streamed.__iter__"] / spent.total() > 0.9


def test_an_iterator_that_is_its_own_iterable_is_left_alone() -> None:
    class Own:
        def __init__(self) -> None:
            self.source = [1]

        def __iter__(self) -> Any:
            return self

        def __next__(self) -> int:
            return 1

    patches = Patches()
    one = Own()
    iterables.watch_chain([one], patches)
    assert iter(one) is one
    patches.undo()


def test_functions_of_a_library_are_rows_where_the_users_code_calls_them(rows: Any, monkeypatch: Any) -> None:
    """And inside a transform they are a part of its row."""
    library: Any = types.ModuleType("cv2")
    library.resize = _resize
    monkeypatch.setitem(sys.modules, "cv2", library)
    patches = Patches()
    library_calls.watch_module(patches, library)
    found = rows(Resizing(library)).found()
    patches.undo()
    assert found == {
        ("transform", "cv2.resize"): 8 * 40, ("transform", "Half"): 8 * 43, ("getitem", "Resizing.__getitem__"): 8 * 2,
    }  # fmt: skip
    assert library.resize is _resize


def _resize(index: int) -> int:
    CLOCK.burn(40)
    return index


class Half:
    def __init__(self, library: Any) -> None:
        self.library = library

    def __call__(self, index: int) -> int:
        CLOCK.burn(3)
        return int(self.library.resize(index))


class Resizing(Dataset[int]):
    def __init__(self, library: Any) -> None:
        self.library, self.transform = library, Half(library)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(2)
        return self.transform(int(self.library.resize(index)))
