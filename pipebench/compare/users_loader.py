"""The stages of a user's own loader as benchmarks: read, each transform, collate, the loader by workers, its start-up.

The user gives two functions. `make_loader` returns a DataLoader or a webdataset pipeline over a small, fixed set of
samples; if it has the parameters `num_workers` or `transform`, they are passed. `make_transform` returns the transform
of one image: a Compose or any callable. Nothing is guessed: a stage that cannot be separated is n/a, with its reason.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from pipebench.compare import as_made, bare_dataset
from pipebench.compare.bare_dataset import dataset_of, first_samples
from pipebench.compare.config import CONFIG as CONFIG  # suites that `init` wrote take these from here
from pipebench.compare.config import WHOLE, Own
from pipebench.compare.config import load as load
from pipebench.compare.made_once import Loaders
from pipebench.compare.open_call import OpenCall
from pipebench.compare.sample_parts import image_of
from pipebench.task import Task, Unavailable, Variant, Work, Workload
from pipebench.units import printable

MOST_TRANSFORMED = 8  # samples that a call of a transform takes


def imported(own: Own | dict[str, Any]) -> None:
    """Imports the modules of the two functions."""
    settings = _settings(own)
    for name in (settings.loader, settings.transform):
        if name:
            object_named(name)


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


def loaders_of(own: Own | dict[str, Any]) -> Loaders:
    """What makes the user's loaders; `finder` takes it, so that some are made once for all rounds."""
    return Loaders(functools.partial(_make_loader, _settings(own)))


def _make_loader(settings: Own) -> Any:
    if not settings.loader:
        raise Unavailable("not-built", "no make_loader was given")
    return object_named(settings.loader)


def wanted_by(identity: str) -> dict[str, Any]:
    """The settings that a benchmark asks of `make_loader`."""
    stage, _, name = identity.rpartition("/")
    if stage.startswith(("read", "transform")):
        return {"transform": bare_dataset.untouched, "num_workers": 0}
    return {"num_workers": _number(name) if stage.startswith("loader") else 0}


def finder(own: Own | dict[str, Any], loaders: Loaders | None = None) -> Callable[[str], tuple[Task, Variant]]:
    """A function that a runner needs: it takes a benchmark's identity and returns its task and variant."""
    settings = _settings(own)
    source = loaders or loaders_of(settings)
    builders: dict[str, Callable[[str], OpenCall]] = {
        "read": lambda name: _reading(settings, source),
        "transform": lambda name: _transforming(settings, source, name),
        "collate": lambda name: _collating(source),
        "loader": lambda name: _loading(settings, source, name),
    }

    def find(identity: str) -> tuple[Task, Variant]:
        task_id, _, name = identity.rpartition("/")
        kind = task_id.partition("/")[0]
        return _task(task_id), Variant(task_id, name, lambda workload: builders[kind](name))

    return find


def _settings(own: Own | dict[str, Any]) -> Own:
    return own if isinstance(own, Own) else Own(**own)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


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


def object_named(name: str) -> Any:
    """The object that `module:object` names. It is imported, never evaluated."""
    module, _, attribute = name.partition(":")
    found = importlib.import_module(module)
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as missing:
            raise Unavailable("not-built", f"{printable(name)} does not exist in this commit") from missing
    return found


def _transform(settings: Own) -> Any:
    if settings.transform is None:
        raise Unavailable("not-built", "no make_transform was given")
    return object_named(settings.transform)()


def _steps(transform: Any) -> list[Any]:
    """The steps of a Compose or Sequential; any other transform is one step."""
    found = getattr(transform, "transforms", None)
    if isinstance(found, list | tuple):
        return list(found)
    children = getattr(transform, "children", None)
    if type(transform).__name__ == "Sequential" and callable(children):
        return list(children())
    return [transform]


