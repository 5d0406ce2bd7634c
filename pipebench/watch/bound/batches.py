"""Finds the tensors and arrays in batches of any structure, up to `_DEPTH` levels deep, and copies batches."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any

_DEPTH = 8
Leaf = Callable[[Any], Any]


def _tensor(value: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _array(value: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def rebuilt(batch: Any, leaf: Leaf, depth: int = _DEPTH) -> Any:
    """The same batch in new containers, with `leaf(value)` for each tensor and array in it."""
    if _tensor(batch) or _array(batch):
        return leaf(batch)
    if not depth:
        return batch

    def inner(value: Any) -> Any:
        return rebuilt(value, leaf, depth - 1)

    if isinstance(batch, MutableMapping):
        found = {} if type(batch) is dict else copy.copy(batch)
        for key in list(batch):
            found[key] = inner(batch[key])
        return found
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(inner(value) for value in batch))
    if type(batch) in (list, tuple):
        return type(batch)(inner(value) for value in batch)
    return _rebuilt_object(batch, inner) if _holds(batch, depth) else batch


def _rebuilt_object(batch: Any, inner: Leaf) -> Any:
    found = copy.copy(batch)
    for name, value in vars(batch).items():
        object.__setattr__(found, name, inner(value))
    return found


def _holds(batch: Any, depth: int) -> bool:
    return hasattr(batch, "__dict__") and not isinstance(batch, type) and any(True for _ in leaves(batch, depth))


def leaves(batch: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """Every tensor and array of a batch."""
    if _tensor(batch) or _array(batch):
        yield batch
        return
    if isinstance(batch, (str, bytes, type)) or not depth:
        return
    if isinstance(batch, Mapping):
        inside: Any = batch.values()
    elif isinstance(batch, (list, tuple)):
        inside = batch
    else:
        inside = vars(batch).values() if hasattr(batch, "__dict__") and not callable(batch) else ()
    for value in inside:
        yield from leaves(value, depth - 1)


def same(batch: Any) -> Any:
    """New containers around the same tensors. If a script removes items, the original batch stays complete."""
    return rebuilt(batch, lambda value: value)


def copied(batch: Any, pin: bool = False) -> Any:
    """A copy in this process's own memory; CPU tensors are pinned if `pin` is true."""
    return rebuilt(batch, lambda value: _copied(value, pin))


def _copied(value: Any, pin: bool) -> Any:
    if not _tensor(value):
        return value.copy()
    found = value.detach().clone()
    return found.pin_memory() if pin and not found.is_cuda else found


def listed(batch: Any) -> list[Any]:
    """The tensors and arrays that copies of a batch have anew, in the order in which they are copied."""
    found: list[Any] = []

    def leaf(value: Any) -> Any:
        found.append(value)
        return value

    rebuilt(batch, leaf)
    return found


def moved(batch: Any, device: Any, places: Collection[int], pin: bool = False) -> Any:
    """A copy whose tensors at these places of `listed` are on `device`, and all else as in `copied`."""
    number = itertools.count()

    def leaf(value: Any) -> Any:
        return value.detach().to(device, copy=True) if next(number) in places else _copied(value, pin)

    return rebuilt(batch, leaf)


def nbytes(batch: Any) -> int:
    return sum(int(value.nbytes) for value in leaves(batch))


def samples(batch: Any, batch_size: int | None) -> int:
    """How many samples a batch holds: the length of its first tensor, at most the loader's batch size."""
    found = next((len(value) for value in leaves(batch) if value.ndim), None)
    if found is None:
        found = len(batch) if isinstance(batch, (list, tuple)) and batch_size is None else batch_size or 1
    return min(found, batch_size) if batch_size else found


def versions(batch: Any) -> tuple[int, ...]:
    """How often each tensor has been changed in place. If this differs later, the script has changed the batch."""
    return tuple(_version(value) for value in leaves(batch) if _tensor(value))


def _version(value: Any) -> int:
    try:
        return int(value._version)
    except RuntimeError:  # tensors made in inference mode have no such counter
        return 0
