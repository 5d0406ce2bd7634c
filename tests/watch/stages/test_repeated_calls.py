"""Which functions did the same in several samples, from samples whose calls are told."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipebench.watch.record import profilers
from pipebench.watch.record.sample_calls import SampleCalls
from pipebench.watch.worker import repeated_calls
from pipebench.watch.worker.fingerprints import Whole, number_of, size_of, whole
from pipebench.watch.worker.repeated_calls import RepeatedCalls

SECOND = 1_000_000_000
DRAWN = np.random.default_rng(3)


def table(size: int) -> np.ndarray:
    return np.arange(size * size, dtype=np.float64).reshape(size, size) ** 0.5


def drawn(size: int) -> np.ndarray:
    return DRAWN.standard_normal((size, size))


class Bank:
    def __init__(self, size: int) -> None:
        self.table = np.ones((size, size)) ** 0.5

    def plain(self) -> np.ndarray:
        return self.table + 1


class Drawn:
    def __init__(self, size: int) -> None:
        self.table = np.random.rand(size, size)


class Named(Bank):
    def __init__(self, name: str) -> None:
        super().__init__(40)
        self.name = name


def items(size: int) -> Iterator[np.ndarray]:
    yield table(size)


def picture(size: int) -> Image.Image:
    return Image.new("RGB", (size, size))


def waits(size: int) -> bool:
    return bool(table(size).any())


def of_sample(index: int) -> np.ndarray:
    return np.full((300, 300), index) ** 0.5


@pytest.fixture(autouse=True)
def _every_function_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    longest = RepeatedCalls._longest
    monkeypatch.setattr(repeated_calls, "_PART", -1.0)
    monkeypatch.setattr(RepeatedCalls, "_learnt", lambda self: 0.0)  # no time depends on this machine
    monkeypatch.setattr(
        RepeatedCalls, "_longest", lambda self, ns: [one for one in longest(self, ns) if one.co_filename == __file__]
    )


def _looked_into(sample: Callable[[int], object], samples: int = 4) -> list[SampleCalls]:
    written: list[SampleCalls] = []
    recording: Any = SimpleNamespace(write=written.append, guarded=lambda where, act, *args: act(*args))
    repeated = RepeatedCalls(recording, 2, 0)
    for index in range(samples):
        assert repeated.due(2**index * SECOND)
        assert repeated.begins()
        made = None
        try:
            made = sample(index)
        except ValueError:
            pass
        finally:
            repeated.ends(index, made)
    assert sys.getprofile() is None
    return written


def _of(name: str, lines: list[SampleCalls]) -> list[tuple[int, int, int, int]]:
    found = (one for line in lines for one in line.functions if one.name == name)
    return [(one.calls, one.again, one.given, one.gave) for one in found]


def test_a_function_that_gives_each_sample_the_same() -> None:
    lines = _looked_into(lambda index: (table(40), of_sample(index)))
    assert [one.loader for one in lines] == [2] * 4 and len({one.sample for one in lines}) == 4
    assert not lines[0].functions  # that one finds the functions
    same, other = _of("table", lines), _of("of_sample", lines)
    assert len(same) == 3 and len({*same}) == 1 and all(same[0][2:]) and same[0][:2] == (1, 0)
    assert len({given for _, _, given, _ in other}) == len({gave for _, _, _, gave in other}) == 3
    (first,) = (one for one in lines[1].functions if one.name == "table")
    code = table.__code__
    assert (first.file, first.first, first.last) == (__file__, code.co_firstlineno, code.co_firstlineno + 1)
    assert first.at_file == __file__ and first.at_line != first.first and first.spent_ns > 0


def test_what_is_drawn_and_what_is_not_looked_into_is_not_the_same() -> None:
    lines = _looked_into(lambda index: (drawn(40), waits(40), picture(40), list(items(40))))
    drew = _of("drawn", lines)
    assert len({gave for *_, gave in drew}) == 3 and len({given for _, _, given, _ in drew}) == 1
    assert [gave for *_, gave in _of("waits", lines)] == [0] * 3  # a number or two may be the same by chance
    assert len({*_of("picture", lines)}) == 1 and _of("picture", lines)[0][3]
    assert not _of("items", lines)  # a generator works elsewhere


def test_an_object_that_is_made_for_each_sample_has_the_arguments_only() -> None:
    made = _of("Bank.__init__", _looked_into(lambda index: Bank(40)))
    assert len(made) == 3 and len({*made}) == 1 and all(made[0][2:])
    drew = _of("Drawn.__init__", _looked_into(lambda index: Drawn(40)))
    assert [gave for *_, gave in drew] == [0] * 3
    inherited = _looked_into(lambda index: Named(str(index)))
    assert [given for _, _, given, _ in _of("Bank.__init__", inherited)] == [0] * 3
    assert len({given for _, _, given, _ in _of("Named.__init__", inherited)}) == 3
    other = _of("Bank.__init__", _looked_into(lambda index: Bank(40 + index)))
    assert len({given for _, _, given, _ in other}) == 3
    unknown = _of("Bank.__init__", _looked_into(lambda index: Bank(_Number(40))))  # type: ignore[arg-type]
    assert [given for _, _, given, _ in unknown] == [0] * 3


class _Number(int):
    pass


def test_the_bytes_of_a_result_and_of_the_sample_are_counted() -> None:
    lines = _looked_into(lambda index: {"x": table(40)[:, :10], "y": torch.zeros(3), "n": len(of_sample(index))})
    assert [one.sample_bytes for one in lines] == [40 * 10 * 8 + 12] * 4
    found = {one.name: one.result_bytes for one in lines[1].functions}
    assert found["table"] == 40 * 40 * 8 and found["of_sample"] == 300 * 300 * 8


def test_an_object_that_the_sample_changes_is_needed() -> None:
    def paints(index: int) -> np.ndarray:
        canvas = Bank(40)
        canvas.table[index] = 3.0
        return canvas.table

    assert [gave for *_, gave in _of("Bank.__init__", _looked_into(paints))] == [0] * 3


def rarely(size: int) -> np.ndarray:
    return table(size) if np.random.rand() < 2 else drawn(size)


def test_what_draws_random_numbers_may_give_something_else() -> None:
    found = _of("rarely", _looked_into(lambda index: [rarely(40), rarely(40)]))
    assert [(again, gave) for _, again, _, gave in found] == [(0, 0)] * 3


class Lens:
    """Draws in each call, and shows it seldom."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    def shading(self, size: int) -> np.ndarray:
        drawn = self.rng.random() if hasattr(self.rng, "random") else torch.rand(1, generator=self.rng)
        return table(size) if drawn < 2 else table(size + 1)


