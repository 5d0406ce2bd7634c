"""The stages of a user's own loader as benchmarks: read, each transform, collate, and the loader by workers.

The user gives two functions. `make_loader` returns a DataLoader or a webdataset pipeline over a small, fixed set of
samples; if it has the parameters `num_workers` or `transform`, they are passed. `make_transform` returns the transform
of one image: a Compose or any callable. Nothing is guessed: a stage that cannot be separated is n/a, with its reason.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pipebench.compare.config import CONFIG as CONFIG  # suites that `init` wrote take these from here
from pipebench.compare.config import WHOLE, Own
from pipebench.compare.config import load as load
from pipebench.compare.open_call import OpenCall
from pipebench.task import Task, Unavailable, Variant, Work, Workload
from pipebench.units import printable

OTHERS = 8  # samples that no timed call gets, to look at what is made of them


def imported(own: Own | dict[str, Any]) -> None:
    """Imports the modules of the two functions."""
    settings = _settings(own)
    for name in (settings.loader, settings.transform):
        if name:
            _object(name)


def names_of(transform: Any) -> list[str]:
    """A name for each step of a transform: its type or its function's name, with a number if it occurs twice."""
    seen: dict[str, int] = {}
    names = []
    for step in _steps(transform):
        name = getattr(step, "__name__", type(step).__name__)
        name = "lambda" if name == "<lambda>" else name
        seen[name] = seen.get(name, 0) + 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names


def finder(own: Own | dict[str, Any]) -> Callable[[str], tuple[Task, Variant]]:
    """A function that a runner needs: it takes a benchmark's identity and returns its task and variant."""
    settings = _settings(own)
    builders: dict[str, Callable[[str], Callable[[Workload], Any]]] = {
        "read": lambda name: lambda workload: _reading(settings),
        "transform": lambda name: lambda workload: _transforming(settings, name),
        "collate": lambda name: lambda workload: _collating(settings),
        "loader": lambda name: lambda workload: _loading(settings, int(name.rpartition("-")[2])),
    }

    def find(identity: str) -> tuple[Task, Variant]:
        task_id, _, name = identity.rpartition("/")
        kind = task_id.partition("/")[0]
        return _task(task_id), Variant(task_id, name, builders[kind](name))

    return find


def _settings(own: Own | dict[str, Any]) -> Own:
    return own if isinstance(own, Own) else Own(**own)


def _task(task_id: str) -> Task:
    """A task whose call has its inputs bound; the call returns the number of its samples."""
    return Task(
        id=task_id,
        summary="a stage of your own loader",
        groups=lambda workload: [("own",)],
        inputs=lambda workload, keys: [None],
        check=lambda output, given: None,
        agree=lambda output, expected, variant: None,
        work=lambda given, output: Work(int(output), 0, 0),
        per_call=lambda workload: 1,
    )


def _object(name: str) -> Any:
    """The object that `module:object` names. It is imported, never evaluated."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as missing:
            raise Unavailable("not-built", f"{printable(name)} does not exist in this commit") from missing
    return found


def _loader(settings: Own, **wanted: Any) -> tuple[Any, set[str]]:
    """The user's loader, and the names of the settings that its function accepted."""
    if settings.loader is None:
        raise Unavailable("not-built", "no make_loader was given")
    make = _object(settings.loader)
    parameters = inspect.signature(make).parameters
    anything = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    taken = {name: value for name, value in wanted.items() if anything or name in parameters}
    return make(**taken), set(taken)


def _transform(settings: Own) -> Any:
    if settings.transform is None:
        raise Unavailable("not-built", "no make_transform was given")
    return _object(settings.transform)()


def _steps(transform: Any) -> list[Any]:
    """The steps of a Compose or Sequential; any other transform is one step."""
    found = getattr(transform, "transforms", None)
    if isinstance(found, list | tuple):
        return list(found)
    children = getattr(transform, "children", None)
    if type(transform).__name__ == "Sequential" and callable(children):
        return list(children())
    return [transform]


def _untouched(image: Any) -> Any:
    return image


def _raw_dataset(settings: Own) -> Any:
    """The dataset without its transform, to measure the cost of reading (and decoding) a sample."""
    loader, taken = _loader(settings, transform=_untouched, num_workers=0)
    dataset = getattr(loader, "dataset", loader)
    if "transform" in taken:
        return dataset
    if getattr(dataset, "transform", None) is None:
        reason = "the transform cannot be taken out: let make_loader take `transform`, or the dataset have `.transform`"
        raise Unavailable("not-built", reason)
    bare = copy.copy(dataset)
    bare.transform = None
    return bare


