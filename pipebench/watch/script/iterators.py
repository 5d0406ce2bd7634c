"""Watches the loaders' iterators in the script's process. Their classes are patched, never a loader object."""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from types import ModuleType
from typing import Any, Literal, Protocol

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.lines import PassBegun, Remade
from pipebench.watch.record.patches import unseen, without_our_frames
from pipebench.watch.record.recording import Recording
from pipebench.watch.script import arrivals, described, spawned_workers, wait_parts
from pipebench.watch.script.forks import tell_of_fork
from pipebench.watch.script.lost_workers import LostWorkers
from pipebench.watch.script.made import Makers, read, watch_makers, weakly
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.relays import Relays
from pipebench.watch.script.same_samples import Samples
from pipebench.watch.script.transfers import watch_transfers
from pipebench.watch.stages import finding_transforms, labels
from pipebench.watch.worker import fetching, kept_open, stack_place, standins
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace, collections
from pipebench.watch.worker.fetching import WatchedWorker

_FEW_WORKERS = 2  # of more, each would take as long to find where stacks lie as the script does once
DATALOADER = "torch.utils.data.dataloader"
_NEEDED = (
    "_BaseDataLoaderIter.__next__", "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter._reset",
    "_DatasetKind.create_fetcher",
)  # fmt: skip
TORCHDATA = "torchdata.stateful_dataloader.stateful_dataloader"


class BatchProvider(Protocol):
    """Stands between the script and its batches when the bound is measured: see `watch/bound/session.py`."""

    def opened(self, iterator: Any, loader: Any) -> None:
        """Called before a loader is iterated."""

    def batch(self, iterator: Any, plain: Any, recorded: Any) -> Any:
        """The batch that the script gets from `next(iterator)`."""


