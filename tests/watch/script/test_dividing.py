"""Whether an iterable dataset divides its samples among the workers: told by its code, and by what it holds."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import multiprocessing
import os
import queue
import random
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data as torch_data
import webdataset
from torch.utils.data import ChainDataset, Dataset, IterableDataset, get_worker_info

from pipebench.watch.script.dividing import shards, starts_processes, undivided


class Files(IterableDataset[Any]):
    def __init__(self) -> None:
        self.files = ["1", "2", "3"]

    def __iter__(self) -> Iterator[Any]:
        for name in self.files:
            yield self.load(name)

    def load(self, name: str) -> Any:
        return np.array([int(name)])


class Shuffled(Files):
    def __iter__(self) -> Iterator[Any]:
        order = list(range(3))
        random.Random(3).shuffle(order)
        return (torch.tensor(one) for one in order)


class Divided(Files):
    def __iter__(self) -> Iterator[Any]:
        info: Any = get_worker_info()
        yield from self.files[info.id :: info.num_workers]


class Threaded(Files):
    def __iter__(self) -> Iterator[Any]:
        ready: queue.Queue[Any] = queue.Queue(8)
        for name in self.files:
            threading.Thread(target=lambda name=name: ready.put(self.load(name))).start()
        return (ready.get() for _ in self.files)


class Pooled(Files):
    def __iter__(self) -> Iterator[Any]:
        with multiprocessing.Pool(2) as pool:
            yield from pool.imap(int, self.files)


class InFutures(Dataset[Any]):
    def __init__(self) -> None:
        self.pool = concurrent.futures.ProcessPoolExecutor(2)

    def __getitem__(self, index: int) -> Any:
        return self.pool.submit(int, "1").result()


class Started(Dataset[Any]):
    def __getitem__(self, index: int) -> Any:
        multiprocessing.Process(target=print).start()
        return index


def _part() -> slice:
    info: Any = torch_data.get_worker_info()
    return slice(info.id, None, info.num_workers)


class ByFunction(Files):
    def __iter__(self) -> Iterator[Any]:
        yield from self.files[_part()]


class ByProperty(Files):
    @property
    def mine(self) -> Any:
        return self.files[_part()]

    def __iter__(self) -> Iterator[Any]:
        yield from self.mine


class ByVariable(Files):
    def __iter__(self) -> Iterator[Any]:
        yield self.files[int(os.environ["MY_WORKER"])]


class Drawn(Files):
    """Each worker draws other samples: there is nothing to divide."""

    def __iter__(self) -> Iterator[Any]:
        chance = np.random.default_rng(torch.initial_seed())
        while True:
            yield self.load(self.files[chance.integers(3)])


class ByNumPy(Files):
    def __iter__(self) -> Iterator[Any]:
        while True:
            yield np.random.random((3, 4)).astype("float32")


class ByGenerator(Files):
    def __iter__(self) -> Iterator[Any]:
        chance = np.random.default_rng()
        yield from iter(chance.random, 2.0)


class ByPython(Files):
    def __iter__(self) -> Iterator[Any]:
        while True:
            yield random.random()


class InPlace(Files):
    def __iter__(self) -> Iterator[Any]:
        while True:
            yield torch.empty(3).uniform_()


class Ordered(Files):
    """It only orders what is there."""

    def __iter__(self) -> Iterator[Any]:
        order = list(self.files)
        random.shuffle(order)
        np.random.shuffle(order)
        yield from order


MADE_UP = ByNumPy, ByGenerator, ByPython, InPlace


class Around(IterableDataset[Any]):
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[Any]:
        yield from self.inner


class Slots:
    __slots__ = ("inner",)


def _load(name: Any) -> Any:
    return name


class Loading(Files):
    def __iter__(self) -> Iterator[Any]:
        return iter(_load(self.files))


class Lazy:
    """As a proxy that opens a connection as soon as it is asked for anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"asked for {name}")


class Rows(Dataset[Any]):
    def __getitem__(self, index: int) -> int:
        return index


class Refuses(Files):
    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no look inside")


