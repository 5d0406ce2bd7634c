"""Compares the samples of a dataset before and after an edit, in a worker, on the first samples that it makes.

Each sample is made three times from the same random numbers: twice before the edit, and once after it. If the first two
differ, the dataset draws from elsewhere, and nothing can be compared.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pipebench.watch.trial.edits import Difference, Refused, Sent
from pipebench.watch.trial.memo import alike, same
from pipebench.watch.worker.draws import random_state
from pipebench.watch.worker.fetching import held_weakly

SAMPLES = 4  # of the first batch of each worker
_MODES = ("L", "RGB", "RGBA")  # of Pillow: their bytes are their values
Path = tuple[Any, ...]


@dataclass(frozen=True)
class Comparing:
    """How to compare. `tolerance` is the largest difference of a value that is allowed (None: any is, and it is told).

    The form must be the same, and so must what is no array of numbers. `back` makes of a changed sample what it stands
    for. `mean_share` is the largest mean difference that is allowed, as a share of the range of the values.
    `least` samples are compared: a batch of one sample makes it again.
    """

    tolerance: float | None
    back: Callable[[Any], Any] = lambda sample: sample
    mean_share: float | None = None
    least: int = 1

    def allows(self, found: Difference) -> bool:
        if math.isinf(found.largest) or (self.tolerance is not None and found.largest > self.tolerance):
            return False
        return self.mean_share is None or found.mean <= self.mean_share * found.span


def compare_first(fetcher: Any, change: Callable[[], object], how: Comparing, more: Callable[[], Any] = list) -> None:
    """Lets the next fetch of `fetcher` compare some samples, call `change` in between, and send what it found.

    `more()` are other notes for the script's process. Raises `Refused` from that fetch if the samples differ.
    """
    held = held_weakly(fetcher)
    left = [True]

    def fetch(index: Any) -> Any:
        fetcher, plain = held()
        if not left:
            return plain(index)
        left.clear()
        indices = indices_of(fetcher, index)[:SAMPLES]
        indices += indices[: max(0, how.least - len(indices))]
        before = [_sample(fetcher.dataset, one) for one in indices]
        again = [_sample(fetcher.dataset, one) for one in indices]
        if difference(before, again).largest != 0.0:
            raise Refused("not-repeatable")
        change()
        found = difference(before, [how.back(_sample(fetcher.dataset, one)) for one in indices])
        if not how.allows(found):
            raise Refused("samples-differ")
        return Sent(plain(index), [found, *more()])

    fetcher.fetch = fetch


def length_of(dataset: Any) -> int:
    """How many samples it has; 0 if it does not say."""
    try:
        return len(dataset)
    except Exception:  # of the user's own code
        return 0


def indices_of(fetcher: Any, index: Any) -> list[Any]:
    """The indices of the samples that a fetch makes. A sampler of batches may give an array of them."""
    several = getattr(fetcher, "auto_collation", isinstance(index, (list, tuple)))
    return list(index) if several else [index]


def _sample(dataset: Any, index: Any) -> Any:
    """A sample, from the random numbers as they are now: they are put back."""
    states = random_state()
    try:
        return dataset[index]
    finally:
        put_back(states)


def put_back(states: tuple[Any, ...]) -> None:
    """Lets random numbers go on from these states, as `random_state` gave them."""
    random.setstate(states[0])
    sys.modules["torch"].set_rng_state(states[1])
    if states[2] is not None:
        sys.modules["numpy"].random.set_state(states[2])


def difference(before: Any, after: Any) -> Difference:
    """How far the values of samples are apart. What is not of the same form is infinitely far.

    Mean and range are those of one entry, as the image, of all samples: of the one that differs most for its range.
    """
    pairs = dict(leaves(before)), dict(leaves(after))
    if pairs[0].keys() != pairs[1].keys():
        return Difference(float("inf"), float("inf"), 0.0, 0)
    largest, entries = 0.0, dict[Path, _Entry]()
    for path, one in pairs[0].items():
        values, others = _numbers(one), _numbers(pairs[1][path])
        if values is None or others is None:
            far = values is not others or not same(one, pairs[1][path])
            largest = float("inf") if far else largest
        elif values.shape != others.shape or values.dtype != others.dtype:
            largest = float("inf")
        elif values.numel():
            first = values.double()
            apart = _apart(first, others.double())
            largest = max(largest, float(apart.max()))
            entries.setdefault(path[1:], _Entry()).add(first, apart)
    most = max(entries.values(), key=lambda one: one.share, default=_Entry())
    return Difference(largest, most.mean, most.span, sum(one.count for one in entries.values()))


class _Entry:
    """The differences of one entry of the samples, and the range of its values."""

    def __init__(self) -> None:
        self.total, self.count, self.low, self.high = 0.0, 0, float("inf"), float("-inf")

    def add(self, values: Any, apart: Any) -> None:
        self.total += float(apart.sum())
        self.count += values.numel()
        known = values[values.isfinite()]
        if known.numel():
            self.low, self.high = min(self.low, float(known.min())), max(self.high, float(known.max()))

    @property
    def mean(self) -> float:
        return self.total / max(1, self.count)

    @property
    def span(self) -> float:
        return max(0.0, self.high - self.low)

    @property
    def share(self) -> float:
        return self.mean / self.span if self.span else math.inf if self.mean else 0.0


def _apart(one: Any, other: Any) -> Any:
    """How far two tensors are apart at each place: not at all where neither is a number, infinitely where one is."""
    apart = (one - other).abs().nan_to_num(nan=math.inf, posinf=math.inf)
    return apart.masked_fill(alike(one, other), 0.0)


def leaves(found: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every part of a sample or of a batch that is no list, tuple or dictionary, with its place."""
    if isinstance(found, dict):
        for key, one in found.items():
            yield from leaves(one, (*path, key))
    elif isinstance(found, (list, tuple)):
        for key, one in enumerate(found):
            yield from leaves(one, (*path, key))
    else:
        yield path, found


def _numbers(found: Any) -> Any:
    """A tensor, an array or an image of Pillow as a tensor of numbers; None for anything else."""
    torch: Any = sys.modules["torch"]
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and hasattr(found, "getbands") and found.mode in _MODES:
        found = numpy.asarray(found)
    if numpy is not None and isinstance(found, numpy.ndarray):
        native = found.dtype.newbyteorder("=")  # torch takes no other, no negative stride, and warns of what is locked
        found = torch.as_tensor(found.astype(native, order="C")) if found.dtype.kind in "biuf" else None
    return found if isinstance(found, torch.Tensor) and not found.is_complex() else None


def nbytes(found: Any) -> int:
    """The size of one leaf: of the numbers of a tensor, an array or an image, or of a Python object."""
    size = getattr(found, "nbytes", None)
    if isinstance(size, int):
        return size
    bands = getattr(found, "getbands", None)
    return found.width * found.height * len(bands()) if bands is not None else sys.getsizeof(found)
