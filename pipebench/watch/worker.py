"""What runs around a fetcher: in a worker process, or in the script's own process where there are no workers."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing.util
import sys
from collections.abc import Callable
from time import perf_counter_ns, thread_time_ns
from typing import Any

from pipebench.watch import labels, pickling, transforms
from pipebench.watch.patches import Patches, unseen, without_our_frames
from pipebench.watch.recording import Recording, Settings
from pipebench.watch.sums import Place, Sums, collections
from pipebench.watch.track import Track, local, stages


class _Dataset:
    """Stands in for the dataset inside the fetcher, and nowhere else: times each sample."""

    def __init__(self, dataset: Any, sums: Sums, stage: int) -> None:
        self._dataset, self._sums, self._stage = dataset, sums, stage

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._dataset, name)
        return self._whole_batch(found) if name == "__getitems__" and found else found

    @unseen
    def __getitem__(self, index: Any) -> Any:
        sums, track = self._sums, self._sums.track
        before = track.switch(self._stage)
        began, cpu = track.last, thread_time_ns()
        try:
            found = self._dataset[index]
        finally:
            cpu = thread_time_ns() - cpu
            track.switch(before)
        sums.sample(began, track.last, index, cpu)
        if isinstance(index, (list, tuple)):
            sums.samples += len(index) - 1
        return found

    def _whole_batch(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @unseen
        def whole_batch(indices: Any) -> Any:
            track = self._sums.track
            before, cpu = track.switch(self._stage), thread_time_ns()
            try:
                found = function(indices)
            finally:
                self._sums.sample_cpu += thread_time_ns() - cpu
                track.switch(before)
            self._sums.samples += len(indices)
            return found

        return whole_batch


class _Iterator:
    """Stands in for the iterator of an iterable dataset inside the fetcher: times each sample."""

    def __init__(self, iterator: Any, sums: Sums, stage: int) -> None:
        self._iterator, self._sums, self._stage = iterator, sums, stage

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __iter__(self) -> _Iterator:
        return self

    @unseen
    def __next__(self) -> Any:
        track = self._sums.track
        before = track.switch(self._stage)
        began, cpu = track.last, thread_time_ns()
        try:
            found = next(self._iterator)
        finally:
            cpu = thread_time_ns() - cpu
            track.switch(before)
        self._sums.sample(began, track.last, _key_of(found, self._sums), cpu)
        return found


def _key_of(sample: Any, sums: Sums) -> object:
    key = sample.get("__key__") if isinstance(sample, dict) else None
    return key if isinstance(key, str) else sums.samples


def _name_of(dataset: Any) -> str:
    """The class of the dataset that does the work: inside Subset, ConcatDataset and others that only hold one."""
    for _ in range(8):
        inner = vars(dataset).get("dataset") if hasattr(dataset, "__dict__") else None
        if inner is None or not type(dataset).__module__.startswith("torch.utils.data"):
            break
        dataset = inner
    return type(dataset).__name__


def watch_fetcher(fetcher: Any, sums: Sums) -> Any:
    """Puts the stand-ins into `fetcher` (an object of torch's that no script sees) and times its `fetch`."""
    name = _name_of(fetcher.dataset)
    if hasattr(fetcher, "dataset_iter"):
        stage = stages.number("getitem", f"{name}.__iter__")
        fetcher.dataset_iter = _Iterator(fetcher.dataset_iter, sums, stage)
    else:
        batched = bool(getattr(fetcher.dataset, "__getitems__", None)) and fetcher.auto_collation
        stage = stages.number("getitem", f"{name}.{'__getitems__' if batched else '__getitem__'}")
        fetcher.dataset = _Dataset(fetcher.dataset, sums, stage)
    fetcher.collate_fn = _collate(fetcher.collate_fn, sums.track)
    plain = fetcher.fetch
    sums.round += 1
    sums.number = 0

    @unseen
    def fetch(index: Any) -> Any:
        if not sums.recording.on:
            return plain(index)
        track = local.track = sums.track
        began, cpu, failed, found = track.begin(), thread_time_ns(), True, None
        try:
            found = plain(index)
            failed = False
            return found
        except StopIteration:
            failed = False
            sums.batches -= 1
            raise
        finally:
            local.track = None
            track.switch(0)
            sums.batch(began, track.last, thread_time_ns() - cpu, failed)
            if found is not None and sums.place.worker is not None:
                pickling.meter.made(found, sums.round, sums.number, began, track.last)
            sums.number += 1

    fetcher.fetch = fetch
    return fetcher


def _collate(function: Any, track: Track) -> Any:
    stage = stages.number("collate", getattr(function, "__name__", type(function).__name__))

    @unseen
    def collate(samples: Any) -> Any:
        before, cpu = track.switch(stage), thread_time_ns()
        try:
            return function(samples)
        finally:
            track.cpu[stage] += thread_time_ns() - cpu
            track.switch(before)

    return collate


class WatchedWorker:
    """One worker process: its own record file, and the patches that only a worker needs."""

    def __init__(self, settings: Settings, place: Place, start_method: str) -> None:
        local.track = None
        self.recording = Recording(
            settings,
            "worker",
            place.first_pass,
            loader=place.loader,
            worker=place.worker,
            start_method=start_method,
        )
        self.sums = Sums(self.recording, place)
        multiprocessing.util.Finalize(
            None, self.finish, exitpriority=-10
        )  # after the queue has joined its feeder thread

    def prepare(self, dataset: Any) -> None:
        """Patches what a worker alone needs; it stays until the process ends."""
        patches = self.recording.patches
        steps: tuple[Callable[[], None], ...] = (
            functools.partial(collections.install, patches),
            functools.partial(pickling.watch_queue, patches),
            functools.partial(labels.watch_record_function, patches),
            functools.partial(labels.watch_functions, patches, self.recording.settings.functions),
            functools.partial(transforms.watch_tree, dataset, patches, may_change=True),
            functools.partial(_clean_errors, patches),
        )
        for step in steps:
            try:
                step()
            except Exception as error:
                self.recording.fault("preparing a worker", error)

    def finish(self) -> None:
        with contextlib.suppress(Exception):
            self.sums.write(last=True)
            self.recording.write(["mark", "end", perf_counter_ns()])


def _clean_errors(patches: Patches) -> None:
    """A worker sends its exception to the script as text: take our frames out before it is made."""
    module: Any = sys.modules["torch.utils.data._utils.worker"]
    plain = module.ExceptionWrapper

    def wrapper(exc_info: Any = None, where: str = "in background") -> Any:
        if exc_info is None:
            without_our_frames(sys.exc_info()[1])
            kind, error, _ = sys.exc_info()
            exc_info = (kind, error, error.__traceback__ if error else None)
        return plain(exc_info, where)

    patches.replace(module, "ExceptionWrapper", wrapper)
