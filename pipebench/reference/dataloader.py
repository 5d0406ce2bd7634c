"""Live batches: a DataLoader with its knobs. Its workers are started, drawn from, guarded and ended here."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.errors import BadSample, PipebenchError, install
from pipebench.host.limits import check_picklable
from pipebench.reference.worker_health import Notebook, Watchdog, WorkerStart, explain_death
from pipebench.results.loading import Loading
from pipebench.task import Workload
from pipebench.watch.bound.live_batches import LiveSource

Now = Callable[[], float]
_EMPTY_BATCHES = 8  # so many in a row without a good sample: there is nothing to measure


class Live:
    """Batches from a DataLoader, epoch after epoch. A boundary between epochs comes only when `boundary` asks for it.

    The workers note in `notebook` which sample they are at (see `worker_health.Notebook`). `bad` collects the records
    of samples that could not be used. Close it to end the workers.
    """

    def __init__(
        self,
        dataset: Any,
        loading: Loading,
        batch_size: int,
        collate: Callable[[Any], Any],
        *,
        notebook: Notebook,
        seed: int = 0,
        now: Now = time.perf_counter,
    ) -> None:
        self.loading, self.notebook, self.now = loading, notebook, now
        self.bad: dict[str, BadSample] = {}
        self.startup_s = 0.0
        self._empty = 0
        self._iterator: Any = None
        self._watch = Watchdog(notebook, loading.timeout_s)
        if loading.workers:
            check_picklable(dataset, loading.method)
            check_picklable(collate, loading.method)
        with _unwarned():
            self._loader, self._sampler = _loader(dataset, loading, batch_size, collate, notebook, seed)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Ends the workers. If one of them caused the error, raises a `WorkerFailure` that says how it failed.

        torch reports a worker's end by an error at any place in this process, so it is handled here, not in `__next__`.
        While the workers end, nobody is told of it.
        """
        with _untold():
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        failure = self._watch.failure
        if failure is None and isinstance(error, RuntimeError):
            failure = explain_death(self._workers, self.notebook)
        if isinstance(error, KeyboardInterrupt):
            for worker in self._workers:
                worker.kill()  # torch would wait for each of them, up to five seconds
        self.close()
        if failure is not None and isinstance(error, Exception) and not isinstance(error, PipebenchError):
            raise failure from error

    @property
    def _workers(self) -> list[Any]:
        return list(getattr(self._iterator, "_workers", ()))

    def start(self) -> Any:
        """Starts the workers and returns the first batch. `startup_s` is the time from the start to its arrival."""
        begin = self.now()
        self._iterate()
        self._watch.begin(lambda: self._workers)
        first = next(self)
        self.startup_s = self.now() - begin
        return first

    def _iterate(self) -> None:
        with _unwarned():
            self._iterator = iter(self._loader)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._watch.waiting():
            batch = next(self._iterator)
        if getattr(batch, "bad", None):
            self.bad.update((one.sample, one) for one in batch.bad)
        self._empty = 0 if getattr(batch, "samples", 1) else self._empty + 1
        if self._empty >= _EMPTY_BATCHES:
            one = next(iter(self.bad.values()))
            raise PipebenchError(
                f"{_EMPTY_BATCHES} batches in a row had no good sample; {one.sample}: {one.message}",
                "name data with readable images",
            )
        return batch

    @property
    def pids(self) -> list[int]:
        return [one.pid for one in self._workers]

    def discard(self) -> float:
        """Uses up the batches made ahead, so that the next ones come at the rate of the workers. Returns seconds."""
        begin = self.now()
        for _ in range(self.loading.in_flight):
            next(self)
        return self.now() - begin

    def settle(self) -> None:
        """Waits until the workers are idle: they have made all batches that they may make ahead."""
        with self._watch.waiting():
            LiveSource(self._iterator, next, 0, None, None).settle(math.inf)

    def boundary(self) -> float | None:
        """Ends the epoch and begins the next. Returns the seconds from its last batch to the first of the next one."""
        if self._sampler is not None:
            self._sampler.finish()
        else:
            self.notebook.finish()
        last = self.now()
        with contextlib.suppress(StopIteration):
            while True:
                next(self)
                last = self.now()
        self.notebook.finish(False)
        self._iterate()
        next(self)
        return self.now() - last

    def close(self) -> None:
        """Ends the workers and forgets their notes."""
        self._watch.end()
        shutdown = getattr(self._iterator, "_shutdown_workers", None)
        self._iterator = None
        self._loader = None
        if shutdown is not None:
            shutdown()
        self.notebook.close()


@contextlib.contextmanager
def _untold() -> Iterator[None]:
    """Within this block torch's signal handler, which raises an error when a worker was killed, is not called."""
    try:
        handler = _handled_by(_not_told)
    except RuntimeError:  # it was called at this moment; it raises once for each loader
        handler = _handled_by(_not_told)
    try:
        yield
    finally:
        if handler is not None:
            _handled_by(handler)


def _handled_by(handler: Any) -> Any:
    """Sets the handler of SIGCHLD. Returns the one before it; None if this thread has none."""
    before = signal.getsignal(signal.SIGCHLD)
    try:
        signal.signal(signal.SIGCHLD, handler)
    except ValueError:  # handlers are set and called in the main thread only
        return None
    return before


def _not_told(number: int, frame: object) -> None:
    pass


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """Silences torch's warning about more workers than cores, because the report marks them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total")
        yield


def _loader(
    dataset: Any, loading: Loading, batch_size: int, collate: Callable[[Any], Any], notebook: Notebook, seed: int
) -> tuple[Any, Any]:
    """The DataLoader, and the sampler that can end an epoch (None for a stream)."""
    from torch.utils.data import DataLoader, IterableDataset

    from pipebench.reference.pipeline import Endless

    knobs: dict[str, Any] = {"num_workers": loading.workers, "pin_memory": loading.pin_memory, "collate_fn": collate}
    if loading.workers:
        knobs |= {
            "prefetch_factor": loading.prefetch_factor,
            "persistent_workers": loading.persistent_workers,
            "multiprocessing_context": loading.start_method,
            "worker_init_fn": WorkerStart(notebook),
        }
    if isinstance(dataset, IterableDataset):
        return DataLoader(dataset, batch_size=batch_size, **knobs), None
    sampler = Endless(len(dataset), batch_size, seed)
    return DataLoader(dataset, batch_sampler=sampler, **knobs), sampler


def reference(workload: Workload, loading: Loading, recipe: Any = None, now: Now = time.perf_counter) -> Live:
    """Live batches of the reference pipeline: the recipe's variants, applied to the workload's data."""
    from pipebench.reference.pipeline import FLOATS, Collate, Photographs, Stream

    if loading.stream and importlib.util.find_spec("webdataset") is None:
        raise PipebenchError("webdataset, which streams the shards, is missing", install("webdataset"))
    recipe, notebook = recipe or FLOATS, Notebook(loading.workers)
    try:
        dataset = (Stream if loading.stream else Photographs)(workload, recipe, notebook)
        collate = Collate(workload, dataset.recipe, notebook)
        _ = dataset.chain, collate.chain  # built before the fork: a script too imports its libraries before it forks
        return Live(dataset, loading, workload.batch_size, collate, notebook=notebook, seed=workload.seed, now=now)
    except BaseException:
        notebook.close()
        raise
