"""Live batches: a DataLoader with its knobs, whose workers are started, drawn from, guarded and ended."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pipebench.errors import BadSample, PipebenchError
from pipebench.host.limits import check_picklable
from pipebench.reference.worker_health import Notebook, Watchdog, WorkerStart, explain_death
from pipebench.results.loading import Loading
from pipebench.task import Workload
from pipebench.watch.bound.live_batches import LiveSource

Now = Callable[[], float]
_EMPTY_BATCHES = 8  # in a row without one good sample: there is nothing to measure


class Live:
    """Batches from a DataLoader, epoch after epoch without a boundary until one is asked for.

    The dataset may have a `notebook` attribute, in which its workers note where they are (see `workers.Notebook`).
    `bad` collects the records of samples that could not be used. Close it to end the workers.
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
        """Ends the workers; where one of them was the cause, says what became of it (`workers.WorkerFailure`).

        A worker's end is raised wherever this process happens to be, so it is looked for here and not at `next`.
        """
        failure = self._watch.failure
        if failure is None and isinstance(error, RuntimeError):
            failure = explain_death(self._workers, self.notebook)
        self.close()
        if failure is not None and isinstance(error, Exception) and not isinstance(error, PipebenchError):
            raise failure from error

    @property
    def _workers(self) -> list[Any]:
        return list(getattr(self._iterator, "_workers", ()))

    def start(self) -> Any:
        """Starts the workers; the first batch, with `startup_s` from the start to its arrival."""
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
        """Uses up what was made ahead, so that batches come at the rate of the workers; the seconds it took."""
        begin = self.now()
        for _ in range(self.loading.in_flight):
            next(self)
        return self.now() - begin

    def settle(self) -> None:
        """Waits until the workers have nothing left to do: all batches that they may make ahead are made."""
        with self._watch.waiting():
            LiveSource(self._iterator, next, 0, None, None).settle(math.inf)

    def boundary(self) -> float | None:
        """Ends the epoch and begins the next: seconds from its last batch to the first of the next one."""
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
            with contextlib.suppress(RuntimeError):  # of a worker that was killed: it is what is being done
                shutdown()
        self.notebook.close()


@contextlib.contextmanager
def _unwarned() -> Iterator[None]:
    """More workers than cores are marked in the report, so torch need not warn of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*worker processes in total")
        yield


def _loader(
    dataset: Any, loading: Loading, batch_size: int, collate: Callable[[Any], Any], notebook: Notebook, seed: int
) -> tuple[Any, Any]:
    """The DataLoader, and the sampler that ends an epoch (None for a stream)."""
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
    """Live batches of the reference pipeline: the recipe's variants over the workload's data."""
    from pipebench.reference.pipeline import FLOATS, Collate, Photographs, Stream

    if loading.stream and importlib.util.find_spec("webdataset") is None:
        raise PipebenchError("webdataset, which streams the shards, is missing", "pip install 'pipebench[webdataset]'")
    recipe, notebook = recipe or FLOATS, Notebook(loading.workers)
    try:
        dataset = (Stream if loading.stream else Photographs)(workload, recipe, notebook)
        collate = Collate(workload, dataset.recipe, notebook)
        _ = dataset.chain, collate.chain  # a script has imported its libraries before it forks
        return Live(dataset, loading, workload.batch_size, collate, notebook=notebook, seed=workload.seed, now=now)
    except BaseException:
        notebook.close()
        raise
