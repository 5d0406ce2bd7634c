"""A user's dataset as its loader reads it, with and without its transform."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from pipebench.compare.open_call import OpenCall
from pipebench.compare.sample_parts import batch_length
from pipebench.task import Unavailable

TRANSFORMS = ("transform", "transforms")  # torchvision's names; `transforms` takes image and target together
OTHERS = 8  # samples that no timed call gets, to look at what is made of them
CHUNK = 64  # samples that a dataset is asked for at once, where its loader has no batch size


def untouched(*given: Any, **named: Any) -> Any:
    """A transform that does nothing: returns what it was given, as one value, a tuple, or the dict of its names."""
    return named if named else given[0] if len(given) == 1 else given


def without_transform(dataset: Any) -> Any:
    """The dataset without its transform; None if it cannot be told whether it transforms.

    A transform is found in the attributes `transform` and `transforms`, in the format of a dataset of Hugging Face, and
    inside torch's `Subset` and `ConcatDataset`. It is taken out of a copy. A dataset where one of these says that there
    is no transform is returned as it is.
    """
    from torch.utils.data import ConcatDataset, Subset

    if callable(getattr(dataset, "with_format", None)) and isinstance(getattr(dataset, "format", None), dict):
        return dataset.with_format(None) if dataset.format.get("type") == "custom" else dataset
    if any(hasattr(dataset, name) for name in TRANSFORMS):
        set_ones = [name for name in TRANSFORMS if getattr(dataset, name, None) is not None]
        return _replaced(dataset, **dict.fromkeys(set_ones, untouched))
    if isinstance(dataset, Subset):
        inner = without_transform(dataset.dataset)
        return None if inner is None else _replaced(dataset, dataset=inner)
    if isinstance(dataset, ConcatDataset):
        inners = [without_transform(one) for one in dataset.datasets]
        return None if any(one is None for one in inners) else _replaced(dataset, datasets=inners)
    return None


def _replaced(dataset: Any, /, **attributes: Any) -> Any:
    """A copy of the dataset with these attributes; the dataset itself without any; None if it cannot be so changed."""
    if not attributes:
        return dataset
    made = copy.copy(dataset)
    try:
        for name, value in attributes.items():
            setattr(made, name, value)
    except AttributeError:  # a property, or slots
        return None
    return made


def dataset_of(loader: Any) -> Any:
    """The dataset of a DataLoader, also of one inside a webdataset loader; any other loader is its own dataset."""
    inner = inner_loader(loader)
    return getattr(inner if inner is not None else loader, "dataset", loader)


def inner_loader(loader: Any) -> Any:
    """The DataLoader that a loader is, or that a webdataset loader starts with; None if there is none."""
    from torch.utils.data import DataLoader

    pipeline = getattr(loader, "pipeline", None)
    first = pipeline[0] if isinstance(pipeline, list) and pipeline else loader
    return first if isinstance(first, DataLoader) else None


def is_map_style(dataset: Any) -> bool:
    """Whether a sample is asked for by its index. An iterable dataset of torch has `__getitem__` too, which raises."""
    from torch.utils.data import IterableDataset

    return not isinstance(dataset, IterableDataset) and hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")


def fetch(dataset: Any, indices: list[Any]) -> list[Any]:
    """The samples of a batch, asked for as torch's loader does: together where the dataset can."""
    together = getattr(dataset, "__getitems__", None)
    return list(together(indices)) if together else [dataset[index] for index in indices]


def first_samples(loader: Any, dataset: Any, count: int, after: int = 0) -> list[Any]:
    """At most `count` samples of a dataset in the order of this loader's data, without the first `after`."""
    if is_map_style(dataset):
        return [one for indices in index_batches(loader, dataset, count, after) for one in fetch(dataset, indices)]
    return list(itertools.islice(iter(dataset), after, after + count))


def index_batches(loader: Any, dataset: Any, count: int, after: int = 0) -> list[list[Any]]:
    """The indices of `count` samples in batches: the first of the dataset, the same each time.

    If the loader has a sampler of the user's own, the indices are the first of this sampler, because only it knows
    which indices the dataset takes.
    """
    inner = inner_loader(loader)
    if inner is None or _counts_from_zero(inner):
        indices: list[Any] = list(range(min(after, len(dataset)), min(after + count, len(dataset))))
    else:
        batches = inner.batch_sampler
        drawn = iter(inner.sampler) if batches is None else itertools.chain.from_iterable(batches)
        indices = list(itertools.islice(drawn, after, after + count))
    size = getattr(inner, "batch_size", None) or CHUNK
    return [indices[at : at + size] for at in range(0, len(indices), size)]


def first_batches(loader: Any, count: int) -> list[list[Any]]:
    """The samples of the first `count` batches; `Unavailable` if this loader does not collate."""
    inner = inner_loader(loader)
    if inner is None or inner.batch_sampler is None or inner.collate_fn is None:
        raise Unavailable("not-built", "this loader does not collate: its dataset makes the batches")
    if inner.batch_size is None:
        return [fetch(inner.dataset, list(one)) for one in itertools.islice(inner.batch_sampler, count)]
    samples = first_samples(loader, inner.dataset, count * inner.batch_size)
    return [samples[at : at + inner.batch_size] for at in range(0, len(samples), inner.batch_size)]


def _counts_from_zero(loader: Any) -> bool:
    """Whether the indices 0 to n - 1 are what the dataset takes: both samplers are torch's own."""
    samplers = (loader.sampler, loader.batch_sampler)
    return all(one is None or type(one).__module__.startswith("torch.utils.data.") for one in samplers)


def reading(loader: Any, dataset: Any, count: int) -> OpenCall:
    """A call that reads `count` samples.

    A dataset with indices is asked for the same samples each time. A stream goes on where the last call stopped, and
    begins again at its end, so a call holds no start-up.
    """
    if is_map_style(dataset):
        seen, unseen = index_batches(loader, dataset, count), index_batches(loader, dataset, OTHERS, count)
        return OpenCall(lambda: _fetched(dataset, seen), unseen=(lambda: _fetched(dataset, unseen)) if unseen else None)
    stream, inner = endless(dataset), inner_loader(loader)
    makes_batches = inner is None or inner.batch_sampler is None
    return OpenCall(lambda: itertools.islice(stream, count), samples=batch_length if makes_batches else lambda _: 1)


def _fetched(dataset: Any, batches: Iterable[list[Any]]) -> Iterator[Any]:
    return itertools.chain.from_iterable(fetch(dataset, indices) for indices in batches)


def endless(source: Any) -> Iterator[Any]:
    """What an iterable gives, again and again. It ends if a whole pass gives nothing."""
    empty = False
    while not empty:
        empty = True
        for one in source:
            empty = False
            yield one
