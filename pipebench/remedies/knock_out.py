"""A stage for nothing: its first result is served again and again. No remedy, but the most that one of it can bring.

The samples are then not the script's own, so this needs the user's agreement that the weights are worth nothing. What
the stage calls is free with it; a Pillow image that it would have decoded is decoded all the same.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean
from typing import Any

from pipebench.remedies.seen import WORTH, Seen, hand_off_share, telling, without_share
from pipebench.results.advice import Change, Finding
from pipebench.results.watched import StageResult
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.stages import finding_transforms, library_calls
from pipebench.watch.trial.compared import SAMPLES, difference, leaves, length_of, nbytes
from pipebench.watch.trial.edits import Edit, Refused, Repeats, Sent
from pipebench.watch.trial.memo import Kept, Memo, of_call
from pipebench.watch.worker.fetching import held_weakly

PLACE = 9
LEAST_SHARE = 0.15  # of the time of the workers
_PILLOW = "ImageFile.load"
_MOST_SIZES = 64  # of decoded images that are kept


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    if not seen.serves_stages:
        return None
    known = [one.change.edits["knock_out"] for one in tried]
    return next((one for one in _changes(seen) if one.edits["knock_out"] not in known), None)


def _changes(seen: Seen) -> Iterator[Change]:
    """The costly stages, the largest first."""
    most = _without_workers(seen)
    found = sorted(_costly(seen), key=lambda one: -one[0])
    for share, kind, name, title in found:
        if share >= LEAST_SHARE and most >= WORTH:
            yield Change(
                "knock_out", {}, "", predicted=telling(min(without_share(share), most)), title=title,
                edits={"knock_out": {"kind": kind, "name": name}}, knock_out=True, discards=True,
            )  # fmt: skip


def _without_workers(seen: Seen) -> float:
    """The speed-up of a loop whose workers take no time: it waits for none, and has the cores that they use now."""
    known = [one.cores for one in seen.its_workers if one.cores is not None]
    used = seen.workers * fmean(known) if known else seen.workers
    left = max(0.0, 1 - used / max(1.0, seen.cores))
    return seen.most_by_workers / max(0.01, left)


def _costly(seen: Seen) -> Iterator[tuple[float, str, str, str]]:
    """Share of the workers' time, kind, name and title: of each stage, of `__getitem__` whole, and of the hand-off."""
    rows = [one for one in seen.stages if one.kind != "serialise"]
    for one in rows:
        if one.kind == "collate" or _can_be_served(one):
            yield one.worker_share, one.kind, one.name, one.name
    whole = next((one.name for one in rows if one.kind == "getitem" and one.name != "fetch"), "__getitem__")
    yield sum(one.worker_share for one in rows if one.kind != "collate"), "getitem", "", whole
    if seen.watched.hand_off is not None:
        yield hand_off_share(seen), "hand-off", "", "the hand-off"


def _can_be_served(one: StageResult) -> bool:
    if one.kind == "transform":
        return True
    listed = [(kind, name) for found in library_calls.FUNCTIONS.values() for name, kind, _ in found]
    return one.name == _PILLOW or (one.kind, one.name) in listed


def edit(kind: str, name: str) -> Edit:
    return _HandOff() if kind == "hand-off" else _KnockOut(kind, name)


class _KnockOut(Edit):
    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        if self.kind == "collate":
            memo, plain = Memo(copies=False), fetcher.collate_fn
            fetcher.collate_fn = lambda samples: memo.serve(_length(samples), plain, (samples,))
        elif self.kind == "getitem":
            _tell_repeats(fetcher)
            fetcher.dataset = _Served(fetcher.dataset)
        elif self.kind == "transform":
            if not finding_transforms.replace_stage(fetcher.dataset, patches, self.name, _of_objects, _of_function):
                raise Refused("no-such-stage")
        elif not _serve_library(self.kind, self.name, patches):
            raise Refused("no-such-stage")