class Loaders:
    """The loaders of one process. They are numbered from 1, in the order in which they are first iterated.

    A loader that is made anew at the same place keeps its number: see `made.Makers`.
    """

    def __init__(self, recording: Recording, loop: LoopPhases, bound: BatchProvider | None = None) -> None:
        self.recording = recording
        self.loop = loop
        self.bound = bound
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.passes: dict[int, int] = {}
        self.makers = Makers()
        self.relays = Relays(loop)
        self.lost = LostWorkers(recording)
        self.again: dict[int, int] = {}
        self.samples = Samples()
        self.remade: dict[int, Remade] = {}
        self.building: list[Any] = []
        self.searched: dict[int, Callable[[], Any]] = {}
        self.inline: dict[int, Sums] = {}
        self.held_open: kept_open.Held | None = None
        self.worker: WatchedWorker | None = None
        self.transfers = False

    def number(self, loader: Any) -> int:
        found = self.numbers.get(loader)
        if found is None:
            found = self.makers.before(loader, self.loop.iterated, self.loop.trains)
            if found is None:
                found = len(self.passes) + 1
                self.passes[found], self.again[found] = -1, 0
                self.recording.write(described.described(loader, found, self.makers))
            else:
                self.again[found] += 1
            self.numbers[loader] = found
            self.makers.numbered(loader, found)
            self.remade[found] = self.samples.of(found, read(loader, "dataset"))
        return found

    def construct(self, plain: Any, iterator: Any, loader: Any, *state: Any, **named: Any) -> None:
        """Runs an iterator's own constructor, which starts workers and creates fetchers."""
        if self.bound is not None:
            self.bound.opened(iterator, loader)
        self.guarded(self.relays.end_those_over)
        try:
            number = self.number(loader)
        except Exception as error:
            self.recording.fault("numbering a loader", error)
            plain(iterator, loader, *state, **named)
            return
        self.guarded(self.loop.loader_opens)
        self.recording.guarded("watching functions", self._watch_functions)
        began = perf_counter_ns()
        start_method = described.start_method(loader)
        if start_method == "fork" and (self.passes[number] >= 0 or read(loader, "num_workers", 0) > _FEW_WORKERS):
            self.recording.guarded("finding where stacks lie", stack_place.learn)
        self.recording.guarded("looking at open files", lambda: self._look_at_files(loader, number, start_method))
        self.loop.here.constructing.append((number, start_method))
        try:
            init = self._init_of(loader, number, start_method)
            with spawned_workers.handed_over(iterator, loader, init, self.recording):
                plain(iterator, loader, *state, **named)
        finally:
            self.loop.here.constructing.pop()
        self.guarded(self.new_pass, iterator, number, began)

    def _look_at_files(self, loader: Any, number: int, start_method: str) -> None:
        """In the first pass over a loader of which more workers may share what is open by now."""
        few = start_method == "none" or (start_method == "fork" and read(loader, "num_workers") == 1)
        dataset = standins.behind(read(loader, "dataset"))
        own = self.passes[number] < 0 and few and kept_open.may_share(dataset, read(loader, "worker_init_fn"))
        self.held_open = kept_open.Held(self.recording, number, dataset) if own else None

    def _watch_functions(self) -> None:
        """Those of the main module exist by now."""
        labels.watch_functions(self.recording.patches, self.recording.settings.functions)

    def _init_of(self, loader: Any, number: int, start_method: str) -> spawned_workers.Init:
        place = WorkerPlace(number, None, self.passes[number] + 1, self.recording.file.began)
        return spawned_workers.init_of(self.recording.settings, place, start_method, read(loader, "worker_init_fn"))

    def new_pass(self, iterator: Any, number: int, began: int) -> None:
        """Begins a pass over a loader. Inside a larger pipeline, that pipeline's iteration has already begun."""
        whole = self.loop.here.whole
        if whole in self.loop.passes:
            self.loop.after_next(whole, "exhausted")
        self._begin_pass(iterator if whole is None else whole, number, began)
        if whole is not None:
            self.loop.before_next(whole)
            whole.inside += perf_counter_ns() - began

    def _begin_pass(self, iterator: Any, number: int, began: int) -> None:
        self.passes[number] += 1
        self.loop.pass_begins(iterator, number, self.passes[number])
        twice_ns = self.loop.arrivals.parts.new_workers_ns
        data = self.remade[number], self.samples.others.get(number, 0), self.samples.anew(number)
        self.recording.write(PassBegun(number, self.passes[number], began, self.again[number], twice_ns, *data))

    def before_next(self, iterator: Any) -> None:
        """Begins a wait."""
        self.loop.before_next(iterator)
        if not self.loop.here.main:
            self.relays.draws()

    def after_next(self, iterator: Any, event: Literal["exhausted", "failed"] | None, batch: Any) -> None:
        """Ends the wait. If it failed, looks for workers that ended too early."""
        self.loop.after_next(iterator, event)
        if event == "failed":
            self.lost.look(iterator)
        if not self.loop.here.main:
            self.relays.drawn(iterator, batch)
        watch_transfers_once(self)

    def watch_fetcher(self, fetcher: Any, took_ns: int) -> Any:
        """Watches a fetcher that was just created in `took_ns`, here or in a worker that was forked from here."""
        info = _worker_info()
        if info is not None and self.recording.pid != os.getpid():
            return self._in_worker(fetcher, info.id, took_ns) if info.dataset is fetcher.dataset else fetcher
        if not self.loop.here.constructing or local.timer is not None or info is not None:
            return fetcher
        number, _ = self.loop.here.constructing[-1]
        sums = self.inline.get(number)
        if sums is None:
            sums = self.inline[number] = Sums(
                self.recording, WorkerPlace(number, None, self.passes[number] + 1, self.recording.file.began)
            )
            labels.watch_record_function(self.recording.patches)
            collections.install(self.recording.patches)
        sums.held_open = self.held_open
        if number not in self.searched or fetcher.dataset is not self.searched[number]():
            self.searched[number] = weakly(fetcher.dataset)
            sums.modules = finding_transforms.watch_tree(fetcher.dataset, self.recording.patches, may_change=False)
        return wait_parts.watch_making(self.loop.arrivals.parts, fetching.watch_fetcher(fetcher, sums))

    def _in_worker(self, fetcher: Any, number: int, took_ns: int) -> Any:
        if local.timer is not None or (self.worker is None and not self.loop.here.constructing):
            return fetcher
        if self.worker is None:
            loader, start_method = self.loop.here.constructing[-1]
            self.loop.here.open.clear()
            self.loop.here.bare = None
            place = WorkerPlace(loader, number, self.passes[loader] + 1, self.recording.file.began)
            self.worker = WatchedWorker(fetching.recording_of(self.recording.settings, place, start_method), place)
            self.worker.prepare(fetcher.dataset)
            self.worker.sums.held_open = self.held_open
        return fetching.watch_fetcher(fetcher, self.worker.sums, took_ns)

    def guarded(self, act: Callable[..., None], *args: Any) -> None:
        """Runs `act`. A fault in it ends the recording, never the script."""
        try:
            act(*args)
        except Exception as error:
            self.recording.fault(act.__qualname__, error)
            self.recording.on = False

    def finish(self) -> None:
        for iterator in list(self.loop.passes):
            self.lost.look(iterator)
        for sums in self.inline.values():
            sums.write()


