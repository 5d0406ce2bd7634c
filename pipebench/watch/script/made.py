"""Knows where the script's loaders were made, and which of them are one loader that is made again and again.

A training function often makes its loader anew for each epoch. For the reader that is one loader with many passes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import weakref
from collections.abc import Callable, Container
from typing import Any, NamedTuple

from pipebench.watch.record.from_handlers import forgiving
from pipebench.watch.record.patches import Patches, is_ours, unseen

_TORCH_DATA = os.sep + os.path.join("torch", "utils", "data") + os.sep
_TORCHDATA = os.sep + "torchdata" + os.sep
# Lightning calls the script's hooks and main functions with its own function around the constructors of loaders.
_AROUND = tuple(os.path.join(one, "utilities", "data.py") for one in ("lightning_fabric", "lightning/fabric"))
_ASKED = ("builtins", "torch.utils.data", "torchdata.")  # the modules whose lengths are asked

Calls = tuple[tuple[str, int], ...]
"""File and line of every call outside torch and outside pipebench that led to a loader, the nearest first."""


class _Known(NamedTuple):
    number: int
    loader: Callable[[], Any]
    dataset: Callable[[], Any]


class Makers:
    """Where each loader was made, and the loader that was made at the same place before it."""

    def __init__(self) -> None:
        self._calls: weakref.WeakKeyDictionary[Any, Calls] = weakref.WeakKeyDictionary()
        self._latest: dict[tuple[object, ...], _Known] = {}
        self._of_calls: dict[tuple[object, ...], dict[int, _Known]] = {}  # by their numbers

    def made(self, loader: Any) -> None:
        """Notes a loader at the end of its constructor. torch calls this again later; the first call counts."""
        if loader not in self._calls:
            self._calls[loader] = calls_to(sys._getframe(1))

    def calls(self, loader: Any) -> Calls:
        with contextlib.suppress(TypeError):  # an object without weak references or hash
            return self._calls.get(loader, ())
        return ()

    def before(
        self, loader: Any, iterated: Callable[[int, int | None], bool], trains: Container[int] = ()
    ) -> int | None:
        """The number of the earlier loader that `loader` replaces; None if it is a new one. `trains`: those that train.

        It replaces one that was made by the same line with the same settings and for the same dataset, or that is gone
        and was made by the same calls, as far as nobody iterates that one now. Frameworks reach the line in several
        ways. Two loaders that one line makes for two datasets are two.
        """
        dataset, length = getattr(loader, "dataset", None), length_of(loader)
        for kind in self._kinds(loader):
            known = self._latest.get(kind)
            if known is None or iterated(known.number, length):
                continue
            if known.dataset() is dataset or (kind[0] == self.calls(loader) and known.loader() is None):
                return known.number
        return self._of_any_length(loader, iterated, trains)

    def _of_any_length(
        self, loader: Any, iterated: Callable[[int, int | None], bool], trains: Container[int]
    ) -> int | None:
        """The same by calls that make a loader of another length each time: of a client, a file or a fold.

        Training and validation can come from one line, too. So it takes two lengths, and all of them train, or none.
        """
        known = self._of_calls.get(self._of_one_code(loader), {})
        gone = all(one.loader() is None and not iterated(one.number, None) for one in known.values())
        alike = len({one in trains for one in known}) == 1
        return next(reversed(known)) if len(known) > 1 and gone and alike else None

    def numbered(self, loader: Any, number: int) -> None:
        known = _Known(number, weakly(loader), weakly(getattr(loader, "dataset", None)))
        kinds = self._kinds(loader)
        self._latest.update((kind, known) for kind in kinds)
        if kinds:
            self._of_calls.setdefault(self._of_one_code(loader), {})[number] = known

    def _kinds(self, loader: Any) -> list[tuple[object, ...]]:
        """What tells a loader from others: all calls that made it, or the nearest line; and its settings."""
        (calls, *same), length = self._of_one_code(loader), length_of(loader)
        return [(calls, *same, length), (calls[0], *same, length)] if calls else []

    def _of_one_code(self, loader: Any) -> tuple[Any, ...]:
        """All calls that made a loader, and its settings but for the length."""
        settings = (read(loader, "batch_size"), read(loader, "num_workers"), type(read(loader, "sampler")))
        return (self.calls(loader), type(read(loader, "dataset")), settings)


def weakly(one: Any) -> Callable[[], Any]:
    """A function that gives `one` as long as it lives."""
    try:
        return weakref.ref(one)
    except TypeError:  # a list, for example: as long as it is not seen to be gone, it is another one
        return object


def read(loader: Any, name: str, otherwise: Any = None) -> Any:
    """An attribute of a loader. Libraries give torch's iterators objects that lack some, or compute them."""
    with forgiving():  # a property may raise anything
        return getattr(loader, name, otherwise)
    return otherwise


def length_of(loader: Any) -> int | None:
    """How many batches a pass has, if torch's own code says so; no code of the script is asked, but a data set's."""
    iterable = getattr(sys.modules.get("torch.utils.data"), "IterableDataset", ())
    if loader is None or isinstance(read(loader, "dataset"), iterable):
        return None  # an iterable may state a wrong length, and torch remembers that it was asked
    stated = str(getattr(read(type(loader), "__len__"), "__module__", ""))
    if stated.startswith(_ASKED) and all(_is_asked(read(loader, name)) for name in ("sampler", "batch_sampler")):
        with forgiving():
            return len(loader)
    return None


def _is_asked(sampler: Any) -> bool:
    """Whether a sampler, and those within it, are torch's or plain lists."""
    while sampler is not None:
        if not type(sampler).__module__.startswith(_ASKED):
            return False
        sampler = read(sampler, "sampler")
    return True


def calls_to(frame: Any) -> Calls:
    """File and line of every call outside torch and outside pipebench that led to `frame`, the nearest first."""
    found = []
    while frame is not None:
        if not within(frame.f_code.co_filename):
            found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


def within(file: str) -> bool:
    """Whether a file is a part of how a loader is made: torch's, torchdata's or ours, or what stands around them."""
    return is_ours(file) or _TORCH_DATA in file or _TORCHDATA in file or file.endswith(_AROUND)


def watch_makers(patches: Patches, makers: Makers, loaders: Any) -> None:
    """Patches the method that torch's DataLoader calls at the end of its constructor. The constructor stays torch's."""
    plain = loaders.check_worker_number_rationality

    @unseen
    @functools.wraps(plain)
    def check_worker_number_rationality(self: Any, *args: Any, **kwargs: Any) -> Any:
        with forgiving():
            makers.made(self)
        return plain(self, *args, **kwargs)

    patches.replace(loaders, "check_worker_number_rationality", check_worker_number_rationality)


def watch_fastai(patches: Patches, makers: Makers, module: Any) -> None:
    """Patches the constructor of what fastai's loaders give to torch's iterators: it is no loader of torch's."""
    kind = module._FakeLoader
    plain = kind.__init__

    @unseen
    @functools.wraps(plain)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        with forgiving():
            makers.made(self)

    patches.replace(kind, "__init__", __init__)
