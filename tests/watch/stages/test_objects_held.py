"""What a dataset calls in the class above its own, and in the objects that it holds, has names."""

from __future__ import annotations

from typing import Any

import torch
from fetched_rows import CLOCK, named
from torch.utils.data import Dataset

LIBRARY = """
class Reader:
    # As litdata's Cache: the dataset asks it by an index, and it asks a reader of its own by name.

    def __init__(self, inner=None):
        self.inner = inner

    def __getitem__(self, sample):
        CLOCK.burn(10)
        return self.inner.fetched(sample)

    def fetched(self, sample):
        CLOCK.burn(50)
        return sample


class Streaming(Dataset):
    # As the StreamingDataset of litdata: `__getitem__` asks an object that it holds.

    def __init__(self):
        self.cache, self.weights = Reader(Reader()), torch.ones(3)

    def __len__(self):
        return 8

    def __getitem__(self, sample):
        CLOCK.burn(20)
        return self.cache[sample]
"""
library: dict[str, Any] = {"__name__": "library", "CLOCK": CLOCK, "Dataset": Dataset, "torch": torch}
exec(compile(LIBRARY, "/site-packages/library.py", "exec"), library)
Streaming, Reader = library["Streaming"], library["Reader"]


class Mine(Streaming):
    """A user's class above a library's, in the way that their pages recommend."""

    def __getitem__(self, sample: int) -> int:
        CLOCK.burn(5)
        return super().__getitem__(sample)


def test_the_getter_of_the_class_above_and_the_objects_that_it_holds_are_rows(rows: Any) -> None:
    found = rows(Mine())
    assert found.found() == {
        ("getitem", "Mine.__getitem__"): 8 * 5,
        ("function", "Streaming.__getitem__"): 8 * 20,
        ("function", "Reader.__getitem__"): 8 * 10,
        ("function", "Reader.fetched"): 8 * 50,
    }
    assert named(found) > 0.9


ARRAYS = """
def internal(index):
    CLOCK.burn(50)
    return index


class Array:
    def __getitem__(self, index):
        CLOCK.burn(10)
        return internal(index)
"""


class Rows(Dataset[int]):
    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        return int(self.array[index])


def _array_of(library: str) -> Any:
    made: dict[str, Any] = {"__name__": library, "CLOCK": CLOCK}
    exec(compile(ARRAYS, f"/site-packages/{library}.py", "exec"), made)
    return made["Array"]()


def test_of_an_array_in_a_file_the_users_line_is_told(rows: Any) -> None:
    dataset = Rows(_array_of("zarr"))
    vars(dataset)["data"] = dataset.array
    assert rows(dataset).found() == {("getitem", "Rows.__getitem__"): 8 * 60}


def test_what_a_library_does_for_an_item_is_its_row(rows: Any) -> None:
    found = rows(Rows(_array_of("another")))
    assert found.found() == {("function", "Array.__getitem__"): 8 * 60}


def test_in_the_scripts_process_the_objects_that_a_dataset_holds_are_left_alone(rows: Any) -> None:
    plain = Reader.__getitem__
    found = rows(Mine(), may_change=False).found()
    assert Reader.__getitem__ is plain and found["function", "Streaming.__getitem__"] == 8 * 80


class Spectrogram(torch.nn.Module):
    def __init__(self, ms: int) -> None:
        super().__init__()
        self.ms = ms

    def forward(self, sample: int) -> int:
        CLOCK.burn(self.ms)
        return sample


class Mask(Spectrogram):
    """Another class, in a tuple beside its probability."""


class Front(Spectrogram):
    """What a helper of the dataset holds."""


class Helper:
    def __init__(self) -> None:
        self.front = Front(7)

    def features(self, sample: int) -> int:
        return self.front(sample)


class Sounds(Dataset[int]):
    def __init__(self) -> None:
        self.by_name, self.masks, self.helper = {"spec": Spectrogram(30)}, (Mask(11), 1), Helper()

    def __len__(self) -> int:
        return 8

    def __getitem__(self, sample: int) -> int:
        CLOCK.burn(5)
        mask, _ = self.masks
        return self.helper.features(mask(self.by_name["spec"](sample)))


def test_modules_in_a_dict_a_tuple_and_an_object_of_the_users_are_rows(rows: Any) -> None:
    found = rows(Sounds())
    assert found.found() == {
        ("getitem", "Sounds.__getitem__"): 8 * 5,
        ("transform", "Spectrogram"): 8 * 30,
        ("transform", "Mask"): 8 * 11,
        ("transform", "Front"): 8 * 7,
    }