@pytest.mark.parametrize(
    "rng",
    [np.random.default_rng(1), np.random.RandomState(1), random.Random(1), torch.Generator().manual_seed(1)],
)
def test_what_draws_from_a_generator_of_its_own_may_give_something_else(rng: Any) -> None:
    lens = Lens(rng)
    assert [gave for *_, gave in _of("Lens.shading", _looked_into(lambda index: lens.shading(40)))] == [0] * 3
    rest = Lens(SimpleNamespace(random=lambda: 0))
    assert all(gave for *_, gave in _of("Lens.shading", _looked_into(lambda index: rest.shading(40))))


def test_how_many_arguments_a_function_takes() -> None:
    lines = _looked_into(lambda index: [table(40), Bank(40).plain()])
    assert {one.name: one.takes for one in lines[1].functions} == {"table": 1, "Bank.__init__": 1, "Bank.plain": 0}


def test_a_sample_that_calls_the_same_again() -> None:
    lines = _looked_into(lambda index: [of_sample(index), of_sample(index), of_sample(index), of_sample(index + 9)])
    assert [one[:2] for one in _of("of_sample", lines)] == [(4, 2)] * 3
    (found,) = (one for one in lines[1].functions if one.name == "of_sample")
    assert 0 < found.again_ns < found.spent_ns and not found.several  # all calls are in one line
    views = _looked_into(lambda index: [drawn(40), drawn(40)])
    assert [one[:2] for one in _of("drawn", views)] == [(2, 0)] * 3  # two views of one picture