def _worker_info() -> Any:
    module: Any = sys.modules.get("torch.utils.data._utils.worker")
    return module._worker_info if module else None


def _watch_iterators(loaders: Loaders, alone: Any, with_workers: Any) -> None:
    """Patches two iterator classes: the one for loaders without workers, and the one for loaders with workers."""
    for kind in (alone, with_workers):
        _watch_constructor(loaders, kind)
    _watch_reset(loaders, with_workers)
    recording, found = loaders.recording, loaders.loop.arrivals
    patches, parts = recording.patches, found.parts
    # Without one of these names the run is watched all the same, and the report says which part of the wait is missing.
    recording.guarded("following batches", lambda: arrivals.watch_queues(recording, found, with_workers))
    recording.guarded("timing the sending of indices", lambda: wait_parts.watch_sending(patches, parts, with_workers))
    recording.guarded("timing pinning", lambda: wait_parts.watch_pinning_alone(patches, parts, alone))
    recording.guarded("timing the end of workers", lambda: _watch_shutdown(loaders, with_workers))


def watch_torchdata(loaders: Loaders, module: Any) -> None:
    """Patches the iterator classes of torchdata's StatefulDataLoader.

    They use torch's base class and torch's factory of fetchers, which `watch_dataloader` patches.
    """
    _watch_iterators(
        loaders, module._StatefulSingleProcessDataLoaderIter, module._StatefulMultiProcessingDataLoaderIter
    )


def lacking(module: ModuleType) -> list[str]:
    """The names that torch.utils.data.dataloader does not have, of those without which no loader can be watched."""
    return [name for name in _NEEDED if functools.reduce(_of, name.split("."), module) is None]


def _of(owner: Any, name: str) -> Any:
    return getattr(owner, name, None)


def watch_dataloader(loaders: Loaders, module: ModuleType) -> None:
    """Patches the iterator classes and the factory of fetchers in torch.utils.data.dataloader."""
    torch_module: Any = module
    _watch_iterators(loaders, torch_module._SingleProcessDataLoaderIter, torch_module._MultiProcessingDataLoaderIter)
    recording, found, base = loaders.recording, loaders.loop.arrivals, torch_module._BaseDataLoaderIter
    recording.guarded(
        "timing the pin-memory thread",
        lambda: arrivals.watch_pinning(recording, found, torch_module._utils.pin_memory),
    )
    recording.guarded(
        "timing the sampler", lambda: wait_parts.watch_sampler(recording.patches, found.parts, torch_module)
    )
    recording.guarded(
        "finding where loaders are made",
        lambda: watch_makers(recording.patches, loaders.makers, torch_module.DataLoader),
    )
    _watch_constructor(loaders, base)  # for a library's own iterators that are of neither kind
    _watch_next(loaders, base)
    kind = torch_module._DatasetKind
    plain = kind.create_fetcher

    @unseen
    @functools.wraps(plain)
    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        began = perf_counter_ns()
        fetcher = plain(*args, **kwargs)
        try:
            return loaders.watch_fetcher(fetcher, perf_counter_ns() - began) if loaders.recording.on else fetcher
        except Exception as error:
            (loaders.worker or loaders).recording.fault("watching a fetcher", error)
            return fetcher

    loaders.recording.patches.replace(kind, "create_fetcher", staticmethod(create_fetcher))


def _elsewhere(loaders: Loaders) -> bool:
    """Whether this process is not the watched one: it is a worker, or the script forked it."""
    return os.getpid() != loaders.recording.pid


