"""The interface of a loader that is compared: what it needs, what it gives up, and how it makes whole passes.

A kind is one module of `pipebench.loaders.kinds` with a `KIND`. It imports its library inside its functions.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pipebench.errors import UsageError, did_you_mean
from pipebench.results.loaders import Filter
from pipebench.units import printable


@dataclass(frozen=True)
class Plan:
    """What a loader is to do: batches of `batch_size` crops of `side` pixels from all `paths`, with so many cores.

    The place of a path in `paths` is the index of its sample. `folder` is what `Kind.prepare` filled (empty without).
    """

    filter: Filter
    paths: tuple[str, ...]
    folder: Path
    batch_size: int
    cores: int
    seed: int
    side: int = 224


class Batch(NamedTuple):
    """What a loader gives: uint8 images (n, 3, side, side), contiguous, RGB; the n indices; and the n boxes.

    A box is left, top, width and height in pixels of the whole image, and whether the crop was mirrored. Each may be a
    NumPy array or a tensor on the CPU.
    """

    images: Any
    indices: Any
    boxes: Any


_KINDS = Path(__file__).parent / "kinds"
Passes = Callable[[int], Iterable[Batch]]


@dataclass(frozen=True)
class Kind:
    """One loader. `open` makes it, gives a function from the number of a pass to its batches, and closes it at the end.

    `does` says for each task what decodes and resizes; a task that it lacks has no row. `source` is the page of the
    library's documentation that it is written after. `modules` are imported before any clock starts. `prepare` writes
    the data in the loader's own form (`copies` names it). `needs` says what is missing besides packages, or None.
    """

    name: str
    title: str
    source: str
    open: Callable[[Plan], AbstractContextManager[Passes]]
    does: Mapping[Filter, str]
    modules: tuple[str, ...] = ()
    distribution: str = ""
    extra: str = ""
    copies: str = ""
    gives_up: str = ""
    resumes: str = ""
    baseline: bool = False
    prepare: Callable[[Sequence[str], Path], None] | None = None
    needs: Callable[[], str | None] = lambda: None


_OWN = "name a loader of `pipebench loaders --list`, or the module of a KIND of your own"


def names() -> list[str]:
    """The names of all kinds."""
    return sorted(one.name.replace("_", "-") for one in pkgutil.iter_modules([str(_KINDS)]))


def find(name: str) -> Kind:
    """The kind of that name, or of another module: `package.module`. UsageError if there is none."""
    if name not in names() and "." not in name:
        near = did_you_mean(name, names())
        raise UsageError(f"there is no loader {printable(name)!r}", f"{near}the loaders are {', '.join(names())}")
    module = name if "." in name else f"pipebench.loaders.kinds.{name.replace('-', '_')}"
    try:
        found = getattr(importlib.import_module(module), "KIND", None)
    except ModuleNotFoundError as missing:
        raise UsageError(f"{printable(module)} cannot be imported: {missing}", _OWN) from missing
    if not isinstance(found, Kind):
        raise UsageError(f"{printable(module)} has no loader", _OWN)
    return found