def _tell_repeats(fetcher: Any) -> None:
    """Lets the first fetch tell whether a sample is the same each time, so that samples could be kept in a cache."""
    held, dataset = held_weakly(fetcher), fetcher.dataset
    left = [True]

    def fetch(index: Any) -> Any:
        _, plain = held()
        batch = plain(index)
        if not left or not isinstance(index, (list, tuple)):
            return batch
        left.clear()
        twice = [[dataset[one] for one in index[:SAMPLES]] for _ in range(2)]
        size = sum(nbytes(one) for _, one in leaves(twice[0])) / max(1, len(twice[0]))
        return Sent(batch, [Repeats(difference(*twice).largest == 0.0, size, samples=length_of(dataset))])

    fetcher.fetch = fetch


class _Served:
    """A proxy of a dataset whose samples are the first one."""

    def __init__(self, dataset: Any) -> None:
        self._dataset, self._memo = dataset, Memo()

    def __getitem__(self, index: Any) -> Any:
        return self._memo.serve((type(index), _length(index)), self._dataset.__getitem__, (index,))

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._dataset, name)
        if name != "__getitems__" or not found:
            return found
        return lambda indices: self._memo.serve(("all", len(indices)), found, (indices,))


def _length(found: Any) -> int:
    return len(found) if isinstance(found, (list, tuple)) else 1


def _of_objects(plain: Callable[..., Any], served: frozenset[int]) -> Callable[..., Any]:
    memo = Memo()

    @unseen
    @functools.wraps(plain)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if id(self) not in served:
            return plain(self, *args, **kwargs)
        return of_call(memo, id(self), functools.partial(plain, self), args, kwargs)

    return __call__


def _of_function(plain: Callable[..., Any]) -> Callable[..., Any]:
    memo = Memo()

    @unseen
    @functools.wraps(plain)
    def served(*args: Any, **kwargs: Any) -> Any:
        return of_call(memo, None, plain, args, kwargs)

    return served


def _serve_library(kind: str, name: str, patches: Patches) -> bool:
    found = False
    for place, functions in library_calls.FUNCTIONS.items():
        module = sys.modules.get(place)
        if (kind, name) in [(one, function) for function, one, _ in functions] and hasattr(module, name):
            patches.replace(module, name, _of_function(getattr(module, name)))
            found = True
    if name == _PILLOW and (lazy := sys.modules.get("PIL.ImageFile")) is not None:
        patches.replace(lazy.ImageFile, "load", _loaded(lazy.ImageFile.load))
        found = True
    patches.rebind()
    patches.rebind_held()
    return found


def _loaded(plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Pillow's lazy decode, without decoding: the pixels are those of the first image of this size, or black."""
    pixels: dict[tuple[str, tuple[int, int]], Any] = {}

    @unseen
    @functools.wraps(plain)
    def load(self: Any) -> Any:
        if not self.tile:
            return plain(self)
        key = (self.mode, self.size)
        if not pixels:
            plain(self)
            pixels[key] = self.im
        else:
            image: Any = sys.modules["PIL.Image"]
            self.im = pixels.get(key) or image.core.new(*key)
            if len(pixels) < _MOST_SIZES:
                pixels[key] = self.im
            self.tile = []
            if self.fp is not None and getattr(self, "_exclusive_fp", False):
                self.fp.close()
            self.fp = None
        self.readonly = 1  # whoever changes this image in place gets a copy
        return plain(self)

    return load


class _Token:
    """In place of a batch of `size` samples. It crosses almost for nothing."""

    def __init__(self, size: int) -> None:
        self.size = size


class _First(_Token):
    """The first batch of this size from one worker."""

    def __init__(self, size: int, batch: Any) -> None:
        super().__init__(size)
        self.batch = batch

    def pin_memory(self) -> _First:
        """Called by torch's pin-memory thread."""
        return _First(self.size, sys.modules["torch.utils.data._utils.pin_memory"].pin_memory(self.batch))


class _HandOff(Edit):
    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        plain = fetcher.collate_fn
        sent: set[int] = set()

        def collate(samples: Any) -> Any:
            batch, size = plain(samples), _length(samples)
            if size in sent:
                return _Token(size)
            sent.add(size)
            return _First(size, batch)

        fetcher.collate_fn = collate

    def in_script(self, batch: Any) -> Any:
        if type(batch) is _Token:
            return self._kept[batch.size].serve()
        self._kept[batch.size] = Kept(batch.batch, copies=False)
        return batch.batch
