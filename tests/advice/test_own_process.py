"""Without workers, a copy of the dataset makes the batches: what it opens in the script's process is its own."""

import functools
import gc

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset

from pipebench.watch.trial import arms


class Reader:
    """It opens what it reads when it is first needed."""

    def __init__(self):
        self.file = None

    def read(self, index):
        self.file = self.file or "open"
        return index


class Lazy(Dataset):
    """It keeps open, in several ways, what it has once needed."""

    def __init__(self):
        self.get = self.handle
        self.handles, self.reader, self.readers = {}, Reader(), [Reader()]

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.get(index)
        return self.reader.read(self.readers[0].read(index))

    def handle(self, index):
        self.handles[index] = "open"

    @property
    def opened(self):
        return bool(self.handles or self.reader.file or self.readers[0].file)


class Around(Dataset):
    """It holds another dataset, under a name of its own."""

    def __init__(self, **names):
        vars(self).update(names)

    def __len__(self):
        return 12

    def __getitem__(self, index):
        inner = next(iter(vars(self).values()))
        return (inner[0] if isinstance(inner, (list, tuple)) else inner)[index]


class Looking(Around):
    """It looks up what it lacks in the dataset that it holds."""

    def __getattr__(self, name):
        return getattr(self.inner, name)


def _changed(dataset, **how):
    return arms.changed(DataLoader(dataset, batch_size=4, num_workers=2, **how), {"num_workers": 0}, False)


@pytest.mark.parametrize(
    "around",
    [
        lambda one: one,
        lambda one: Around(base=one),
        lambda one: Looking(inner=one),
        lambda one: Around(datasets=(one, one)),
        lambda one: Around(parts=[one] * 200),
        lambda one: Around(dataset=Around(source=one)),
    ],
)
def test_what_is_opened_in_the_scripts_process_stays_with_the_copy(around):
    """Workers that are forked later would share the position of such a file, and get other bytes."""
    inner = Lazy()
    assert next(iter(_changed(around(inner)))).tolist() == [0, 1, 2, 3]
    assert not inner.opened


def test_a_dataset_that_is_held_twice_is_copied_once_also_where_it_holds_itself():
    inner = Lazy()
    inner.myself = inner
    parts = _changed(ConcatDataset([inner, inner])).dataset.datasets
    assert parts[0] is parts[1] is parts[0].myself and parts[0] is not inner


@pytest.mark.parametrize(
    "held", [lambda one: Around(dataset=one), lambda one: Around(dataset=[one, one]), lambda one: one]
)
def test_arrays_are_shared_because_a_copy_may_not_fit_into_memory(held, tmp_path):
    mapped = np.memmap(tmp_path / "a", "f4", "w+", shape=(12, 3))
    for array in (np.zeros((12, 3)), mapped):
        data = held(array)
        found = _changed(data).dataset
        inner = found if data is array else found.dataset
        assert (inner[0] if isinstance(inner, list) else inner) is array


def test_a_collate_function_of_the_dataset_is_that_of_the_copy():
    """It may read what making samples has set: the script's own dataset has made none here."""

    class Padded(Lazy):
        def __getitem__(self, index):
            self.longest = index + 1
            return torch.ones(index + 1)

        def collate(self, samples):
            return [self.longest, len(samples)]

    data = Padded()
    assert next(iter(_changed(data, collate_fn=data.collate))) == [4, 4] and not hasattr(data, "longest")
    assert next(iter(_changed(data, collate_fn=functools.partial(data.collate)))) == [4, 4]
    assert _changed(data, collate_fn=Padded().collate).collate_fn.__self__ is not data


def test_a_dataset_of_which_there_is_only_one_is_not_tried():
    class Single(Lazy):
        def __copy__(self):
            return self

    with pytest.raises(arms.CannotTry, match="own-process"):
        _changed(Single())


def test_the_end_of_a_copy_closes_nothing_of_the_scripts(tmp_path):
    """The next workers of the script are forked with this file: closed, it would end the training."""

    class Closing(Lazy):
        def __init__(self):
            super().__init__()
            self.file = open(tmp_path / "a", "w+")  # noqa: SIM115

        def __del__(self):
            self.file.close()

    data = Closing()
    found = _changed(Around(base=data))
    assert isinstance(found.dataset.base, Closing) and found.dataset.base is not data
    del found
    gc.collect()
    assert not data.file.closed
    file = data.file
    del data
    gc.collect()
    assert file.closed


class Slotted:
    """A handle that has no dictionary."""

    __slots__ = ("__opened", "reader")

    def __init__(self):
        self.reader, self.__opened = Reader(), []

    def opened(self):
        return self.__opened


class OnSlots(Dataset):
    def __init__(self):
        self.slotted = Slotted()

    def __getitem__(self, index):
        self.slotted.opened().append(index)
        return index

    def __len__(self):
        return 4


def test_what_is_held_in_slots_is_copied_too():
    dataset = OnSlots()
    found = arms.changed(DataLoader(dataset, num_workers=1), {"num_workers": 0}, False)
    assert [int(one) for one in found] == [0, 1, 2, 3]
    assert dataset.slotted.opened() == [] and found.dataset.slotted.opened() == [0, 1, 2, 3]
    assert found.dataset.slotted.reader is not dataset.slotted.reader
