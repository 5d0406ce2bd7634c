"""Rows that the script, or the person at the terminal, asks for by name."""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from types import SimpleNamespace

import pytest
from watching import plain, script, watched

from pipebench.watch.record.exclusive_time import StageTimer, local
from pipebench.watch.record.patches import Patches, is_wrapper
from pipebench.watch.stages import labels


@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(method, marks=pytest.mark.long) for method in ("none", "spawn", "forkserver"))],
)
def test_spans_and_named_functions_have_rows(method: str, tmp_path: Path) -> None:
    argv = [script("labelled"), method]
    with_us = watched(argv, tmp_path, {"functions": ["__main__:tokenise", "__main__:Codec.decode"]})
    assert (with_us.status, with_us.out) == (0, plain(argv).out), with_us.err
    assert {("lookup", "label"), ("tokenise", "label"), ("Codec.decode", "label")} <= {
        (one["name"], one["kind"]) for one in with_us.watch["stages"]
    }
    assert with_us.stage("tokenise")["samples"] == 16
    assert with_us.stage("tokenise")["exclusive_s_per_sample"] >= 0.002
    assert with_us.watch["start_method"] == method


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"steps": 1}], ids=["whole", "steps"])
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_dataset_may_hold_what_is_timed(method: str, options: dict[str, int], tmp_path: Path) -> None:
    """Workers get it by its name, whether it was held before it was timed or since, also when recording has ended."""
    argv = [script("holding"), method]
    with_us = watched(argv, tmp_path, {"functions": ["__main__:tokenise"], **options})
    assert (with_us.status, with_us.out) == (0, plain(argv).out), with_us.err
    assert with_us.stage("tokenise")["samples"] == (4 if options else 8)  # both passes are of one loader


def test_labels_are_seen_where_torch_lies_below_a_folder_called_pipebench(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a clone that has its environment inside."""

    class Block:
        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    Block.__enter__.__code__ = Block.__enter__.__code__.replace(
        co_filename="/home/me/pipebench/.venv/torch/profiler.py"
    )
    plain = Block.__enter__
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", SimpleNamespace(record_function=Block))  # type: ignore[misc]  # a module
    patches = Patches()
    labels.watch_record_function(patches)
    once = Block.__enter__
    labels.watch_record_function(patches)
    assert once is not plain and Block.__enter__ is once
    patches.undo()
    assert Block.__enter__ is plain


class Label:
    """As torch's `record_function`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...


def test_the_label_of_a_loader_inside_a_dataset_hides_no_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", SimpleNamespace(record_function=Label))  # type: ignore[misc]  # a module
    timer, patches = StageTimer(), Patches()
    monkeypatch.setattr(local, "timer", timer)
    before, labelled = timer.current, []
    labels.watch_record_function(patches)
    for name in ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "read"):
        with Label(name):
            labelled.append(timer.current != before)
    patches.undo()
    assert (labelled, timer.current) == ([False, True], before)


class Photos:
    suffix = ".jpg"

    @staticmethod
    def name(number: int) -> str:
        return str(number)

    @classmethod
    def path(cls, number: int) -> str:
        return cls.name(number) + cls.suffix


class Small(Photos):
    suffix = ".png"


def test_static_and_class_methods_are_called_as_before() -> None:
    """A function in their place got the object as an argument more, and the script failed."""
    patches, names = Patches(), (f"{__name__}:Small.name", f"{__name__}:Photos.name", f"{__name__}:Photos.path")
    plain = dict(vars(Photos))
    for _ in range(2):
        labels.watch_functions(patches, names)
    assert all(is_wrapper(one) for one in (Small.name, Photos.name, Photos.path))
    assert (Small().name(1), Photos().name(2), Photos.name(3)) == ("1", "2", "3")
    assert (Small().path(4), Photos().path(5), Photos.path(6)) == ("4.png", "5.jpg", "6.jpg")
    patches.undo()
    assert dict(vars(Photos)) == plain and "name" not in vars(Small)


def test_no_function_stands_in_the_place_of_a_class() -> None:
    """Scripts derive from it, and ask whether an object is of it."""
    kind, patches = Photos, Patches()
    labels.watch_functions(patches, (f"{__name__}:Photos",))
    assert Photos is kind and labels.missing(f"{__name__}:Photos") == "function"
    assert labels.missing(f"{__name__}:Photos.path") is None