def test_a_sample_that_fails_or_is_nothing_is_not_told() -> None:
    assert not _looked_into(lambda index: None)

    def fails(index: int) -> np.ndarray:
        raise ValueError(table(40))

    assert not _looked_into(fails)
    caught = _of("raising", _looked_into(lambda index: [_caught(), table(40)]))
    assert [one[3] for one in caught] == [0] * 3


def raising(size: int) -> np.ndarray:
    raise ValueError(table(size))


def _caught() -> bool:
    try:
        raising(40)
    except ValueError:
        return True
    return False


def deep(size: int) -> np.ndarray:
    return deep(size - 1) + 1 if size else table(40)


def test_it_recurses_once() -> None:
    assert [one[:2] for one in _of("deep", _looked_into(lambda index: deep(5)))] == [(1, 0)] * 3


def test_what_uses_variables_of_another_function_is_left_alone_before_3_13() -> None:
    lines = _looked_into(lambda index: around_one(40))
    assert bool(_of("inner", lines)) == (sys.version_info >= (3, 13))
    assert len(_of("around_one", lines)) == len(_of("table", lines)) == 3


def around_one(size: int) -> np.ndarray:
    def inner() -> np.ndarray:
        return table(size) + 1

    return inner()


def test_the_time_of_a_function_is_without_what_looking_takes() -> None:

    lines = _looked_into(lambda index: deep(5))
    (found,) = (one for one in lines[1].functions if one.name == "table")
    assert found.calls == 1 and 0 < found.spent_ns <= lines[1].spent_ns


def test_too_many_calls_end_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_calls, "_EVENTS", 50)
    recording: Any = SimpleNamespace(write=None, guarded=None)
    repeated = RepeatedCalls(recording, 1, 0)
    assert repeated.due(SECOND) and repeated.begins()
    for _ in range(60):
        table(1)
    assert sys.getprofile() is None
    repeated.ends(0, 1)
    assert not repeated.due(9 * SECOND)


def test_it_looks_into_few_samples_and_only_of_the_first_passes() -> None:
    recording: Any = SimpleNamespace(write=lambda *_: None, guarded=lambda where, act, *args: act(*args))
    repeated, due = RepeatedCalls(recording, 1, 0), []
    for batch in range(1, 200):
        if repeated.due(SECOND // 10):
            due.append(batch)
            assert repeated.begins()
            repeated.ends(batch, table(4))
    assert due == [10, 20, 40, 80]
    assert not RepeatedCalls(recording, 1, 3).due(99 * SECOND)


def test_who_looks_at_calls_already_is_left_alone() -> None:
    recording: Any = SimpleNamespace(write=None, guarded=None)
    repeated = RepeatedCalls(recording, 1, 0)
    assert repeated.due(SECOND)
    own = lambda *_: None  # noqa: E731
    sys.setprofile(own)
    try:
        assert not repeated.begins() and sys.getprofile() is own
    finally:
        sys.setprofile(None)
    assert repeated.due(2 * SECOND) and repeated.begins()
    sys.setprofile(own)  # by the sample
    repeated.ends(0, None)
    assert sys.getprofile() is own and not repeated.due(99 * SECOND)
    sys.setprofile(None)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([1, 2], [1, 3]), ([1, 2], (1, 2)), ({"a": 1}, {"b": 1}), (1, 1.0), (True, 1), ("a", b"a"),
        ([[1], 2], [1, [2]]),
        (np.zeros((2, 3)), np.zeros((3, 2))), (np.zeros(2, "i4"), np.zeros(2, "f4")),
        (torch.zeros(2), torch.ones(2)), (Image.new("L", (2, 3)), Image.new("L", (3, 2))), (None, 0),
        (Path("a"), Path("b")), (np.int64(3), np.int64(4)), (np.float32(3), np.int64(3)), (slice(1), slice(2)),
        (torch.float32, torch.float16),
    ],
)  # fmt: skip
def test_a_whole_value_has_a_number(one: Any, other: Any) -> None:
    first, second = whole(one, 1000), whole(other, 1000)
    assert first is not None and second is not None and first == whole(one, 1000) and first.number != second.number


