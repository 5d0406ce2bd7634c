"""A user's loader as it was made, with only the number of its workers changed.

Nothing is constructed again: the constructor of a subclass can have other parameters than torch's, and its arguments
cannot always be found out from the object. The loader is copied and the copy gets another number of workers. torch's
loader reads its settings when an iteration begins, so samplers, start method, prefetching, pinning, `worker_init_fn`,
generator and subclass stay as they were made.
"""

from __future__ import annotations

import copy
import functools
import itertools
import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator, Sized
from typing import Any

from pipebench.compare.bare_dataset import endless, first_samples, inner_loader, is_map_style
from pipebench.compare.open_call import OpenCall
from pipebench.compare.sample_parts import batch_length
from pipebench.task import Unavailable

TAKE = "let make_loader take `num_workers`"
PREFETCH = 2  # torch's own default, where a loader that was made without workers gets some


class First:
    """The first batches of a batch sampler, so that a pass ends by itself and no worker goes on with batches.

    It has the attributes of that sampler. `sizes` are the numbers of samples in the batches that it gave.
    """

    def __init__(self, sampler: Any, most: int) -> None:
        vars(self).update(getattr(sampler, "__dict__", {}))
        self.whole, self.most = sampler, most
        self.sizes: deque[int] = deque()

    def __iter__(self) -> Iterator[Any]:
        self.sizes.clear()
        for indices in itertools.islice(iter(self.whole), self.most):
            self.sizes.append(len(indices) if isinstance(indices, Sized) else 1)
            yield indices

    def __len__(self) -> int:
        return min(self.most, len(self.whole))


def with_workers(loader: Any, workers: int, *, keep: bool, most: int | None = None) -> Any:
    """A copy of the loader with `workers` workers, which gives at most `most` batches in a pass.

    `keep` says whether workers live from one pass to the next. Raises `Unavailable` where only the user's own code can
    change the number: the loader is no torch loader, has started its workers, or then runs another number of them. The
    loader that is given stays as it is.
    """
    inner = inner_loader(loader)
    if inner is None:
        if getattr(loader, "num_workers", workers) != workers or (workers and not hasattr(loader, "num_workers")):
            raise Unavailable("not-built", f"this is not a DataLoader of torch: {TAKE}")
        return loader
    if inner.num_workers != workers or workers:
        _refuse_running(inner)
    changed = _changed(inner, workers, keep, most)
    if _iterates_itself(type(inner)):
        _prove(changed, workers)
    if inner is loader:
        return changed
    outer = copy.copy(loader)
    outer.pipeline = [changed, *loader.pipeline[1:]]
    return outer


def _changed(loader: Any, workers: int, keep: bool, most: int | None) -> Any:
    """A copy with these settings. They are set past the loader's own `__setattr__`, which refuses some."""
    changed = copy.copy(loader)
    state = vars(changed)
    state.update(num_workers=workers, persistent_workers=keep and workers > 0, _iterator=None)
    if workers and loader.prefetch_factor is None:
        state["prefetch_factor"] = PREFETCH
    if not workers:
        state["timeout"] = 0  # without workers torch refuses one
    if most is not None:
        which = "sampler" if loader.batch_sampler is None else "batch_sampler"
        state[which] = First(state[which], most)
    return changed


def _refuse_running(loader: Any) -> None:
    """Raises `Unavailable` if the loader's own constructor has started its workers.

    Such a loader prefetches while nobody reads, so a pass would find batches that cost it nothing.
    """
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    kept = {name: value for name, value in vars(loader).items() if name != "_iterator"}
    if any(isinstance(value, _BaseDataLoaderIter) for value in kept.values()):
        name = type(loader).__name__
        raise Unavailable(
            "not-built", f"{name} starts its workers when it is made: let make_loader give another loader"
        )


def passing(loader: Any, workers: int, samples: int, taken: bool) -> OpenCall:
    """A call that makes one pass over the first samples.

    The workers are kept from pass to pass, so a pass holds no start-up; `starting` measures that. Without workers, a
    stream goes on where the last pass stopped. `taken` says that the user's function got the number of workers.
    """
    inner = inner_loader(loader)
    if inner is None and taken:
        return OpenCall(lambda: _up_to(iter(loader), samples, batch_length), samples=batch_length)
    stream = workers == 0 and _is_stream(loader if inner is None else inner.dataset)
    changed = with_workers(loader, workers, keep=True, most=None if stream else _batches(inner, samples))
    count = functools.partial(batch_length, expected=inner.batch_size if inner is loader else None)
    if stream or inner is None:
        source = endless(changed)
        return OpenCall(lambda: _up_to(source if stream else iter(changed), samples, count), samples=count)
    if inner is loader and inner.batch_sampler is not None and is_map_style(inner.dataset):
        sizes = changed.batch_sampler.sizes  # no guess from the shape of the batches
        return OpenCall(lambda: iter(changed), samples=lambda batch: sizes.popleft() if sizes else 0)
    return OpenCall(lambda: iter(changed), samples=count)


def starting(loader: Any, workers: int, taken: bool) -> OpenCall:
    """A call that starts the workers, takes as many batches as there are workers, and ends them.

    It counts as one sample, so a figure per sample is that of one start.
    """
    batches = max(1, workers)
    whole = inner_loader(loader) is None and taken
    changed = loader if whole else with_workers(loader, workers, keep=False, most=batches)
    return OpenCall(lambda: iter([list(itertools.islice(changed, batches + (not whole)))]))


def _up_to(batches: Iterator[Any], samples: int, length: Callable[[Any], int]) -> Iterator[Any]:
    """Batches until there are so many samples in them."""
    count = 0
    for batch in batches:
        yield batch
        count += length(batch)
        if count >= samples:
            break


def _is_stream(dataset: Any) -> bool:
    from torch.utils.data import IterableDataset

    return isinstance(dataset, IterableDataset)


def _batches(loader: Any, samples: int) -> int:
    """How many batches hold so many samples: by the batch size, the batch sampler, or what the dataset gives."""
    if loader is None:
        return samples
    if loader.batch_size is not None:
        return -(-samples // int(loader.batch_size))
    if loader.batch_sampler is None:
        first = next(iter(first_samples(loader, loader.dataset, 1)), None)
        return -(-samples // max(1, batch_length(first)))
    sizes = itertools.accumulate(len(list(indices)) for indices in loader.batch_sampler)
    return 1 + sum(1 for _ in itertools.takewhile(lambda size: size < samples, sizes))


def _iterates_itself(kind: type) -> bool:
    """Whether a class of loaders has another iteration than torch's own."""
    from torch.utils.data import DataLoader

    return any(getattr(kind, name) is not getattr(DataLoader, name) for name in ("__iter__", "_get_iterator"))


def _prove(loader: Any, workers: int) -> None:
    """Raises `Unavailable` if a loader whose class iterates in its own way runs another number of workers."""
    before = len(multiprocessing.active_children())
    iterator = iter(loader)
    next(iterator, None)
    found = len(multiprocessing.active_children()) - before
    if found != workers:
        raise Unavailable("not-built", f"it runs {found} workers where {workers} were asked for: {TAKE}")
