"""Tells whether a dataset only takes rows out of arrays or tensors, so that one look with many indices gives a batch.

A few equal batches would prove little: code may treat some indices in another way. So the code itself is read. It may
only take `self.name[index]`, change each value by itself, and return that, in tuples, lists or dictionaries.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from typing import Any

from pipebench.watch.trial.edits import Refused

_METHODS = (
    "float", "double", "half", "long", "int", "short", "bool", "to", "type", "astype", "clone", "copy", "contiguous",
)  # fmt: skip
_FUNCTIONS = (
    "torch.from_numpy", "torch.as_tensor", "torch.tensor", "np.array", "np.asarray", "numpy.array", "numpy.asarray",
)  # fmt: skip
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def check(dataset: Any) -> None:
    """Raises `Refused` if one look with a list of indices may not give what the samples are, one beside the other."""
    data: Any = sys.modules["torch.utils.data"]
    while type(dataset) is data.Subset:
        dataset = dataset.dataset
    getter = type(dataset).__getitem__
    if hasattr(dataset, "__getitems__"):
        raise Refused("has-getitems")
    if getter is data.TensorDataset.__getitem__:
        return
    try:
        found = ast.parse(textwrap.dedent(inspect.getsource(getter))).body[0]
    except (OSError, TypeError, SyntaxError, IndexError):
        raise Refused("no-rows") from None
    names = rows_taken(found)
    held = vars(dataset) if hasattr(dataset, "__dict__") else {}
    if names is None or not all(isinstance(held.get(one), _arrays()) for one in names):
        raise Refused("no-rows")


def _arrays() -> tuple[type, ...]:
    numpy: Any = sys.modules.get("numpy")
    return (sys.modules["torch"].Tensor, *([numpy.ndarray] if numpy is not None else []))


def rows_taken(getter: ast.stmt) -> set[str] | None:
    """The attributes of which a `__getitem__` takes rows. None: it does, or may do, anything else."""
    if not isinstance(getter, ast.FunctionDef) or getter.decorator_list or not _plain(getter.args):
        return None
    code = _Getter(*(one.arg for one in getter.args.args))
    return code.taken if all(map(code.allows, getter.body)) and code.returned and code.taken else None


def _plain(found: ast.arguments) -> bool:
    more = [*found.posonlyargs, *found.kwonlyargs, *found.defaults, found.vararg, found.kwarg]
    return len(found.args) == 2 and not any(more)


class _Getter:
    """What is known of the code of one `__getitem__` so far. `known` are the local names that hold rows."""

    def __init__(self, this: str, index: str) -> None:
        self.this, self.index = this, index
        self.known, self.taken = set[str](), set[str]()
        self.returned = False

    def allows(self, line: ast.stmt) -> bool:
        if isinstance(line, ast.Expr):
            return isinstance(line.value, ast.Constant)  # what documents it
        if isinstance(line, ast.Return) and line.value is not None:
            self.returned = True
            return self._several(line.value)
        if not isinstance(line, ast.Assign) or not self._row(line.value):
            return False
        names = [one.id for one in line.targets if isinstance(one, ast.Name)]
        self.known.update(names)
        return len(names) == len(line.targets) and self.known.isdisjoint({self.this, self.index})

    def _several(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple | ast.List):
            return all(map(self._several, node.elts))
        if isinstance(node, ast.Dict):
            return all(isinstance(one, ast.Constant) for one in node.keys) and all(map(self._several, node.values))
        return self._row(node)

    def _row(self, node: ast.expr) -> bool:
        """Whether this is a row of an array, of which each value was changed by itself."""
        if isinstance(node, ast.Name):
            return node.id in self.known
        if isinstance(node, ast.Subscript):
            return self._taken(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS):
            sides = (node.left, node.right)
            return any(map(_is_number, sides)) and any(map(self._row, sides))
        if not isinstance(node, ast.Call):
            return False
        options = [*node.args, *(one.value for one in node.keywords if one.arg is not None)]
        if any(one.arg is None for one in node.keywords):
            return False
        if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
            return self._row(node.func.value) and all(map(_is_option, options))
        made = ast.unparse(node.func) in _FUNCTIONS and bool(node.args)
        return made and self._row(node.args[0]) and all(map(_is_option, options[1:]))

    def _taken(self, node: ast.Subscript) -> bool:
        """Whether this is `self.name[index]`."""
        whole, at = node.value, node.slice
        own = isinstance(whole, ast.Attribute) and isinstance(whole.value, ast.Name) and whole.value.id == self.this
        if not own or not isinstance(at, ast.Name) or at.id != self.index:
            return False
        self.taken.add(whole.attr)  # type: ignore[attr-defined]
        return True


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_option(node: ast.expr) -> bool:
    """Whether this is a constant, or the name of one, such as `torch.float32`."""
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Attribute) and isinstance(inner, ast.Name))
