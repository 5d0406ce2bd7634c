"""Counts what a batch holds besides samples: tensors and arrays, tokens and their padding, frames, seconds of sound.

Only what a batch shows by the names of its entries is counted, and nothing on a device.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pipebench.watch.record.worker_lines import Content, ToHandOver
from pipebench.watch.worker.fingerprints import attributes_of, size_of
from pipebench.watch.worker.padded import padded_lengths
from pipebench.watch.worker.tokens import are_integers, ignored_targets, on_host, tokens_of, turned

_SOUND = ("input_values", "waveform", "waveforms", "audio", "speech")
_RATE = ("sampling_rate", "sample_rate")
_VIDEO = ("video", "videos", "frames", "pixel_values_videos")
_COLOURS = (1, 3, 4)
_WIDE = 16  # columns; narrower tables are features
_ENTRIES = 20
_MOST = 4096  # objects in which tensors and arrays are looked for
_LENGTHS = 3  # of the samples of a batch: fewer may be flags


def samples_in(batch: Any) -> int:
    """The number of samples in a batch: the length of its first tensor or array; 1 if it has none."""
    found = _first(batch)
    return int(found.shape[0]) if found is not None and len(found.shape) else 1


def _first(batch: Any) -> Any:
    """The first tensor or array in a batch, in the order of its entries."""
    waiting = [batch]
    for _ in range(100):
        if not waiting:
            return None
        one = waiting.pop(0)
        if hasattr(one, "shape"):
            return one
        if isinstance(one, Mapping):
            waiting = [*one.values(), *waiting]
        elif isinstance(one, Sequence) and not isinstance(one, (str, bytes)):
            waiting = [*one[:10], *waiting]
    return None


def to_hand_over(batch: Any) -> ToHandOver:
    """The tensors and arrays of a batch: each would cross from a worker. Of a very large batch, those met first."""
    tensor, array = getattr(sys.modules.get("torch"), "Tensor", ()), getattr(sys.modules.get("numpy"), "ndarray", ())
    tensors = tensor_bytes = array_bytes = 0
    seen: set[int] = set()
    waiting = [batch]
    while waiting and len(seen) < _MOST:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, tensor):
            tensors += 1
            with contextlib.suppress(Exception):  # a sparse one has no such size
                tensor_bytes += one.nbytes
        elif isinstance(one, array):
            array_bytes += one.nbytes
        elif isinstance(one, Mapping):
            waiting += itertools.islice(one.values(), _MOST)
        elif isinstance(one, (list, tuple)):
            waiting += one[:_MOST]
        elif not isinstance(one, (type, types.ModuleType, types.FunctionType)):
            waiting += getattr(one, "__dict__", {}).values()
    return ToHandOver(1, tensors, tensor_bytes, array_bytes)


class Carrying(NamedTuple):
    """An attribute of objects in a batch, the bytes of arrays and tensors in it, and those of the whole batch."""

    attribute: str
    bytes: int
    whole: int


def carried(batch: Any) -> Carrying | None:
    """The attribute of objects that holds half of a batch or more; None if none does. Each object counts once.

    No code of the user's own runs: only what lies in the dictionaries of objects is looked at.
    """
    tensor, array = getattr(sys.modules.get("torch"), "Tensor", ()), getattr(sys.modules.get("numpy"), "ndarray", ())
    found: Counter[str] = Counter()
    seen: set[int] = set()
    waiting: list[tuple[Any, str]] = [(batch, "")]
    while waiting and len(seen) < _MOST:
        one, held_by = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        kind = type(one)
        if kind in (tensor, array):
            found[held_by] += size_of(one)
        elif kind is dict:
            waiting += [(each, held_by) for each in itertools.islice(one.values(), _MOST)]
        elif kind in (list, tuple):
            waiting += [(each, held_by) for each in one[:_MOST]]
        elif not issubclass(kind, (type, types.ModuleType, types.FunctionType)):
            its = attributes_of(one) or {}
            waiting += [(each, f"{kind.__qualname__}.{name}") for name, each in its.items()]
    whole = found.total()
    attribute, most = max(found.items(), key=lambda each: each[1], default=("", 0))
    return Carrying(attribute, most, whole) if attribute and 2 * most >= whole > 0 else None


def content_of(batch: Any) -> Content | None:
    """What a batch shows; None if it shows nothing but samples."""
    columns, unused, uneven = _unused(batch)
    tokens = tokens_of(batch)
    found = None if tokens is None else Content(1, *tokens)
    if found is None and isinstance(batch, Mapping):
        found = _video(batch) or _sound(batch)
    targets, ignored = ignored_targets(batch)
    if found is None and (columns or ignored):  # also where none is unused: the share is that of all batches
        found = Content(1, samples_in(batch))
    if found is None:
        return None
    return found._replace(columns=columns, unused=unused, uneven=uneven, targets=targets, ignored=ignored)


def _unused(batch: Any) -> tuple[int, int, float]:
    """The places of a sample in the widest table of integers, and those at the end that are the same in all samples.

    So are those of tokens that are padded further than to the longest sample. The third number are the places of a
    sample, on average, that are padding because another one is longer. Sequences of features whose lengths the batch
    tells come first: they are larger.
    """
    entries = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, (tuple, list)) else [batch]
    first = list(itertools.islice(entries, _ENTRIES))
    if (sequences := padded_lengths([one for one in map(_told, first) if one is not None])) is not None:
        places, lengths = sequences
        return places, places - max(lengths), max(lengths) - sum(lengths) / len(lengths)
    tables = [found for one in first if _is_table(found := on_host(one))]
    if not tables:
        return 0, 0, 0.0
    widest = max(tables, key=lambda one: int(one.shape[1]))
    if int(widest.max()) < 2:  # a mask, or a label for each column
        return 0, 0, 0.0
    columns = int(widest.shape[1])
    each = [(_at_end(widest, order), order) for order in (range(columns - 1, -1, -1), range(columns))]
    return columns, *max(((unused, _uneven(widest, order, unused)) for unused, order in each), key=sum)


def _told(one: Any) -> Any:
    """An entry as `padded_lengths` reads it; None if that would wait for a device."""
    return one if isinstance(one, (list, tuple)) else on_host(one)


def _uneven(table: Any, columns: Sequence[int], unused: int) -> float:
    """How many columns, in this order and after the unused ones, are padding in a sample, on average.

    Padding is the number that most samples have there. It stands nowhere else, and samples end at several places. A
    table of features has its most frequent number in other columns, too.
    """
    ends = table[:, columns[unused]].tolist() if unused < len(columns) else []
    padding = max(set(ends), key=ends.count, default=None)
    if padding is None or 2 * ends.count(padding) < len(ends):
        return 0.0
    equal = table == padding
    if columns[0]:  # from the end; to take a list of columns would take ten times as long
        equal = turned(equal)
    runs: list[int] = equal.cumprod(1).sum(1).tolist()
    if int(equal.sum()) != sum(runs) or len(set(runs)) < _LENGTHS:
        return 0.0
    return sum(runs) / len(runs) - unused


def _at_end(table: Any, columns: Sequence[int]) -> int:
    """How many columns, in this order, hold one number in all samples, if what comes next ends at other places.

    In a table of features, it does not: the last column that differs is a feature of most samples.
    """
    padding = table[:1, columns[0] : columns[0] + 1]
    equal = table == padding
    same = equal.all(0).tolist()
    unused = next((nth for nth, column in enumerate(columns) if not same[column]), 0)
    if not unused:
        return 0
    longest = int(equal.shape[0]) - int(equal[:, columns[unused]].sum())
    return unused if 2 * longest <= int(equal.shape[0]) else 0


def _is_table(one: Any) -> bool:
    return are_integers(one) and len(one.shape) == 2 and one.shape[0] > 1 and one.shape[1] >= _WIDE


def _video(batch: Mapping[Any, Any]) -> Content | None:
    for name in _VIDEO:
        found: Any = batch.get(name)
        if len(getattr(found, "shape", ())) == 5:
            frames = found.shape[2] if found.shape[1] in _COLOURS and found.shape[2] not in _COLOURS else found.shape[1]
            return Content(1, int(found.shape[0]), frames=int(found.shape[0] * frames))
    return None


def _sound(batch: Mapping[Any, Any]) -> Content | None:
    rate = next((_number(batch[name]) for name in _RATE if name in batch), None)
    found = next((batch[name] for name in _SOUND if len(getattr(batch.get(name), "shape", ())) in (2, 3)), None)
    if not rate or found is None:
        return None
    return Content(1, int(found.shape[0]), seconds=float(found.shape[0] * found.shape[-1] / rate))


def _number(found: Any) -> float | None:
    """A rate that is the same for all samples of a batch: a number, or a list or tensor of equal ones."""
    if isinstance(found, (int, float)):
        return float(found)
    held = on_host(found)
    values = held.reshape(-1).tolist() if held is not None else found
    if isinstance(values, (list, tuple)) and values and all(one == values[0] for one in values):
        return float(values[0])
    return None