def _set_seed(worker: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


def _split(worker: int) -> None:
    info: Any = torch_data.get_worker_info()
    info.dataset.files = info.dataset.files[worker::2]


def _wds() -> Any:
    return webdataset.WebDataset(["a.tar"], shardshuffle=False)


@pytest.mark.parametrize(
    ("dataset", "init", "alike"),
    [
        (Files(), None, True),
        (Files(), _set_seed, True),
        (Shuffled(), None, True),
        (Around(Files()), None, True),
        (Around([1, 2]), None, True),
        (Around(Lazy()), None, True),
        (ChainDataset([Files(), Shuffled()]), None, True),
        (Around(functools.partial(_load, "1")), None, True),
        (ChainDataset([Files(), Divided()]), None, False),
        (Around({"first": Divided()}), None, False),
        (Around(functools.partial(_load, _part)), None, False),
        (Around(lambda: _part()), None, False),
        (Around(Divided().__iter__), None, False),
        (Around([[[[[[[Files()]]]]]]]), None, False),  # too deep to be sure
        (Around(Slots()), None, False),
        (Files(), _split, False),
        (Files(), functools.partial(_set_seed), False),  # nobody knows what it does
        (Divided(), None, False),
        (ByFunction(), None, False),
        (ByProperty(), None, False),
        (ByVariable(), None, False),
        (Drawn(), None, False),
        *((one(), None, False) for one in MADE_UP),
        (Ordered(), None, True),
        (Around(Divided()), None, False),
        (Around(multiprocessing.Queue()), None, False),
        (_wds(), None, False),
        (Around(_wds()), None, False),
        (Rows(), None, False),
        (Refuses(), None, False),
        (None, None, False),
    ],
)
def test_workers_give_all_samples_where_nothing_asks_for_the_worker(dataset: Any, init: Any, alike: bool) -> None:
    assert undivided(dataset, init) is alike


def test_a_queue_of_threads_is_copied_to_each_worker() -> None:
    assert undivided(Threaded(), None)


@pytest.mark.parametrize(
    ("dataset", "starts"),
    [(Pooled, True), (InFutures, True), (Started, True), (Files, False), (Threaded, False), (Divided, False)],
)
def test_a_dataset_that_starts_processes_of_its_own(dataset: Any, starts: bool) -> None:
    assert starts_processes(dataset.__new__(dataset)) is starts


def test_a_function_that_is_timed_counts_as_it_is_without(monkeypatch: pytest.MonkeyPatch) -> None:
    @functools.wraps(Divided.__iter__)
    def timed(self: Any) -> Any:
        return Divided.__iter__.__wrapped__(self)

    monkeypatch.setattr(Divided, "__iter__", timed)
    assert undivided(Divided(), None) is False


@pytest.mark.parametrize(
    "body",
    [
        "import own_parts\n\nclass Stream(IterableDataset):\n    def __iter__(self):\n"
        "        return iter(own_parts.mine([1, 2]))\n",
        "class Stream(IterableDataset):\n    def __iter__(self):\n        from own_parts import mine\n"
        "        return iter(mine([1, 2]))\n",
        "class Stream(IterableDataset):\n    def __iter__(self):\n        import own_parts as parts\n"
        "        return iter(parts.mine([1, 2]))\n",
    ],
)
def test_modules_of_the_users_own_are_followed(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "own_parts": "from torch.utils.data import get_worker_info\n\n"
        "def mine(found):\n    return found[get_worker_info().id :: 2]\n",
        "own_stream": f"from torch.utils.data import IterableDataset\n{body}",
    }
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    modules = [importlib.import_module(name) for name in texts]
    assert undivided(modules[-1].Stream(), None) is False


def test_annotations_of_a_class_are_no_code_of_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.14 makes a function of them."""
    (tmp_path / "own_stream.py").write_text(
        "from torch.utils.data import IterableDataset\n\nclass Stream(IterableDataset):\n    worker: int\n"
        "    sample: float\n\n    def __iter__(self):\n        return iter([1, 2])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_stream", raising=False)
    assert undivided(importlib.import_module("own_stream").Stream(), None) is True


def test_a_function_of_a_library_that_nobody_knows_may_divide(monkeypatch: pytest.MonkeyPatch) -> None:
    def split(found: Any) -> Any:
        return found

    library = split.__code__.replace(co_filename="/usr/lib/python3/site-packages/somewhere/parts.py")
    monkeypatch.setitem(globals(), "_load", types.FunctionType(library, {"__name__": "somewhere.parts"}, "split"))
    assert undivided(Loading(), None) is False


def test_pipes_are_divided_by_torch() -> None:
    pipes: Any = pytest.importorskip("torch.utils.data.datapipes.iter")
    assert undivided(pipes.IterableWrapper([1, 2]).sharding_filter(), None) is False


URLS = "shard-{000..004}.tar"


def _pipeline(*stages: Any) -> Any:
    return webdataset.DataPipeline(*stages, webdataset.split_by_worker, webdataset.tarfile_to_samples())


@pytest.mark.parametrize(
    ("dataset", "found"),
    [
        ([1, 2, 3], None),
        (Files(), 0),
        (Divided(), 0),
        (Refuses(), 0),
        (webdataset.WebDataset(URLS, shardshuffle=4), 5),
        (webdataset.WebDataset(URLS, shardshuffle=False, empty_check=False).shuffle(9).map(str).batched(2), 5),
        (webdataset.WebDataset(URLS, shardshuffle=False, workersplitter=None), 0),  # each worker reads all shards
        (webdataset.WebDataset(URLS, resampled=True, shardshuffle=False), 0),  # each worker draws its own
        (_pipeline(webdataset.SimpleShardList(URLS), webdataset.shuffle(3)), 5),
        (_pipeline(webdataset.SimpleShardList(URLS), webdataset.map(str)), 0),  # nobody knows what that gives
        (_pipeline([{"url": "shard-000.tar"}]), 0),
    ],
)
def test_the_shards_of_a_stream_are_those_that_its_library_divides(dataset: Any, found: int | None) -> None:
    assert shards(dataset) == found


def test_a_rank_has_its_part_of_the_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", "1"), ("WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)
    for by_node, found in ((webdataset.split_by_node, 2), (None, 5)):
        assert shards(webdataset.WebDataset(URLS, shardshuffle=False, nodesplitter=by_node)) == found


def test_hugging_face_says_how_many_shards_a_stream_has() -> None:
    datasets: Any = pytest.importorskip("datasets")

    def samples(files: list[int]) -> Iterator[Any]:
        raise AssertionError("nobody may read it for that")

    stream = datasets.IterableDataset.from_generator(samples, gen_kwargs={"files": [1, 2, 3]})
    assert shards(stream.map(str).shuffle()) == 3
