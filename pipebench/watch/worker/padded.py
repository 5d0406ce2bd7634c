"""Finds sequences of features in a batch that are padded: sounds, spectrograms, poses.

Only where the batch says itself how long its samples are. Images with dark borders say no such thing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

SHORTEST = 16  # places of a sample; a shorter one is a few features
_MOST = 512  # samples: one is looked at in a few places
_AXES = {2: (1,), 3: (1, 2)}  # of time, by the number of dimensions of a batch


def padded_lengths(entries: Sequence[Any]) -> tuple[int, list[int]] | None:
    """The places of a sample in the largest batch of floats, and how many each one uses; None if it is not told.

    Another entry tells it: a length for each sample, or a mask. It is believed if one number fills what comes behind
    each end, and what stands at most ends is another one.
    """
    floats = [one for one in entries if "float" in str(getattr(one, "dtype", "")) and len(one.shape) in _AXES]
    lengths = [found for one in entries if (found := lengths_in(one))] if floats else []
    for table in sorted(floats, key=lambda one: -size(one)):
        for axis in _AXES[len(table.shape)]:
            places = int(table.shape[axis])
            for each in lengths:
                if places >= SHORTEST and len(each) == table.shape[0] and agree(table, axis, each):
                    return places, each
    return None


def size(table: Any) -> int:
    return math.prod(map(int, table.shape))


def lengths_in(one: Any) -> list[int] | None:
    """The length of each sample that this entry tells, if it may be such an entry."""
    kind = str(getattr(one, "dtype", "")).removeprefix("torch.")
    if isinstance(one, (list, tuple)):
        found = list(one[: _MOST + 1])
        told = all(type(each) is int for each in found)
    elif kind.startswith(("int", "uint")) and len(one.shape) == 1 and one.shape[0] <= _MOST:
        found, told = one.tolist(), True
    elif kind.startswith(("int", "uint", "bool")) and len(one.shape) == 2 and one.shape[0] <= _MOST:
        found, told = _of_mask(one) or [], True
    else:
        return None
    return found if told and 1 < len(found) <= _MOST and min(found) > 0 else None


def _of_mask(mask: Any) -> list[int] | None:
    """How many places come before the padding in each row; None if this is no mask of such places."""
    if mask.shape[1] < SHORTEST or int(mask.max()) > 1 or int(mask.min()) < 0:
        return None
    same = mask == mask[:, :1]  # padding is told by 1 or by 0
    lengths: list[int] = same.cumprod(1).sum(1).tolist()
    return lengths if lengths == same.sum(1).tolist() and bool((mask[:, 0] == mask[0, 0]).all()) else None


def agree(table: Any, axis: int, lengths: Sequence[int]) -> bool:
    """Whether one number fills what is behind each end, in the few places that are looked at, but not most ends."""
    places = int(table.shape[axis])
    if max(lengths) > places:
        return False
    shorter = [(sample, length) for sample, length in enumerate(lengths) if length < places]
    if not shorter:
        return True
    padding = _values(table, axis, shorter[0][0], places - 1)[0]
    behind = ((sample, at) for sample, length in shorter for at in {length, (length + places) // 2, places - 1})
    if not all(_only(_values(table, axis, *one), padding) for one in behind):
        return False
    filled = sum(_only(_values(table, axis, sample, length - 1), padding) for sample, length in shorter)
    return 2 * filled < len(shorter)


def _values(table: Any, axis: int, sample: int, at: int) -> list[Any]:
    """What a sample holds at one place of time."""
    found = table[sample, at] if axis == 1 else table[sample, :, at]
    return list(found.reshape(-1).tolist())


def _only(values: Iterable[Any], padding: Any) -> bool:
    return all(one == padding for one in values)