def _samples(dataset: Any, count: int, after: int = 0) -> Iterator[Any]:
    """At most `count` samples of a map-style or iterable dataset, in order, without the first `after`."""
    if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        return (dataset[index] for index in range(min(after, len(dataset)), min(after + count, len(dataset))))
    return itertools.islice(iter(dataset), after, after + count)


def _reading(settings: Own) -> OpenCall:
    dataset, count = _raw_dataset(settings), settings.samples
    return OpenCall(lambda: _samples(dataset, count), unseen=lambda: _samples(dataset, OTHERS, count))


def _image(sample: Any) -> Any:
    return sample[0] if isinstance(sample, list | tuple) else sample


def _transforming(settings: Own, name: str) -> OpenCall:
    """One step, applied to the output of the steps before it for the first samples (at most 8).

    The unseen inputs are those of the next samples. A dataset of fewer gives half of its samples for each.
    """
    transform = _transform(settings)
    images = [_image(sample) for sample in _samples(_raw_dataset(settings), min(8, settings.samples) + OTHERS)]
    step = transform
    if name != WHOLE:
        names = names_of(transform)
        if name not in names:
            raise Unavailable("not-built", f"this commit has no transform {printable(name)}")
        steps = _steps(transform)
        for before in steps[: names.index(name)]:
            images = [before(image) for image in images]
        step = steps[names.index(name)]
    timed = min(8, settings.samples, -(-len(images) // 2))
    others = [_read(image) for image in images[timed:]]
    images = images[:timed]
    return OpenCall(
        lambda: map(step, images), unseen=(lambda: map(step, others)) if others else None, given=lambda: images
    )


def _read(image: Any) -> Any:
    """The image with its pixels read: Pillow reads a file's at the first use."""
    if hasattr(image, "getbands"):
        image.load()
    return image


def _collating(settings: Own) -> OpenCall:
    loader, _ = _loader(settings, num_workers=0)
    size, collate = getattr(loader, "batch_size", None), getattr(loader, "collate_fn", None)
    if size is None or collate is None:
        raise Unavailable("not-built", "this loader does not collate: its dataset makes the batches")
    samples = list(_samples(loader.dataset, size))
    others = list(_samples(loader.dataset, size, size))
    return OpenCall(
        lambda: iter([collate(samples)]),
        unseen=(lambda: iter([collate(others)])) if others else None,
        given=lambda: samples,
        samples=lambda batch: len(samples),
    )


def _loading(settings: Own, workers: int) -> OpenCall:
    """One pass over the first samples with that many workers. Workers are kept between passes if the loader can."""
    loader, taken = _loader(settings, num_workers=workers)
    loader = _with_workers(loader, workers, settings.samples, "num_workers" in taken)
    size = getattr(loader, "batch_size", None)
    most = -(-settings.samples // size) if size else settings.samples
    return OpenCall(lambda: itertools.islice(iter(loader), most), samples=_length)


def _with_workers(loader: Any, workers: int, samples: int, taken: bool) -> Any:
    from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

    plain = type(loader) is DataLoader and loader.batch_size is not None
    if not plain or isinstance(loader.dataset, IterableDataset):
        if not taken and getattr(loader, "num_workers", 0) != workers:
            raise Unavailable("not-built", "let make_loader take `num_workers`")
        return loader
    first: Sequence[int] = range(min(samples, len(loader.dataset)))
    return DataLoader(
        loader.dataset,
        batch_sampler=BatchSampler(SequentialSampler(first), loader.batch_size, drop_last=False),
        num_workers=workers,
        collate_fn=loader.collate_fn,
        persistent_workers=workers > 0,
        worker_init_fn=loader.worker_init_fn,
    )


def _length(batch: Any) -> int:
    """How many samples a batch holds: the length of its first part."""
    while isinstance(batch, dict | list | tuple) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return len(batch) if hasattr(batch, "__len__") else 1


def first_sample(own: Own) -> Any:
    """One sample of the loader's dataset; it shows that the dataset can be read."""
    loader, _ = _loader(own, num_workers=0)
    return next(iter(_samples(getattr(loader, "dataset", loader), 1)), None)


def transform_names(own: Own) -> list[str]:
    """The names of the transform's steps; empty if there is no transform or only one step."""
    if own.transform is None:
        return []
    names = names_of(_transform(own))
    return names if len(names) > 1 else []