def test_a_function_with_a_cache_can_be_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(load=functools.lru_cache(lambda number: [number]))
    monkeypatch.setitem(sys.modules, "cached", module)  # type: ignore[misc]  # a module
    patches = Patches()
    labels.watch_functions(patches, ("cached:load",))
    first = module.load(1)
    assert is_wrapper(module.load) and module.load(1) is first and module.load.cache_info().hits == 1
    module.load.cache_clear()
    assert module.load(1) is not first
    patches.undo()


class Opened:
    """Counts spans, and how many are open."""

    begun = depth = 0

    def begin(self, name: str) -> bool:
        self.begun, self.depth = self.begun + 1, self.depth + 1
        return True

    def end(self) -> None:
        self.depth -= 1


@pytest.mark.parametrize("named", [True, False], ids=["--span", "pipebench.span"])
def test_of_a_generator_each_step_is_timed_and_nothing_between(named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a generator function only begins, so its row had almost no time."""
    opened, left = Opened(), []

    def rows(count: int) -> Generator[int, str, list[str]]:
        got = []
        try:
            for one in range(count):
                assert opened.depth == 1
                try:
                    got.append((yield one))
                except KeyError:
                    got.append("thrown")
        finally:
            left.append(count)
        return got

    patches, module = Patches(), SimpleNamespace(rows=rows if named else labels.span("rows")(rows))
    monkeypatch.setitem(sys.modules, "tables", module)  # type: ignore[misc]  # a module
    monkeypatch.setattr(labels.beyond_fetch, "to", opened)
    labels.watch_functions(patches, ("tables:rows",) if named else ())
    made = module.rows(3)
    assert opened.begun == 0 and (next(made), opened.depth) == (0, 0)
    assert (made.send("sent"), made.throw(KeyError())) == (1, 2)
    with pytest.raises(StopIteration) as end:
        made.send("last")
    assert end.value.value == ["sent", "thrown", "last"] and (opened.begun, opened.depth, left) == (4, 0, [3])
    with pytest.raises(TypeError):
        module.rows()
    made = module.rows(5)
    next(made)
    made.close()
    assert left == [3, 5]
    patches.undo()


@pytest.mark.parametrize("named", [True, False], ids=["--span", "pipebench.span"])
def test_of_a_coroutine_its_own_work_is_timed_and_no_wait(named: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of it only begins, so its row had almost no time."""
    opened = Opened()

    async def fetch(number: int) -> int:
        assert opened.depth == 1
        try:
            await asyncio.sleep(0)
            await others.wait()
        except asyncio.CancelledError:
            return -number
        assert opened.depth == 1
        return number

    async def other() -> None:
        assert opened.depth == 0
        others.set()

    async def all_of_them() -> list[int]:
        return await asyncio.gather(module.fetch(1), module.fetch(2), other())

    async def cancelled() -> int:
        task = asyncio.create_task(module.fetch(3))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    patches, module = Patches(), SimpleNamespace(fetch=fetch if named else labels.span("fetch")(fetch))
    monkeypatch.setitem(sys.modules, "remote", module)  # type: ignore[misc]  # a module
    monkeypatch.setattr(labels.beyond_fetch, "to", opened)
    labels.watch_functions(patches, ("remote:fetch",) if named else ())
    assert inspect.iscoroutinefunction(module.fetch)
    others = asyncio.Event()
    assert asyncio.run(all_of_them()) == [1, 2, None] and (opened.begun, opened.depth) == (4, 0)
    assert asyncio.run(cancelled()) == -3 and (opened.begun, opened.depth) == (6, 0)
    patches.undo()


def test_an_asynchronous_generator_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rows() -> AsyncGenerator[int, None]:
        yield 1

    patches, module = Patches(), SimpleNamespace(rows=rows)
    monkeypatch.setitem(sys.modules, "streamed", module)  # type: ignore[misc]  # a module
    labels.watch_functions(patches, ("streamed:rows",))
    assert module.rows is rows and labels.span("rows")(rows) is rows
    patches.undo()
