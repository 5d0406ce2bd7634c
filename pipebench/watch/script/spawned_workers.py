"""Watches workers that are started by spawn or forkserver. They inherit nothing, so the recording is sent to them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from time import perf_counter_ns
from types import ModuleType
from typing import Any, TypeAlias

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import AfterImport, Patches, unseen
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.stages import labels, library_calls
from pipebench.watch.worker import fetching, inits
from pipebench.watch.worker.batch_sums import WorkerPlace
from pipebench.watch.worker.fetching import WatchedWorker
from pipebench.watch.worker.inits import TimedInit

_DATALOADER = "torch.utils.data.dataloader"


class WatchedInit:
    """A `worker_init_fn` that starts to watch one worker, then runs the script's own `worker_init_fn`."""

    def __init__(self, settings: Settings, place: WorkerPlace, start_method: str, init: Any) -> None:
        self.settings = settings
        self.place = place
        self.start_method = start_method
        self.init = init

    def __call__(self, number: int) -> None:
        place = dataclasses.replace(self.place, worker=number)
        recording = fetching.recording_of(self.settings, place, self.start_method)
        recording.guarded("starting to watch a worker", lambda: start(recording, place))
        if self.init is not None:
            inits.timed(self.init, number)


Init: TypeAlias = WatchedInit | TimedInit | None


def init_of(settings: Settings, place: WorkerPlace, start_method: str, own: Any) -> Init:
    """The `worker_init_fn` in place of the script's `own` (None: there is none, and none is needed)."""
    if start_method in ("none", "fork"):
        return TimedInit(own) if start_method == "fork" and own is not None else None
    return WatchedInit(settings, place, start_method, own)


def start(recording: Recording, place: WorkerPlace) -> None:
    """Runs in the worker: patches the libraries, now or after their import, and the factory of its one fetcher."""
    watched = WatchedWorker(recording, place)
    patches, functions = recording.patches, recording.settings.functions

    def watch(module: ModuleType) -> None:
        library_calls.watch_module(patches, module)
        labels.watch_functions(patches, functions)

    def imported(module: ModuleType) -> None:
        recording.guarded(f"watching {module.__name__}", lambda: watch(module))

    AfterImport({*library_calls.MODULES, *labels.modules_of(functions)}, imported).install()
    patches.rebind()
    patches.rebind_held()
    _watch_factory(watched, patches)


def _watch_factory(watched: WatchedWorker, patches: Patches) -> None:
    module: Any = sys.modules[_DATALOADER]
    plain = module._DatasetKind.create_fetcher
    prepared: list[bool] = []

    @unseen
    @functools.wraps(plain)
    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        began = perf_counter_ns()
        fetcher = plain(*args, **kwargs)
        took_ns = perf_counter_ns() - began
        if local.timer is not None or not watched.recording.on:
            return fetcher
        try:
            if not fetching.is_own(fetcher):
                return fetcher
            if not prepared:
                prepared.append(True)
                watched.prepare(fetcher.dataset)
            return fetching.watch_fetcher(fetcher, watched.sums, took_ns)
        except Exception as error:
            watched.recording.fault("watching a fetcher", error)
            return fetcher

    patches.replace(module._DatasetKind, "create_fetcher", staticmethod(create_fetcher))


@contextlib.contextmanager
def handed_over(iterator: Any, loader: Any, init: Init, recording: Recording) -> Iterator[None]:
    """Inside this block, the workers of `iterator` get `init`; afterwards the loader has its own function again.

    The block is the construction of `iterator`. Forked workers are watched without `init`, which only times theirs.
    """
    if init is None or (isinstance(init, TimedInit) and _refusal(loader, init) is not None):
        yield
        return
    if isinstance(init, TimedInit):
        try:
            yield
        finally:
            _gives_back(iterator, loader, init)
        return
    pickler: Any = sys.modules["multiprocessing.reduction"].ForkingPickler
    patches = recording.patches
    refusal = _refusal(loader, init)
    if refusal is not None:
        recording.fault("handing the recording to spawned workers", refusal)
        with patches.pickled_by_name(pickler):
            yield
        return
    try:
        with patches.pickled_by_name(pickler):
            yield
    finally:
        _gives_back(iterator, loader, init)


def _gives_back(iterator: Any, loader: Any, init: WatchedInit | TimedInit) -> None:
    loader.worker_init_fn = init.init
    if getattr(iterator, "_worker_init_fn", None) is init:
        iterator._worker_init_fn = init.init


def _refusal(loader: Any, init: WatchedInit | TimedInit) -> Exception | None:
    """Gives `init` to the loader; returns why that is impossible, else None.

    A new process that cannot import pipebench would fail on `init`, so it is then not given.
    """
    try:
        if PathFinder.find_spec("pipebench") is None:
            return ImportError("a new process would not find pipebench: install it where the script's Python is")
        loader.worker_init_fn = init
    except Exception as error:
        return error
    return None if loader.worker_init_fn is init else TypeError("the loader keeps its own worker_init_fn")
