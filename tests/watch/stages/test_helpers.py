"""What threads do for the thread that fetches has rows, as far as that one waits for them, and is not counted twice."""

from __future__ import annotations

import threading
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fetched_rows import CLOCK
from torch.utils.data import IterableDataset

from pipebench.watch.record.exclusive_time import REST, Stages, StageTimer, local, stages
from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import helpers, iterables


class _BaseExamplesIterable:
    pass


class ExamplesIterable(_BaseExamplesIterable):
    def __iter__(self) -> Iterator[int]:
        for one in range(8):
            CLOCK.burn(5)
            yield one


class MappedExamplesIterable(_BaseExamplesIterable):
    def __init__(self, ex_iterable: Any, function: Any) -> None:
        self.ex_iterable, self.function = ex_iterable, function

    def __iter__(self) -> Iterator[int]:
        for one in self.ex_iterable:
            yield self.function(one)


class CyclingMultiSourcesExamplesIterable(_BaseExamplesIterable):
    """Reads in a thread of its own, as datasets 5 does. It does not read ahead here, so the clock moves in an order."""

    def __init__(self, *ex_iterables: Any) -> None:
        self.ex_iterables = ex_iterables

    def __iter__(self) -> Iterator[int]:
        (source,) = (iter(one) for one in self.ex_iterables)
        with ThreadPoolExecutor(1) as pool:
            while (found := pool.submit(next, source, None).result()) is not None:
                CLOCK.burn(2)
                yield found


def render(one: int) -> int:
    CLOCK.burn(100)
    return one


class BufferShuffledExamplesIterable(_BaseExamplesIterable):
    """A link after that: its own time stays in its row."""

    def __init__(self, ex_iterable: Any) -> None:
        self.ex_iterable = ex_iterable

    def __iter__(self) -> Iterator[int]:
        for one in self.ex_iterable:
            CLOCK.burn(7)
            yield one


class Streamed(IterableDataset[int]):
    def __init__(self) -> None:
        mapped = MappedExamplesIterable(ExamplesIterable(), render)
        self._ex_iterable = BufferShuffledExamplesIterable(CyclingMultiSourcesExamplesIterable(mapped))

    def __iter__(self) -> Iterator[int]:
        yield from self._ex_iterable


@pytest.mark.parametrize("may_change", [True, False])
def test_what_helpers_do_is_in_the_rows_of_the_users_functions(rows: Any, may_change: bool) -> None:
    module = types.ModuleType("datasets.iterable_dataset")
    for kind in (_BaseExamplesIterable, *_BaseExamplesIterable.__subclasses__()):
        setattr(module, kind.__name__, kind)
    patches = Patches()
    iterables.watch_examples(patches, module)
    found = rows(Streamed(), may_change=may_change).found()
    patches.undo()
    assert found == {
        ("transform", "render"): 8 * 100, ("getitem", "ExamplesIterable.__iter__"): 8 * 5,
        ("getitem", "interleave"): 8 * 2, ("getitem", "shuffle"): 8 * 7,
    }  # fmt: skip
    assert local.timer is None


@pytest.mark.parametrize(("waited", "given"), [(1000, {1: 60, 2: 240}), (150, {1: 30, 2: 120}), (0, {})])
def test_no_more_is_given_than_was_waited(waited: int, given: dict[int, int], monkeypatch: Any) -> None:
    """Two helpers work at once, so together they may have worked for longer."""
    timer, one, other = StageTimer(), StageTimer(), StageTimer()
    monkeypatch.setattr(stages, "known", {str(number): number for number in range(6)})
    timer.helpers = {1: one, 2: other}
    timer.sums[5] = 5000
    before = {each: each.so_far() for each in (one, other)}
    one.sums[1], one.sums[2], other.sums[2] = 60, 140, 100
    one.sums[REST] += 10_000
    helpers._divide(timer, 5, waited, before)
    assert {number: ns for number, ns in enumerate(timer.sums[:5]) if ns} == given
    assert sum(timer.sums) == 5000


def test_threads_that_ask_at_once_never_share_a_number() -> None:
    known, numbers, gate = Stages(), list[int](), threading.Barrier(4)

    def ask(which: int) -> None:
        gate.wait(60)
        numbers.extend(known.number("function", f"{which}-{nth}") for nth in range(50))

    threads = [threading.Thread(target=ask, args=(which,)) for which in range(4)]
    [one.start() for one in threads]
    [one.join(60) for one in threads]
    assert len(set(numbers)) == 200 and {one.number for one in known.new} == {REST, *numbers}


def test_no_more_threads_than_there_is_room_for() -> None:
    owner = StageTimer()
    owner.helpers = {-number: StageTimer() for number in range(1, helpers._MOST + 1)}
    link = helpers.Link(iter([3]), 1, owner)
    assert local.timer is None and next(link) == 3 and local.timer is None
