"""Objects of the script that allow less, or do more, than most: its loaders give what they give without us."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset

from pipebench import watching

FORK = {0: None, 1: "fork"}


@dataclasses.dataclass(frozen=True)
class BadSample(Exception):
    """Its traceback cannot be assigned."""

    message: str


class Failing(Dataset[int]):
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise BadSample("the fifth")
        if index == 9:
            try:
                raise BadSample("the ninth")
            except BadSample as error:
                raise ValueError("a reason that is frozen") from error
        return index


def test_an_exception_that_is_frozen_reaches_the_loop() -> None:
    found: list[Any] = []
    with watching():
        batches = iter(DataLoader(Failing(), batch_size=4, num_workers=1, multiprocessing_context="fork"))
        for _ in range(3):
            try:
                found.append(next(batches).tolist())
            except (BadSample, ValueError) as error:
                found.append(type(error))
                assert "pipebench" not in str(error)
    assert found == [[0, 1, 2, 3], BadSample, ValueError]


class WithoutReasons(Exception):
    """Nobody may ask it for what led to it."""

    @property
    def __cause__(self) -> BaseException | None:
        raise RuntimeError("this is not told")

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None: ...


class FailsOnce(Failing):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __getitem__(self, index: int) -> int:
        raise self.error


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("error", [ValueError("a sample"), BadSample("a sample")])
def test_a_traceback_has_one_frame_of_ours_for_a_call_of_next(error: Exception, workers: int) -> None:
    with watching():
        loader = DataLoader(FailsOnce(error), num_workers=workers, multiprocessing_context=FORK[workers])
        with pytest.raises(type(error)) as found:
            next(iter(loader))
    of = [one.name for one in traceback.extract_tb(found.tb) if "pipebench importlib" in one.filename]
    assert of == ["__next__"]


def test_an_exception_that_does_not_tell_its_cause_reaches_the_loop() -> None:
    caught = None
    with watching():
        try:
            next(iter(DataLoader(FailsOnce(WithoutReasons()))))
        except BaseException as error:
            caught = type(error)
    assert caught is WithoutReasons


class Key:
    """An index that cannot say yet what it is: `label` is set later."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __repr__(self) -> str:
        return f"Key({self.number}, {self.label})"  # type: ignore[attr-defined]

    def __index__(self) -> int:
        return int(self.label)  # type: ignore[attr-defined]


class Keys:
    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Key]:
        return map(Key, range(8))


class Keyed(Dataset[int]):
    def __getitem__(self, key: Key) -> int:
        return key.number


class InBatches(Keyed):
    def __getitems__(self, keys: Any) -> list[int]:
        return [one.number for one in keys]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("dataset", [Keyed(), InBatches()])
def test_an_index_that_has_no_text(dataset: Any, workers: int) -> None:
    keys: Any = Keys()
    with watching() as seen:
        loader = DataLoader(dataset, 4, sampler=keys, num_workers=workers, multiprocessing_context=FORK[workers])
        assert [one.tolist() for one in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [one.samples for one in seen.result.loaders] == [8]


class Once:
    """A batch sampler that gives iterators: they have no length."""

    def __iter__(self) -> Iterator[Iterator[Key]]:
        return (map(Key, range(first, first + 4)) for first in (0, 4))


@pytest.mark.parametrize("dataset", [Keyed(), InBatches()])
def test_indices_that_have_no_length(dataset: Any) -> None:
    once: Any = Once()
    with watching() as seen:
        assert [one.tolist() for one in DataLoader(dataset, batch_sampler=once)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [one.samples for one in seen.result.loaders] == [8]


class Lines:
    """An iterator that is also a context manager, as an open file is, and knows what is left."""

    def __init__(self) -> None:
        self.waiting, self.open = [*range(8)], False

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> int:
        return self.waiting.pop(0)

    def __len__(self) -> int:
        return len(self.waiting)

    def __getitem__(self, place: int) -> int:
        return self.waiting[place]

    def __contains__(self, line: int) -> bool:
        return line in self.waiting

    def __enter__(self) -> Lines:
        self.open = True
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False


class Source:
    def __iter__(self) -> Lines:
        return Lines()


class Peeking(IterableDataset[int]):
    def __init__(self) -> None:
        self.source = Source()

    def __iter__(self) -> Iterator[int]:
        with iter(self.source) as lines:
            while lines:
                assert lines.open and lines[-1] == 7 and 7 in lines
                yield next(lines)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_that_is_more_than_that(workers: int) -> None:
    with watching():
        loader = DataLoader(Peeking(), 4, num_workers=workers, multiprocessing_context=FORK[workers])
        assert [one.tolist() for one in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]


class Other(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index

    def __getitems__(self, indices: list[int]) -> list[int]:
        return [100 + one for one in indices]


@pytest.mark.parametrize("own", [lambda indices: [100 + one for one in indices], Other().__getitems__])
def test_a_subset_with_a_function_of_its_own_for_batches(own: Any) -> None:
    subset: Any = Subset(Failing(), range(4))
    subset.__getitems__ = own
    with watching() as seen:
        assert [one.tolist() for one in DataLoader(subset, batch_size=2)] == [[100, 101], [102, 103]]
    assert [one.samples for one in seen.result.loaders] == [4]
