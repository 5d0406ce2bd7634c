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
    outer = dataset
    while type(dataset) is data.Subset:
        dataset = dataset.dataset
    getter = type(dataset).__getitem__
    if hasattr(dataset, "__getitems__"):
        raise Refused("has-getitems")
    if getter is data.TensorDataset.__getitem__:
        return lambda indices: outer[list(indices)]
    try:
        found = ast.parse(textwrap.dedent(inspect.getsource(getter))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise Refused("no-rows") from None
    code = read(found)
    if code is None or not _only_arrays(code, dataset, getter.__globals__):
        raise Refused("no-rows")
    if code.plain:
        return lambda indices: outer[list(indices)]
    if only_itself or outer is not dataset:
        raise Refused("no-rows")
    made: dict[str, Any] = {}
    module = ast.Module([code.batch], [])
    exec(compile(module, getter.__code__.co_filename, "exec"), getter.__globals__, made)
    at_once = made[code.batch.name]
    return lambda indices: at_once(dataset, indices)


def _only_arrays(code: RowCode, dataset: Any, named: dict[str, Any]) -> bool:
    modules = {"torch": sys.modules["torch"], "np": sys.modules.get("numpy")}
    held = {one: inspect.getattr_static(dataset, one, None) for one in (*code.rows, *code.constants)}
    rows = all(_is_array(held[one]) or _are_arrays(held[one]) for one in code.rows)
    constants = [held[one] for one in code.constants]
    constants += [named.get(one) for one in code.outside if one not in modules or one not in named]
    same = all(named.get(one, modules[one]) is modules[one] for one in code.outside if one in modules)
    return rows and same and all(map(_is_constant, constants))


def _is_array(found: Any) -> bool:
    numpy: Any = sys.modules.get("numpy")
    return isinstance(found, (sys.modules["torch"].Tensor, *([numpy.ndarray] if numpy is not None else [])))


def _are_arrays(found: Any) -> bool:
    several = list(found.values()) if type(found) is dict else found if type(found) in (list, tuple) else []
    return bool(several) and all(map(_is_array, several))


def _is_constant(found: Any) -> bool:
    """Whether this is a number, an array, or names or numbers in a group."""
    group = (dict, list, tuple, range, types.MappingProxyType)
    return type(found) in (int, float) or _is_array(found) or (type(found) in group and all(map(_is_name, found)))


def _is_name(found: Any) -> bool:
    return isinstance(found, (str, int))
