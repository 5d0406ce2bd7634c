"""The sampler of a loader has a name and a place: the script's own, or the class of torch's."""

from __future__ import annotations

import pytest
import torch
from planted_runs import TRAINS, Planted, said
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, Sampler

from pipebench.watch.record.lines import CodePlace, LoaderFound
from pipebench.watch.script.described import described
from pipebench.watch.script.made import Makers

DATA = list(range(8))


class Balanced(Sampler[int]):
    def __iter__(self):
        return iter(DATA)

    def __len__(self):
        return len(DATA)


class Pairs(Sampler[list[int]]):
    def __iter__(self):
        return iter([[0, 1], [2, 3]])


class Own(BatchSampler):
    """It batches as torch does."""


OWN = CodePlace(__file__, Balanced.__iter__.__code__.co_firstlineno)


@pytest.mark.parametrize(
    ("how", "name", "at"),
    [
        ({"sampler": Balanced()}, "Balanced.__iter__", OWN),
        ({"batch_sampler": Pairs()}, "Pairs.__iter__", CodePlace(__file__, Pairs.__iter__.__code__.co_firstlineno)),
        ({"batch_sampler": BatchSampler(Balanced(), 2, False)}, "Balanced.__iter__", OWN),
        ({"batch_sampler": Own(RandomSampler(DATA), 2, False)}, "RandomSampler", None),
        ({"shuffle": True}, "RandomSampler", None),
        ({"sampler": DATA}, "", None),
    ],
)
def test_the_sampler_that_chooses_the_samples_is_named(how, name, at) -> None:
    found = described(DataLoader(DATA, **how), 1, Makers())
    assert (found.sampler, found.sampler_at) == (name, at)


def test_a_stream_has_none() -> None:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(DATA)

    found = described(DataLoader(Stream()), 1, Makers())
    assert found.sampler_at is None


def test_a_slow_sampler_is_told_with_its_place() -> None:
    run = Planted()
    run.loader(**TRAINS, sampler=500)
    loader = next(one for one in run.lines if isinstance(one, LoaderFound))
    loader.sampler, loader.sampler_at = "Balanced.__iter__", CodePlace("/home/me/train.py", 17)
    assert said(run.account()).startswith("The sampler of loader 1 (Balanced.__iter__, train.py:17) took 500 ms")
