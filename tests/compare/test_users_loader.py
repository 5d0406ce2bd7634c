"""The stages of a user's own loader, in the styles that loaders are written in."""

import sys
import types

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from pipebench.compare import users_loader
from pipebench.compare.config import Own
from pipebench.runner import LocalRunner
from pipebench.task import Workload

OWN = Workload(data="own")


class Images(Dataset):
    """Images of 3×8×8 and their labels, as `made` puts them together; without any transform."""

    def __init__(self, made):
        self.made = made

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.made(torch.full((3, 8, 8), float(index)), index)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.zeros(4, 2)] * 8)


def halved(image):
    return image / 2


@pytest.fixture
def runner(monkeypatch):
    """Gives a runner for a loader function, and for a transform where there is one."""

    def of(make_loader, transform=None, **settings):
        module = types.SimpleNamespace(make_loader=make_loader, make_transform=lambda: transform)
        monkeypatch.setitem(sys.modules, "mine", module)
        named = "mine:make_transform" if transform else None
        return LocalRunner(find=users_loader.finder(Own("mine:make_loader", named, **settings)))

    return of


def samples(runner, identity):
    """The samples of a call, or why there is no such call."""
    prepared = runner.prepare(identity, OWN)
    return prepared.skip_reason or runner.arm(identity, OWN, ("own",)).samples


def test_every_benchmark_of_a_loader_runs_and_counts_its_samples(runner):
    class Transforming(Images):
        transform = None

        def __getitem__(self, index):
            image, label = super().__getitem__(index)
            return (self.transform(image) if self.transform else image), label

    def make_loader(num_workers=0):
        dataset = Transforming(lambda image, label: (image, label))
        dataset.transform = halved
        return DataLoader(dataset, batch_size=16, num_workers=num_workers)

    compose = types.SimpleNamespace(transforms=[halved, halved])
    own = runner(make_loader, compose)
    rows = ["read/own/sample", "transform/own/halved", "transform/own/all", "collate/own/batch", "loader/own/workers-0"]
    assert [samples(own, one) for one in rows[:2]] == [64, 8]
    assert [samples(own, one) for one in rows[3:]] == [16, 64]
    assert samples(own, "transform/own/Blur") == "this commit has no transform Blur"


def test_a_dataset_without_any_transform_is_read_as_it_is(runner):
    own = runner(lambda: DataLoader(Images(lambda image, label: (image, label)), batch_size=16))
    assert samples(own, "read/own/sample") == 64


def test_a_transform_that_may_lie_anywhere_in_a_dataset_is_not_guessed(runner):
    own = runner(lambda: DataLoader(Images(lambda image, label: (image, label)), batch_size=16), halved)
    assert "cannot be taken out" in samples(own, "read/own/sample")


def test_a_dataset_that_fails_without_its_transform_says_so(runner):
    class Needing(Images):
        transform = staticmethod(lambda image: {"x": image})

        def __getitem__(self, index):
            return self.transform(super().__getitem__(index)[0])["x"]

    own = runner(lambda: DataLoader(Needing(lambda image, label: (image, label)), batch_size=16))
    assert "its dataset fails without its transform (" in samples(own, "read/own/sample")


@pytest.mark.parametrize("image", [None, "image"])
def test_a_step_gets_the_image_of_a_dict(runner, image):
    def make_loader(transform=None):
        return DataLoader(Images(lambda image, label: {"label": label, "image": image}), batch_size=16)

    given = []
    own = runner(make_loader, lambda one: given.append(one.shape) or one, image=image)
    assert samples(own, "transform/own/all") == 8
    assert set(given) == {(3, 8, 8)}


def test_two_images_need_a_name(runner):
    def make_loader(transform=None):
        return DataLoader(Images(lambda image, label: {"left": image, "right": image}), batch_size=16)

    assert "several images (left, right)" in samples(runner(make_loader, halved), "transform/own/all")
    assert samples(runner(make_loader, halved, image="right"), "transform/own/all") == 8


def test_ragged_samples_are_collated_and_counted(runner):
    def make_loader():
        dataset = Images(lambda image, label: (image[:, :, : 1 + label % 5], label))
        return DataLoader(dataset, batch_size=6, collate_fn=lambda batch: tuple(zip(*batch, strict=True)))

    own = runner(make_loader)
    assert [samples(own, one) for one in ("collate/own/batch", "loader/own/workers-0")] == [6, 64]


def test_a_custom_batch_sampler_is_collated(runner):
    def make_loader():
        return DataLoader(Images(lambda image, label: (image, label)), batch_sampler=[[5, 4, 3], [2, 1]])

    own = runner(make_loader)
    assert [samples(own, one) for one in ("collate/own/batch", "loader/own/workers-0")] == [3, 5]


def test_a_stream_that_makes_its_own_batches_has_no_collate_of_its_own(runner):
    own = runner(lambda num_workers=0: DataLoader(Stream(), batch_size=None, num_workers=num_workers), samples=8)
    assert "does not collate" in samples(own, "collate/own/batch")
    assert samples(own, "read/own/sample") == 32  # as it is: 8 batches of 4
    assert samples(own, "loader/own/workers-0") == 8


def test_a_start_of_workers_is_one_sample(runner):
    own = runner(lambda: DataLoader(Images(lambda image, label: image), batch_size=16, num_workers=4))
    assert samples(own, "loader/own/startup-1") == 1


def test_each_benchmark_asks_for_the_loader_that_it_needs():
    assert users_loader.wanted_by("loader/own/startup-3") == {"num_workers": 3}
    assert users_loader.wanted_by("collate/own/batch") == {"num_workers": 0}
    assert set(users_loader.wanted_by("read/own/sample")) == {"num_workers", "transform"}


def test_names_are_numbered_where_a_step_occurs_twice():
    def brighten(image):
        return image

    class Compose:
        transforms = (brighten, lambda image: image, brighten)

    assert users_loader.names_of(Compose()) == ["brighten", "lambda", "brighten-2"]
