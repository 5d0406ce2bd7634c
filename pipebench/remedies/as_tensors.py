"""Batches that cross from the workers as tensors, where they are NumPy arrays or lists of numbers.

torch hands a tensor over in shared memory. An array is pickled: it is copied into bytes, through a pipe, and out of
them. While this is tried, the script gets what it always got: each array again, as a view of the tensor's memory, and
each list of numbers, which has to be made anew. A script that takes the tensors does without that.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.remedies.seen import WORTH, Seen, hand_off_share
from pipebench.results.advice import Change, Finding
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial.edits import Edit, Refused

PLACE = 2
TITLE = "handing over tensors"
HOW = (
    "Return large arrays as tensors: torch.from_numpy(array), torch.tensor(numbers).",
    "In the loop, x.numpy() is the array again, without a copy.",
)
LEAST_BYTES = 100_000  # through the pipe, of a batch
# Bytes: a tensor holds a file descriptor until nobody has it any more. To pickle numbers of a list takes far longer.
LEAST_ARRAY, LEAST_LIST = 65_536, 8_192
_DEEPEST = 8  # lists in lists; one that holds itself has no end
_ATOMS = (int, float, str, bytes, bool, type(None))


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    found = seen.watched.hand_off
    if tried or not seen.workers or found is None or found.pipe_bytes_per_batch < LEAST_BYTES:
        return None
    ahead = seen.workers, seen.prefetch_factor
    room = seen.room.has_shared_memory(*ahead, found.pipe_bytes_per_batch)
    arrays = found.array_bytes_per_batch or 0.0
    tensors = arrays / LEAST_ARRAY + (found.pipe_bytes_per_batch - arrays) / LEAST_LIST  # at most
    room = room and seen.room.has_descriptors(*ahead, tensors)
    if hand_off_share(seen) < WORTH - 1 or not room:
        return None
    return Change(
        "as_tensors",
        {},
        "shared memory",
        predicted=seen.without_waits,
        title=TITLE,
        edits={"as_tensors": {}},
        how=HOW,
        at=seen.at_collate,
        asked_for=seen.slow_hand_off,
    )


class _AsTensors(Edit):
    gives_back = True

    def in_worker(self, fetcher: Any, patches: Patches) -> None:
        if sys.modules.get("numpy") is None:
            raise Refused("no-arrays")
        fetcher.collate_fn = functools.partial(_collated, fetcher.collate_fn)

    def in_script(self, batch: Any) -> Any:
        return restored(batch)


edit = _AsTensors


def _collated(collate: Callable[[Any], Any], samples: Any) -> Any:
    return as_tensors(collate(samples))


class Packed:
    """A tensor in place of what it was made of. `what` says how to get that back."""

    __slots__ = ("tensor", "what")

    def __init__(self, tensor: Any, what: str) -> None:
        self.tensor, self.what = tensor, what

    def restored(self) -> Any:
        if self.what == "numbers":
            return self.tensor.numpy().tolist()
        return list(self.tensor.numpy()) if self.what == "list" else self.tensor.numpy()


def as_tensors(batch: Any) -> Any:
    """The batch with `Packed` in place of arrays and lists of numbers. The batch itself stays as it is."""
    return exchanged(batch, {}, _packed)


def restored(batch: Any) -> Any:
    """What `as_tensors` was given, with arrays that are views of the tensors' memory."""
    return exchanged(batch, {}, lambda one: one.restored() if type(one) is Packed else None)


def exchanged(found: Any, seen: dict[int, Any], change: Callable[[Any], Any]) -> Any:
    """`found` with each part for which `change` gives something else. What occurs twice is changed once."""
    if type(found) in _ATOMS:
        return found
    if id(found) not in seen:
        changed = change(found)
        seen[id(found)] = (found, changed if changed is not None else _inside(found, seen, change))
    return seen[id(found)][1]


def _inside(found: Any, seen: dict[int, Any], change: Callable[[Any], Any]) -> Any:
    """Plain containers are made anew. All other objects stay as they are."""
    kind = type(found)
    if kind is dict:
        return {key: exchanged(one, seen, change) for key, one in found.items()}
    if kind is list or kind is tuple:
        return kind(exchanged(one, seen, change) for one in found)
    if isinstance(found, tuple) and hasattr(found, "_fields"):
        return kind(*(exchanged(one, seen, change) for one in found))
    return found


def _packed(found: Any) -> Packed | None:
    numpy: Any = sys.modules["numpy"]
    if type(found) is numpy.ndarray:
        return _tensor(found, "array") if found.nbytes >= LEAST_ARRAY else None
    if type(found) is not list or not found:
        return None
    if (numbers := _numbers(found)) is not None:
        return _tensor(numbers, "numbers")
    if len(found) < 2 or type(found[0]) is not numpy.ndarray or len(found) * found[0].nbytes < LEAST_ARRAY:
        return None
    return _tensor(numpy.stack(found), "list") if _alike(found) else None


def _tensor(array: Any, what: str) -> Packed | None:
    """None: torch has no such tensors, as of texts or objects."""
    torch: Any = sys.modules["torch"]
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = array.copy()  # in C order, as pickle does
    if not array.flags.writeable:
        array = array.copy("K")
    try:
        return Packed(torch.from_numpy(array), what)
    except (TypeError, ValueError):
        return None


def _numbers(found: list[Any]) -> Any:
    """The array of a list of floats, or of ints, or of such lists of one length, to any depth; `tolist` gives it back.

    None: this is something else, or short.
    """
    numpy: Any = sys.modules["numpy"]
    flat = found
    for _ in range(_DEEPEST):
        kinds = set(map(type, flat))
        if kinds != {list}:
            break
        flat = list(itertools.chain.from_iterable(flat))
    if kinds not in ({float}, {int}) or 8 * len(flat) < LEAST_LIST:
        return None
    try:
        array = numpy.array(found)
    except ValueError:  # lengths differ
        return None
    wanted = numpy.float64 if kinds == {float} else numpy.int64  # larger ints become something else
    return array if array.dtype == wanted and array.size == len(flat) else None


def _alike(found: list[Any]) -> bool:
    """Whether these are arrays of one shape, in C order, so that `list` of their stack gives them back."""
    shape, kind, array = found[0].shape, found[0].dtype, type(found[0])
    return bool(shape) and all(
        type(one) is array and one.shape == shape and one.dtype == kind and one.flags.c_contiguous for one in found
    )
