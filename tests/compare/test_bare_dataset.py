"""A user's dataset with its transform taken out, and read as its loader reads it."""

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
)

from pipebench.compare import bare_dataset


class Doubling(Dataset):
    def __init__(self, transform=None):
        self.transform = transform

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self.transform(index) if self.transform else index


class Joint(Doubling):
    """Its transform takes two values and is called unasked, as in datasets for detection."""

    def __init__(self):
        self.transforms = lambda image, target: (image * 2, target * 2)

    def __getitem__(self, index):
        return self.transforms(index, index)


class Albumentations(Doubling):
    def __getitem__(self, index):
        return self.transform(image=index)["image"]


class HuggingFace:
    """Behaves as a dataset of Hugging Face: a format may transform, and many samples are asked for at once."""

    def __init__(self, transform=None):
        self.format = {"type": None if transform is None else "custom"}
        self._transform, self.asked = transform, []

    def with_format(self, kind):
        assert kind is None
        return HuggingFace()

    def with_transform(self, transform):
        return HuggingFace(transform)

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return self._transform({"label": index}) if self._transform else {"label": index}

    def __getitems__(self, indices):
        self.asked.append(list(indices))
        return [self[index] for index in indices]


class Stream(IterableDataset):
    """A stream with a length, which inherits `__getitem__` from torch's Dataset."""

    def __init__(self, length=5):
        self.starts, self.length = 0, length

    def __len__(self):
        return self.length

    def __iter__(self):
        self.starts += 1
        return iter(range(self.length))


def twice(value):
    return value * 2


def twice_named(image):
    return {"image": image * 2}


@pytest.mark.parametrize(
    ("dataset", "before", "after"),
    [
        (Doubling(twice), 6, 3),
        (Joint(), (6, 6), (3, 3)),
        (Albumentations(twice_named), 6, 3),
        (Subset(Doubling(twice), range(20)), 6, 3),
        (ConcatDataset([Doubling(twice), Doubling(twice)]), 6, 3),
        (HuggingFace().with_transform(lambda one: {"doubled": 2 * one["label"]}), {"doubled": 6}, {"label": 3}),
    ],
)
def test_a_transform_is_taken_out_of_a_copy(dataset, before, after):
    assert bare_dataset.without_transform(dataset)[3] == after
    assert dataset[3] == before


def test_a_dataset_that_says_that_it_has_none_is_itself_and_of_another_it_cannot_be_told():
    for dataset in (Doubling(), HuggingFace()):
        assert bare_dataset.without_transform(dataset) is dataset
    assert bare_dataset.without_transform([1, 2, 3]) is None


def test_many_samples_are_asked_for_at_once_as_the_loader_does():
    dataset = HuggingFace()
    call = bare_dataset.reading(DataLoader(dataset, batch_size=4), dataset, 10)
    assert call(None) == 10
    assert dataset.asked == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


class ByName(Dataset):
    def __getitem__(self, name):
        return name.upper()

    def __len__(self):
        return 3


def test_a_sampler_of_the_users_own_gives_the_indices():
    loader = DataLoader(ByName(), batch_sampler=[["a", "b"], ["c"]])
    assert bare_dataset.first_samples(loader, loader.dataset, 2) == ["A", "B"]
    assert bare_dataset.first_samples(loader, loader.dataset, 9, after=2) == ["C"]
    assert bare_dataset.first_batches(loader, 2) == [["A", "B"], ["C"]]


def test_a_batch_sampler_of_torch_leaves_the_first_samples_as_they_are():
    loader = DataLoader(Doubling(), batch_sampler=BatchSampler(SequentialSampler(range(20)), 4, True))
    assert bare_dataset.first_samples(loader, loader.dataset, 3) == [0, 1, 2]
    assert bare_dataset.first_batches(loader, 1) == [[0, 1, 2, 3]]


def test_a_stream_with_a_length_is_a_stream_and_goes_on_from_call_to_call():
    stream = Stream()
    assert not bare_dataset.is_map_style(stream)
    call = bare_dataset.reading(DataLoader(stream, batch_size=2), stream, 4)
    assert [call(None) for _ in range(5)] == [4] * 5
    assert stream.starts == 4  # 20 samples of a stream of 5


def test_an_empty_stream_ends():
    assert list(bare_dataset.endless([])) == []


def test_a_stream_of_batches_counts_their_samples():
    batches = [torch.zeros(4, 2)] * 3
    assert bare_dataset.reading(batches_of(batches), batches_of(batches), 2)(None) == 8


def batches_of(batches):
    class Batches(IterableDataset):
        def __iter__(self):
            return iter(batches)

    return Batches()