def _raw(settings: Own, source: Loaders) -> tuple[Any, Any]:
    """A loader and its dataset without the transform, to measure the cost of reading (and decoding) a sample.

    A dataset without any transform is read as it is.
    """
    loader, taken = source.get(**wanted_by("read/own/sample"))
    dataset = dataset_of(loader)
    if "transform" in taken:
        return loader, dataset
    bare = bare_dataset.without_transform(dataset)
    if bare is None and settings.transform is None:
        return loader, dataset
    if bare is None:
        reason = "the transform cannot be taken out: let make_loader take `transform`, or the dataset have `.transform`"
        raise Unavailable("not-built", reason)
    if bare is not dataset:
        _refuse_unreadable(loader, bare, dataset)
    return loader, bare


def _refuse_unreadable(loader: Any, bare: Any, dataset: Any) -> None:
    """Raises `Unavailable` if the dataset can be read only with its transform."""
    try:
        first_samples(loader, bare, 1)
    except Exception as error:
        first_samples(loader, dataset, 1)  # a dataset that cannot be read at all raises its own error
        why = f"its dataset fails without its transform ({type(error).__name__}: {printable(str(error))[:100]})"
        raise Unavailable("not-built", f"{why}: let make_loader take `transform`") from error


def _reading(settings: Own, source: Loaders) -> OpenCall:
    return bare_dataset.reading(*_raw(settings, source), settings.samples)


def _transforming(settings: Own, source: Loaders, name: str) -> OpenCall:
    """One step, applied to the output of the steps before it for the first samples.

    The unseen inputs are those of the next samples. A dataset of fewer gives half of its samples for each.
    """
    transform = _transform(settings)
    samples = first_samples(*_raw(settings, source), min(MOST_TRANSFORMED, settings.samples) + bare_dataset.OTHERS)
    images = [image_of(sample, settings.image) for sample in samples]
    step = transform
    if name != WHOLE:
        names = names_of(transform)
        if name not in names:
            raise Unavailable("not-built", f"this commit has no transform {printable(name)}")
        steps = _steps(transform)
        for before in steps[: names.index(name)]:
            images = [before(image) for image in images]
        step = steps[names.index(name)]
    timed = min(MOST_TRANSFORMED, settings.samples, -(-len(images) // 2))
    seen, others = images[:timed], [_read(image) for image in images[timed:]]
    unseen = (lambda: map(step, others)) if others else None
    return OpenCall(lambda: map(step, seen), unseen=unseen, given=lambda: seen)


def _read(image: Any) -> Any:
    """The image with its pixels read: Pillow reads a file's at the first use."""
    if hasattr(image, "getbands"):
        image.load()
    return image


def _collating(source: Loaders) -> OpenCall:
    loader, _ = source.get(**wanted_by("collate/own/batch"))
    samples, *others = bare_dataset.first_batches(loader, 2)
    collate = bare_dataset.inner_loader(loader).collate_fn
    return OpenCall(
        lambda: iter([collate(samples)]),
        unseen=(lambda: map(collate, others)) if others else None,
        given=lambda: samples,
        samples=lambda batch: len(samples),
    )


def _loading(settings: Own, source: Loaders, name: str) -> OpenCall:
    """One pass over the first samples with so many workers, or the start of so many."""
    workers = _number(name)
    loader, taken = source.get(**wanted_by(f"loader/own/{name}"))
    if name.startswith("startup"):
        return as_made.starting(loader, workers, "num_workers" in taken)
    return as_made.passing(loader, workers, settings.samples, "num_workers" in taken)


def transform_names(own: Own) -> list[str]:
    """The names of the transform's steps; empty if there is no transform or only one step."""
    if own.transform is None:
        return []
    names = names_of(_transform(own))
    return names if len(names) > 1 else []


def not_measured(own: Own) -> dict[str, str]:
    """The benchmarks that this commit cannot measure, with the reason of each. Nothing is timed."""
    find, reasons = finder(own), {}
    for identity in own.benchmarks:
        try:
            find(identity)[1].build(Workload(data="own"))
        except Unavailable as missing:
            reasons[identity] = missing.reason
    return reasons
