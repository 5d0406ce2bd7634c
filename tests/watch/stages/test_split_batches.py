"""Where short samples change their row often, all batches are split into rows at first, and then some of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clockwork import Rows
from fetched_rows import CLOCK

from pipebench.watch.record.exclusive_time import REST, local, stages
from pipebench.watch.record.patches import Patches
from pipebench.watch.stages import finding_transforms
from pipebench.watch.worker import split

US = 1_000
KNOWN = 512  # batches that are all split
BATCH = 4
Micros = Callable[[int], float]


class Burns:
    """A transform of a class of its own that takes as many microseconds as `us` gives for a batch."""

    def __init__(self, us: Micros) -> None:
        self._us = us

    def __call__(self, index: int) -> int:
        CLOCK.burn(round(self._us(index // BATCH) * US))
        return index


class First(Burns):
    pass


class Second(Burns):
    pass


class Samples:
    """Its own work takes 10 µs, then come the transforms."""

    def __init__(self, first: Micros, second: Micros) -> None:
        self.transforms = [First(first), Second(second)]
        self.own_us = 10

    def __getitem__(self, index: int) -> Any:
        CLOCK.burn(self.own_us * US)
        for one in self.transforms:
            index = one(index)
        return index

    def __len__(self) -> int:
        return 1 << 30


class Fetched:
    """The rows of the data set after some batches, and how many of them were split."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, dataset: Any) -> None:
        def collate(samples: Any) -> Any:
            CLOCK.burn(5 * US)
            return samples

        self.dataset = dataset
        self.split = self.unsplit = self._next = 0
        self._us = Counter[str]()
        self._rows = Rows(dataset, folder, CLOCK, monkeypatch, collate=collate)
        self._plain = self._rows.sums.split.ends
        self._rows.sums.split.ends = self._ends

    def _ends(self, spent: int, core_wait: int) -> None:
        self.split += self._rows.sums.split.here
        self._plain(spent, 0)

    def batches(self, count: int) -> Fetched:
        for _ in range(count):
            self._rows.fetch(range(BATCH * self._next, BATCH * (self._next + 1)))
            self._next += 1
        return self

    def us(self, row: str) -> float:
        """Microseconds of all samples in a row, by the lines of the record until now."""
        split, timer = self._rows.sums.split, self._rows.sums.timer
        self.unsplit += split.share_out()
        for (_, name), ns in self._rows.found().items():
            self._us[name] += ns / US
        timer.sums[:] = [0] * len(timer.sums)
        return self._us[row]


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Micros, Micros], Fetched]]:
    patches = Patches()
    monkeypatch.setattr(split, "_KNOWN_NS", 0)

    def of(first: Micros, second: Micros) -> Fetched:
        dataset = Samples(first, second)
        finding_transforms.watch_tree(dataset, patches, may_change=True)
        return Fetched(tmp_path, monkeypatch, dataset)

    yield of
    patches.undo()
    local.timer = None


def test_once_they_are_known_rows_are_timed_in_an_eighth_of_the_batches(fetched: Any) -> None:
    found = fetched(lambda _: 20, lambda _: 30).batches(KNOWN)
    assert found.split == KNOWN
    found.batches(8_000)
    assert found.split - KNOWN == pytest.approx(1_000, rel=0.2)  # with those that are written in full
    samples = BATCH * (KNOWN + 8_000)
    assert found.us("First") == pytest.approx(20 * samples, rel=1e-6)
    assert found.unsplit == 8_000 + KNOWN - found.split
    assert found.us("Second") == pytest.approx(30 * samples, rel=1e-6)
    assert found.us("Samples.__getitem__") == pytest.approx(10 * samples, rel=1e-6)
    assert found.us("collate") == 5 * (KNOWN + 8_000)


def test_what_changes_later_is_seen(fetched: Any) -> None:
    """From batch 2,000 on, the first transform takes twice as long. It repeats its lengths each seven batches."""
    long = [1, 2, 1, 1, 3, 1, 1]
    found = fetched(lambda batch: 20 * long[batch % 7] * (1 + (batch >= 2_000)), lambda _: 30)
    for _ in range(100):
        found.batches(120).us("First")  # a line of the record each 120 batches
    true = sum(20 * long[batch % 7] * (1 + (batch >= 2_000)) * BATCH for batch in range(12_000))
    assert found.us("First") == pytest.approx(true, rel=0.02)
    assert found.us("Second") == pytest.approx(30 * BATCH * 12_000, rel=0.02)
    assert found.us("First") + found.us("Second") + found.us("Samples.__getitem__") == pytest.approx(
        true + 40 * BATCH * 12_000, rel=1e-6
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(lambda _: 2_000, lambda _: 3_000, id="long samples"),
        pytest.param(lambda batch: 2_000 * (batch % 10 == 0), lambda _: 30, id="a rare row"),
    ],
)
def test_where_that_would_save_little_or_not_be_true_all_batches_are_split(
    fetched: Any, first: Micros, second: Micros
) -> None:
    found = fetched(first, second).batches(2_000)
    assert found.split == 2_000
    assert found.us("First") == sum(first(batch) * BATCH for batch in range(2_000))


def test_batches_that_become_rare_and_long_are_split_again(fetched: Any) -> None:
    """From batch 2,000 on, each 50th takes a hundred times as long in one of the transforms."""
    found = fetched(lambda batch: 2_000 if batch > 2_000 and batch % 50 == 7 else 20, lambda _: 30).batches(20_000)
    before = found.split
    found.batches(1_000)
    assert found.split == before + 1_000
    true = sum((2_000 if batch > 2_000 and batch % 50 == 7 else 20) * BATCH for batch in range(21_000))
    assert found.us("First") == pytest.approx(true, rel=0.05)


@pytest.mark.parametrize(("own", "seen"), [(200, "Samples.__getitem__"), (10, "")])
def test_looks_find_the_row_of_a_sample_that_is_not_split_where_nearly_all_of_it_is_its_own(
    own: int, seen: str, fetched: Any
) -> None:
    """A look cannot tell the rows inside such a sample."""
    found = set[str]()

    def first(_: int) -> float:
        timer = local.timer
        if timer is not None and not timer.splits:
            number = timer.current
            found.add("" if number == REST else next(key.name for key, n in stages.known.items() if n == number))
        return 5.0

    rows = fetched(first, lambda _: 5)
    rows.dataset.own_us = own
    rows.batches(KNOWN + 100)
    assert rows.split < KNOWN + 50 and found == {seen}


def test_a_dataset_that_makes_whole_batches_is_always_split(fetched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Samples, "__getitems__", lambda self, indices: [self[index] for index in indices], raising=False
    )
    found = fetched(lambda _: 20, lambda _: 30).batches(2_000)
    assert found.split == 2_000
    assert found.us("First") == 20 * BATCH * 2_000


def test_all_batches_are_split_for_ten_seconds(fetched: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch takes 245 µs: looks at stacks from outside need their rows for a while."""
    monkeypatch.setattr(split, "_KNOWN_NS", 10_000_000_000)
    found = fetched(lambda _: 20, lambda _: 30).batches(40_000)
    assert found.split == 40_000
    assert found.batches(2_000).split < 42_000
