"""A number for what a batch holds, by which batches of several workers are known to be the same."""

from __future__ import annotations

import sys
import zlib
from typing import Any

from pipebench.watch.record.from_handlers import forgiving

_MOST_BYTES, _MOST = 1 << 20, 4096  # bytes, and objects, of a batch that are looked at
_PLAIN = (str, bytes, int, float, bool)


def fingerprint(batch: Any) -> int:
    """The same number for batches of the same texts, numbers, tensors and arrays, as far as one is looked into.

    0: nothing of that is in it. Objects of other kinds do not count.
    """
    found, left, waiting = 0, _MOST_BYTES, [batch]
    with forgiving():  # a batch may be an object of any kind
        for _ in range(_MOST):
            if not waiting or left <= 0:
                break
            one = waiting.pop()
            if type(one) is dict:
                waiting += [*one.values(), *one.keys()]
            elif type(one) in (list, tuple):
                waiting += one[: -_MOST - 1 : -1]
            elif (data := _bytes_of(one, left)) is not None:
                found, left = zlib.crc32(data, found), left - len(data)
    return found


def _bytes_of(one: Any, most: int) -> bytes | None:
    """The first bytes of a value; None of a kind that is not looked into. No code of a user's own class runs."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if type(one) in _PLAIN:
        short = one[:most] if type(one) in (str, bytes) else one
        return short if type(short) is bytes else repr(short).encode()[:most]
    if numpy is None or torch is None:
        return None
    if type(one) is torch.Tensor and one.device.type == "cpu" and one.layout == torch.strided:
        flat = _first(one.detach(), most // one.element_size()).reshape(-1)[: max(1, most // one.element_size())]
        return bytes(flat.contiguous().view(torch.uint8).numpy().data)
    if type(one) is numpy.ndarray and not one.dtype.hasobject:
        most //= max(1, one.itemsize)
        return bytes(numpy.ascontiguousarray(_first(one, most).reshape(-1)[: max(1, most)]).tobytes())
    return None


def _first(one: Any, most: int) -> Any:
    """As much of its first dimension as holds so many numbers: to flatten what does not lie in order copies it."""
    if not one.ndim or not len(one):
        return one
    row = (one.size if isinstance(one.size, int) else one.numel()) // len(one)
    return one[: most // row + 1] if row else one
