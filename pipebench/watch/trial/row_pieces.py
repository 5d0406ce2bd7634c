"""Pieces of the code of a `__getitem__`: which functions change each value by itself, and what is constant. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable

SAME = (
    "float", "double", "half", "long", "int", "short", "bool", "to", "type", "astype", "clone", "copy", "contiguous",
)  # fmt: skip
ROUNDS = (
    "log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "sin", "cos", "tan", "tanh",
)  # fmt: skip
EACH = (
    *ROUNDS, "abs", "absolute", "square", "sign", "clip", "clamp", "nan_to_num", "floor", "ceil", "round",
)  # fmt: skip
WITH_A_NUMBER = ("add", "sub", "mul", "div")
FLAT = ("flatten", "ravel")
TURNED = ("permute", "transpose")
OTHER_DIMENSIONS = ("reshape", "view", "unsqueeze", *TURNED, *FLAT)
TYPES = ("float32", "float64", "int32", "int64")
AS_TENSOR, AS_ARRAY = ("torch.from_numpy", "torch.as_tensor", "torch.tensor"), ("np.array", "np.asarray")
JOINED = {"torch.stack": "dim", "torch.cat": "dim", "np.stack": "axis", "np.concatenate": "axis"}
NUMBERS = {"int": "torch.int64", "float": "torch.float64"}  # what the default collate function makes of them
OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_MODULES = ("torch", "np", "numpy")


def every(found: Iterable[ast.expr | None]) -> list[ast.expr] | None:
    """All of them; None if one is None."""
    made = list(found)
    return None if None in made else [one for one in made if one is not None]


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def is_list(args: list[ast.expr]) -> bool:
    return bool(args) and isinstance(args[0], ast.List | ast.Tuple | ast.ListComp)


def is_tensor(node: ast.expr | None) -> bool:
    """Whether this is a tensor for sure, as what was made of a number."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch.")


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def are_constants(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and all(map(is_constant, node.elts))


def is_option(node: ast.expr) -> bool:
    """Whether this is a constant, or the name of one in a module, such as `torch.float32`."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _MODULES
    return isinstance(node, ast.Constant) or named


def are_options(call: ast.Call, first: int) -> bool:
    """Whether all arguments from `first` on are such, and none names where the result goes."""
    options = [*call.args[first:], *(one.value for one in call.keywords)]
    named = {one.arg for one in call.keywords}
    return all(map(is_option, options)) and None not in named and "out" not in named


def second(call: ast.Call, keyword: str) -> list[ast.expr] | None:
    """The second argument, also by its name; none if there is none. None: there are others."""
    found = [*call.args[1:], *(one.value for one in call.keywords if one.arg == keyword)]
    return found if len(found) == len(call.args) - 1 + len(call.keywords) <= 1 else None


def is_place(node: ast.expr) -> bool:
    """Whether this is a constant place in a row: a number, None, or a slice of numbers."""
    if isinstance(node, ast.Slice):
        return all(one is None or is_whole(one) for one in (node.lower, node.upper, node.step))
    return is_whole(node) or (isinstance(node, ast.Constant) and node.value is None)


def is_whole(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int


def dimensions(args: list[ast.expr]) -> list[ast.expr] | None:
    """The dimensions that are given one by one, or in a tuple; None if they are no whole numbers."""
    group = args[0] if len(args) == 1 and isinstance(args[0], ast.Tuple | ast.List) else None
    found = args if group is None else group.elts
    return found if found and all(map(is_whole, found)) else None


def behind(node: ast.expr) -> ast.expr:
    """The same dimension of a row in a batch of rows."""
    at = int(ast.literal_eval(node))
    return ast.Constant(at + 1) if at >= 0 else node
