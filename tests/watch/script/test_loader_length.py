"""How many batches a pass has is asked of torch's own samplers only: the script's code may draw numbers, or raise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler

from pipebench import watching
from pipebench.watch.script.made import length_of
from pipebench.watch.trial.patching import Makers

ASKED: list[str] = []
NUMBERS: Any = torch.arange(8.0)


@pytest.fixture(autouse=True)
def nobody_has_asked() -> None:
    ASKED.clear()


class Asked:
    """Notes that its length was asked, and has none."""

    def __len__(self) -> int:
        ASKED.append(type(self).__name__)
        raise ValueError("it has no length")


class Indices(Asked, Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class Lists(Asked):
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1, 2], [3, 4]])


class Deriving(Asked, BatchSampler):
    """A batch sampler that is torch's but for its length."""


class Own(Asked, DataLoader[Any]):
    """A loader that is torch's but for its length."""


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[float]:
        return iter([1.0, 2.0])

    def __len__(self) -> int:
        ASKED.append("Stream")
        return 9


ASKING: dict[str, Callable[[], Any]] = {
    "sampler": lambda: DataLoader(NUMBERS, 2, sampler=Indices()),
    "batch sampler": lambda: DataLoader(NUMBERS, batch_sampler=Lists()),  # type: ignore[arg-type]
    "within torch's": lambda: DataLoader(NUMBERS, batch_sampler=BatchSampler(Indices(), 2, False)),
    "derived": lambda: DataLoader(NUMBERS, batch_sampler=Deriving(SequentialSampler(NUMBERS), 2, False)),
    "no batches": lambda: DataLoader(NUMBERS, None, sampler=Indices()),
    "loader": lambda: Own(NUMBERS, 2),
    "iterable": lambda: DataLoader(Stream(), 2),
}


@pytest.mark.parametrize("make", ASKING.values(), ids=ASKING)
def test_no_code_of_the_script_is_asked(make):
    assert length_of(make()) is None
    with watching():
        for _ in range(2):
            for _ in make():
                pass
    assert ASKED == []


@pytest.mark.parametrize(
    ("how", "length"),
    [
        ({"batch_size": 2}, 4),
        ({"batch_size": 3, "shuffle": True}, 3),
        ({"batch_size": 3, "drop_last": True}, 2),
        ({"batch_size": None}, 8),
        ({"batch_sampler": [[0, 1], [2]]}, 2),
        ({"batch_sampler": BatchSampler(RandomSampler(NUMBERS), 4, False)}, 2),
    ],
)
def test_torch_s_own_samplers_say_it(how, length):
    assert length_of(DataLoader(NUMBERS, **how)) == length


def test_there_is_no_loader():
    assert length_of(None) is None


@pytest.mark.parametrize("make", ASKING.values(), ids=ASKING)
def test_a_loader_of_unknown_length_can_be_tried_and_is_known_again(make):
    written: list[Any] = []
    makers = Makers(SimpleNamespace(write=written.append, settings=SimpleNamespace(shared="")), {})  # type: ignore[arg-type]
    loaders = []
    for _ in range(2):
        loaders.append(make())
        makers.made(loaders[-1])
    makers.numbers[loaders[0]] = 3
    makers.iterated(loaders[0])
    assert (written[0].batches, written[0].refusal) == (None, "iterable" if "Stream" in str(make().dataset) else "")
    assert makers.number_of(loaders[1]) == 3
    assert ASKED == []
