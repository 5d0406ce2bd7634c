"""Tells whether a dataset only takes rows out of arrays or tensors, so that one look with many indices gives a batch.

A few equal batches would prove little: code may treat some indices in another way. So the code itself is read
(`row_code`), and what it takes rows of must be arrays.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Sequence
from typing import Any

from pipebench.watch.trial.edits import Refused
from pipebench.watch.trial.row_code import RowCode, read


def looking(dataset: Any, only_itself: bool) -> Callable[[Sequence[int]], Any]:
    """What gives all rows of some indices. Raises `Refused` if they may not be what the samples are, side by side.

    `only_itself`: the dataset must give them itself, with a list as the index. Else it may be other code.
    """
    data: Any = sys.modules["torch.utils.data"]
    inner = dataset
    while type(inner) is data.Subset:
        if not _are_numbers(inner.indices):
            raise Refused("no-rows")
        inner = inner.dataset
    if hasattr(inner, "__getitems__"):
        raise Refused("has-getitems")
    getter = type(inner).__getitem__
    code = None if getter is data.TensorDataset.__getitem__ else _code(inner, getter)
    if code is None or code.plain:
        return lambda indices: dataset[list(map(int, indices))]
    if only_itself or inner is not dataset:
        raise Refused("no-rows")
    made: dict[str, Any] = {}
    module = ast.Module([code.batch], [])
    exec(compile(module, getter.__code__.co_filename, "exec"), getter.__globals__, made)
    at_once = made[code.batch.name]
    return lambda indices: at_once(dataset, indices)


def _code(dataset: Any, getter: Any) -> RowCode:
    """What its `__getitem__` does. Raises `Refused`."""
    if type(getter) is not types.FunctionType or hasattr(getter, "__wrapped__"):
        raise Refused("no-rows")
    try:
        found = read(ast.parse(textwrap.dedent(inspect.getsource(getter))).body[0])
    except (OSError, TypeError, SyntaxError, IndexError):
        found = None
    if found is None or not _only_arrays(found, dataset, getter.__globals__):
        raise Refused("no-rows")
    return found


def _are_numbers(indices: Any) -> bool:
    """Whether a look with some of them takes so many rows: tensors of one number may be places in one row."""
    torch: Any = sys.modules["torch"]
    ends = indices[:1] if hasattr(indices, "__getitem__") and len(indices) else ()
    return not isinstance(indices, torch.Tensor) and not any(isinstance(one, torch.Tensor) for one in ends)


def _only_arrays(code: RowCode, dataset: Any, named: dict[str, Any]) -> bool:
    modules = {"torch": sys.modules["torch"], "np": sys.modules.get("numpy")}
    held = {one: inspect.getattr_static(dataset, one, None) for one in (*code.rows, *code.constants, *code.absent)}
    arrays = {one: _arrays(held[one]) for one in code.rows}
    constants = [held[one] for one in code.constants]
    constants += [named.get(one) for one in code.outside if one not in modules or one not in named]
    same = all(named.get(one, modules[one]) is modules[one] for one in code.outside if one in modules)
    if not all(arrays.values()) or not same or not all(map(_is_constant, constants)):
        return False
    halves = any(str(one.dtype).endswith("float16") for found in arrays.values() for one in found)
    alike = all(len({array.ndim for one in group for array in arrays[one]}) == 1 for group in code.together)
    return alike and not (code.rounds and halves) and all(held[one] is None for one in code.absent)


def _is_array(found: Any) -> bool:
    """Whether this is an array as torch and NumPy make it: a class of its own, as of masked ones, may act otherwise."""
    numpy, torch = sys.modules.get("numpy"), sys.modules["torch"]
    kinds = (torch.Tensor, torch.nn.Parameter, *((numpy.ndarray, numpy.memmap) if numpy is not None else ()))
    return type(found) in kinds


def _arrays(found: Any) -> list[Any]:
    """The array, or all arrays of a group; none if it is something else, or holds something else."""
    several = list(found.values()) if type(found) is dict else list(found) if type(found) in (list, tuple) else [found]
    return several if all(map(_is_array, several)) else []


def _is_constant(found: Any) -> bool:
    """Whether this is a number, an array, or names or numbers in a group."""
    numpy: Any = sys.modules.get("numpy")
    group = (dict, list, tuple, range, types.MappingProxyType)
    number = type(found) in (int, float) or (numpy is not None and isinstance(found, numpy.number))
    return number or _is_array(found) or (type(found) in group and all(map(_is_name, found)))


def _is_name(found: Any) -> bool:
    return isinstance(found, (str, int))