def test_all_of_a_value_counts_or_nothing() -> None:
    large = np.zeros(1000)
    assert whole(large, 7999) is None and whole(large, 8000) == Whole(whole(large, 9000).number, 8000)  # type: ignore[union-attr]
    for odd in (object(), [1, object()], np.array([object()]), torch.zeros(2, device="meta"), {1: {object()}}):
        assert whole(odd, 1000) is None
    endless: list[Any] = []
    endless.append(endless)
    assert whole(endless, 1000) is None


def test_a_function_that_a_sample_calls_very_often_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated_calls, "_MOST_CALLS", 3)
    lines = _looked_into(lambda index: [*(table(9) for _ in range(4)), *(of_sample(1) for _ in range(3))])
    assert not _of("table", lines) and len(_of("of_sample", lines)) == 3


def test_functions_and_classes_are_arguments_by_what_they_are() -> None:
    plain, kept = table, np.float32
    assert number_of(plain) == number_of(table) != number_of(drawn) and number_of(kept) == number_of(np.float32)
    assert number_of(len) and number_of(np) and number_of(np.float64) != number_of(np.float32)
    index = 3
    for odd in (lambda: index, [].append, "text".join, SimpleNamespace(), torch.nn.Linear(1, 1).forward, 3):
        assert number_of(odd) is None


def test_sizes_are_of_memory() -> None:
    assert size_of([np.zeros((4, 4)), {"x": torch.zeros(3)}, (b"bytes", "text", 3)]) == 128 + 12 + 5
    assert size_of(np.zeros((100, 100))[:2, :3]) == 48
    assert size_of(np.broadcast_to(np.zeros(4), (100, 4))) == 32 and size_of(torch.zeros(1).expand(50)) == 4


def test_a_part_of_a_file_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(1000))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for one in (mapped, mapped[2:9], np.asarray(mapped)):
        assert size_of(one) == 0 and whole(one, 10_000) is None


def test_objects_count_by_their_attributes_where_that_is_asked() -> None:
    one, other = Bank(4), Bank(4)
    assert whole(one, 1000) is None and whole(one, 1000, deep=True) == whole(other, 1000, deep=True) is not None
    other.table[0, 0] = 7
    assert whole(one, 1000, deep=True) != whole(other, 1000, deep=True)
    module = torch.nn.Sequential(torch.nn.BatchNorm1d(3, affine=False), torch.nn.ReLU())
    assert whole(module, 10_000, deep=True) is not None
    for odd in (np.random.default_rng(3), Large([1]), {"x": np.array([one], object)}, {Bank(4)}):
        assert whole(odd, 1000, deep=True) is None

    class Slotted:
        __slots__ = ("x",)

    assert whole(Slotted(), 1000, deep=True) is None
    one.itself = one  # type: ignore[attr-defined]
    assert whole(one, 1000, deep=True) is not None


class Large(list[int]):
    def __iter__(self) -> Iterator[int]:
        raise AssertionError


def test_what_is_too_much_is_not_begun() -> None:
    assert whole([0] * 30_000, 10**9) is None and whole(dict.fromkeys(range(30_000)), 10**9) is None
    assert whole("x" * 1000, 3999) is None and whole("x" * 1000, 4000) is not None
    assert whole(Large([1]), 1000) is None and size_of(Large([1])) == 0


def test_a_profiler_in_c_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profilers.is_free()
    monkeypatch.setitem(sys.modules, "yappi", SimpleNamespace(is_running=lambda: True))  # type: ignore[arg-type]
    assert not profilers.is_free()
    monkeypatch.setitem(sys.modules, "yappi", SimpleNamespace(is_running=lambda: False))  # type: ignore[arg-type]
    assert profilers.is_free()