def _watch_constructor(loaders: Loaders, kind: Any) -> None:
    plain = kind.__init__

    @unseen
    @functools.wraps(plain)
    def __init__(self: Any, loader: Any, *state: Any, **kwargs: Any) -> None:
        inside = local.timer is not None  # a loader within a sample is part of that sample
        if _elsewhere(loaders) and _worker_info() is None:
            tell_of_fork(loaders.recording, loader)
        if not loaders.recording.on or inside or _elsewhere(loaders) or any(self is one for one in loaders.building):
            plain(self, loader, *state, **kwargs)
            return
        loaders.building.append(self)
        try:
            loaders.construct(plain, self, loader, *state, **kwargs)
        finally:
            loaders.building.remove(self)

    loaders.recording.patches.replace(kind, "__init__", __init__)


def _watch_reset(loaders: Loaders, kind: Any) -> None:
    plain = kind._reset

    @unseen
    @functools.wraps(plain)
    def _reset(self: Any, loader: Any, *args: Any, **kwargs: Any) -> None:
        first_iter = args[0] if args else kwargs.get("first_iter", False)
        if loaders.bound is not None and not first_iter:
            loaders.bound.opened(self, loader)
        if first_iter:
            loaders.loop.arrivals.parts.begins_again()
        known = not first_iter and loaders.recording.on and self in loaders.loop.passes and not _elsewhere(loaders)
        if known:
            loaders.guarded(loaders.loop.loader_opens, self)
        began = perf_counter_ns()
        plain(self, loader, *args, **kwargs)
        if known:
            loaders.guarded(loaders.new_pass, self, loaders.loop.passes[self].loader, began)

    loaders.recording.patches.replace(kind, "_reset", _reset)


def _watch_shutdown(loaders: Loaders, kind: Any) -> None:
    plain = kind._shutdown_workers

    @unseen
    @functools.wraps(plain)
    def _shutdown_workers(self: Any, *args: Any, **kwargs: Any) -> None:
        if not loaders.recording.on or local.timer is not None or _elsewhere(loaders):
            plain(self, *args, **kwargs)
            return
        loaders.guarded(loaders.loop.workers_end, self)
        loaders.guarded(loaders.lost.look, self)
        plain(self, *args, **kwargs)
        loaders.guarded(loaders.loop.workers_ended, self)

    loaders.recording.patches.replace(kind, "_shutdown_workers", _shutdown_workers)


def _watch_next(loaders: Loaders, kind: Any) -> None:
    plain = kind.__next__
    loop, process = loaders.loop, loaders.recording.pid

    @unseen
    def recorded(self: Any, draw: Callable[[Any], Any]) -> Any:
        loaders.guarded(loaders.before_next, self)
        event: Literal["exhausted", "failed"] | None = "failed"
        found = None
        try:
            found, event = draw(self), None
            return found
        except BaseException as error:
            event = "exhausted" if isinstance(error, StopIteration) else "failed"
            loaders.guarded(loaders.lost.failed, loop.passes, self, error)
            without_our_frames(error)
            raise
        finally:
            loaders.guarded(loaders.after_next, self, event, found)

    @unseen
    def part_of(whole: Any, self: Any) -> Any:
        began = perf_counter_ns()
        try:
            return plain(self)
        finally:
            whole.inside += perf_counter_ns() - began

    @unseen
    @functools.wraps(plain)
    def __next__(self: Any) -> Any:
        if local.timer is not None or os.getpid() != process:
            return plain(self)
        if (whole := loop.here.whole) is not None:
            return part_of(whole, self)
        if loaders.bound is not None:
            return loaders.bound.batch(self, plain, recorded)
        return recorded(self, plain) if loaders.recording.on else plain(self)

    loaders.recording.patches.replace(kind, "__next__", __next__)


def watch_transfers_once(loaders: Loaders) -> None:
    """Starts watching transfers, once, as soon as the script itself has initialised CUDA."""
    if loaders.transfers or not loaders.recording.on:
        return
    torch: Any = sys.modules["torch"]
    if torch.cuda.is_initialized():
        loaders.transfers = True
        watch_transfers(loaders.loop, torch.Tensor, loaders.recording.patches)
