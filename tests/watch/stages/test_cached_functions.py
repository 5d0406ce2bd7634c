"""A function behind `functools.lru_cache` has a row of its misses, and its cache stays what the script made it."""

from __future__ import annotations

import functools
import pickle
import sys
import types
from typing import Any

import pytest
from fetched_rows import CLOCK
from torch.utils.data import Dataset

from pipebench.watch.record.exclusive_time import stages
from pipebench.watch.record.lines import StageName
from pipebench.watch.record.patches import Patches, is_wrapper
from pipebench.watch.stages import called, finding_transforms


@functools.lru_cache(maxsize=2)
def load_day(day: int) -> int:
    CLOCK.burn(50)
    return day


class Days(Dataset[int]):
    """Two samples of a day, one after the other; `halved` is asked for the same each time."""

    def __init__(self, library: Any = None) -> None:
        self.library = library

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        CLOCK.burn(5)
        load_day(index // 2)
        self.table(3)
        self.halved(4)
        return index

    @functools.cache  # noqa: B019
    def table(self, size: int) -> int:
        CLOCK.burn(30)
        return size

    @staticmethod
    @functools.lru_cache
    def halved(size: int) -> int:
        CLOCK.burn(20)
        return size // 2


@pytest.fixture(autouse=True)
def _empty() -> None:
    for one in (load_day, Days.table, Days.halved):
        one.cache_clear()


def test_misses_of_cached_functions_and_methods_are_rows(rows: Any) -> None:
    assert rows(Days()).found() == {
        ("getitem", "Days.__getitem__"): 8 * 5,
        ("function", "load_day"): 4 * 50,
        ("function", "Days.table"): 30,
        ("function", "Days.halved"): 20,
    }


def test_a_row_knows_how_many_results_its_cache_holds(rows: Any) -> None:
    rows(Days())
    for name, holds in (("load_day", 2), ("Days.table", "all"), ("Days.halved", 128)):
        assert StageName("function", name, holds=holds) in stages.known  # type: ignore[arg-type]


def test_functions_of_a_module_and_of_objects_may_be_cached(rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = types.ModuleType("archives")
    library.__file__ = "/home/me/archives.py"
    library.read = load_day
    monkeypatch.setitem(globals(), "archives", library)
    assert rows(Reading()).found()["function", "archives.read"] == 50
    assert rows(Reading(Reader())).found()["function", "Reader.window"] == 7


class Reader:
    @functools.lru_cache(4)  # noqa: B019
    def window(self, size: int) -> int:
        CLOCK.burn(7)
        return size


class Reading(Dataset[int]):
    def __init__(self, reader: Any = None) -> None:
        self.reader = reader

    def __getitem__(self, index: int) -> int:
        if self.reader is not None:
            self.reader.window(3)
            return index
        archives.read(7)  # type: ignore[name-defined]  # noqa: F821
        return index


def test_the_cache_stays_the_same_for_the_script(rows: Any) -> None:
    before, code, info = load_day, load_day.__wrapped__.__code__, load_day.cache_info()
    rows(Days())
    assert is_wrapper(load_day.__wrapped__) and load_day is before
    assert pickle.loads(pickle.dumps(load_day)) is load_day
    assert load_day.cache_info() == info._replace(hits=4, misses=4, currsize=2)
    load_day.cache_clear()
    assert load_day.__wrapped__.__code__ is not code and load_day(7) == 7 and load_day.cache_info().misses == 1


def test_code_is_put_back_and_a_global_is_timed_in_a_worker_only() -> None:
    codes = [load_day.__wrapped__.__code__, Days.table.__wrapped__.__code__]
    patches = Patches()
    finding_transforms.watch_tree(Days(), patches, may_change=False)
    assert [is_wrapper(load_day.__wrapped__), is_wrapper(Days.table.__wrapped__)] == [False, True]
    patches.undo()
    called.watch_called(called.functions_called([Days()], may_change=True), patches)
    assert is_wrapper(load_day.__wrapped__)
    patches.undo()
    assert [load_day.__wrapped__.__code__, Days.table.__wrapped__.__code__] == codes


def test_what_the_name_refers_to_is_replaced() -> None:
    given: dict[Any, bool] = {}

    def wrap(plain: Any, of_object: bool) -> Any:
        given[plain] = of_object
        return lambda *args: -1

    patches, module = Patches(), sys.modules[__name__]
    plain, table, halved = load_day, vars(Days)["table"], vars(Days)["halved"]
    for row in ("load_day", "Days.table", "Days.halved"):
        assert called.replace_called([Days()], patches, row, wrap) == 1
    assert given == {plain: False, table: True, halved.__func__: False}
    assert vars(module)["load_day"](3) == Days().table(3) == Days.halved(3) == -1
    patches.undo()
    assert (load_day, vars(Days)["table"], vars(Days)["halved"]) == (plain, table, halved)
