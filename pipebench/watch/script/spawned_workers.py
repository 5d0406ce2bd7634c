"""Workers that are started by spawn or forkserver: what is handed to them, since they inherit nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from pipebench.watch.record.exclusive_time import local
from pipebench.watch.record.patches import AfterImport, Patches, unseen
from pipebench.watch.record.recording import Settings
from pipebench.watch.stages import labels, library_calls
from pipebench.watch.worker import fetching
from pipebench.watch.worker.batch_sums import WorkerPlace
from pipebench.watch.worker.fetching import WatchedWorker

_DATALOADER = "torch.utils.data.dataloader"


class WatchedInit:
    """A `worker_init_fn` that starts the watching of one worker, then runs the script's own."""

    def __init__(self, settings: Settings, place: WorkerPlace, start_method: str, init: Any) -> None:
        self.settings = settings
        self.place = place
        self.start_method = start_method
        self.init = init

    def __call__(self, number: int) -> None:
        with contextlib.suppress(Exception):
            start(self.settings, dataclasses.replace(self.place, worker=number), self.start_method)
        if self.init is not None:
            self.init(number)


def start(settings: Settings, place: WorkerPlace, start_method: str) -> None:
    """In the worker: patches what is imported, and the factory of its one fetcher."""
    watched = WatchedWorker(settings, place, start_method)
    patches = watched.recording.patches

    def imported(module: ModuleType) -> None:
        try:
            library_calls.watch_module(patches, module)
            labels.watch_functions(patches, settings.functions)
        except Exception as error:
            watched.recording.fault(f"watching {module.__name__}", error)

    AfterImport({*library_calls.MODULES, *labels.modules_of(settings.functions)}, imported).install()
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
        fetcher = plain(*args, **kwargs)
        if local.timer is not None or not watched.recording.on or not _is_own(fetcher):
            return fetcher
        try:
            if not prepared:
                prepared.append(True)
                watched.prepare(fetcher.dataset)
            return fetching.watch_fetcher(fetcher, watched.sums)
        except Exception as error:
            watched.recording.fault("watching a fetcher", error)
            return fetcher

    patches.replace(module._DatasetKind, "create_fetcher", staticmethod(create_fetcher))


def _is_own(fetcher: Any) -> bool:
    """Whether this is the fetcher of the worker itself, not of a loader that the script iterates inside it."""
    info = sys.modules["torch.utils.data._utils.worker"]._worker_info
    return info is not None and info.dataset is fetcher.dataset


@contextlib.contextmanager
def handed_over(iterator: Any, loader: Any, init: WatchedInit | None, patches: Patches) -> Iterator[None]:
    """While `iterator` is being constructed, its workers get `init`; afterwards nobody can see that they did."""
    if init is None:
        yield
        return
    pickler: Any = sys.modules["multiprocessing.reduction"].ForkingPickler
    if not _given(loader, init):
        with patches.pickled_by_name(pickler):
            yield
        return
    own = init.init
    try:
        with patches.pickled_by_name(pickler):
            yield
    finally:
        loader.worker_init_fn = own
        if getattr(iterator, "_worker_init_fn", None) is init:
            iterator._worker_init_fn = own


def _given(loader: Any, init: WatchedInit) -> bool:
    """Whether the loader took `init`; not where a new process could not import pipebench and would fail on it."""
    if PathFinder.find_spec("pipebench") is None:
        return False
    try:
        loader.worker_init_fn = init
    except Exception:
        return False
    return loader.worker_init_fn is init
