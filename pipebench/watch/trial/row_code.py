"""Reads a `__getitem__` that makes a sample from rows of arrays, and writes the code that makes a whole batch at once.

What each allowed piece of code does to one row, its piece for a batch does to all rows of it; the rows of a batch lie
along a first dimension. Anything that is not known to be such a piece is not allowed: branches, calls of other
functions, what takes a mean. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

_SAME = (
    "float", "double", "half", "long", "int", "short", "bool", "to", "type", "astype", "clone", "copy", "contiguous",
)  # fmt: skip
_EACH = (
    "log", "log1p", "log2", "log10", "exp", "expm1", "sqrt", "abs", "absolute", "square", "sin", "cos", "tan", "tanh",
    "sign", "clip", "clamp", "nan_to_num", "floor", "ceil", "round", "sigmoid",
)  # fmt: skip
_TYPES = ("float32", "float64", "int32", "int64")
_AS_TENSOR, _AS_ARRAY = ("torch.from_numpy", "torch.as_tensor", "torch.tensor"), ("np.array", "np.asarray")
_JOINED = {"torch.stack": "dim", "torch.cat": "dim", "np.stack": "axis", "np.concatenate": "axis"}
_NUMBERS = {"int": "torch.int64", "float": "torch.float64"}  # what the default collate function makes of them
_OPERATIONS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


@dataclass(frozen=True)
class RowCode:
    """What was read. `rows` are the attributes of the dataset of which rows are taken, `constants` the others.

    `outside` are the names of the module that are read. `batch` is the code for a batch, with the same arguments: a
    list of indices in place of one. `plain`: it is the same code.
    """

    rows: frozenset[str]
    constants: frozenset[str]
    outside: frozenset[str]
    batch: ast.FunctionDef
    plain: bool


def read(getter: ast.stmt) -> RowCode | None:
    """What a `__getitem__` does. None: it does, or may do, anything else."""
    if not isinstance(getter, ast.FunctionDef) or getter.decorator_list or not _takes_one_index(getter.args):
        return None
    this, index = (one.arg for one in getter.args.args)
    code = _Code(this, index)
    lines: list[ast.stmt] = []
    for line in getter.body:
        if code.returned or (found := code.line(line)) is None:
            return None
        lines += found
    if not code.returned or not code.rows:
        return None
    plain = "\n".join(map(ast.unparse, lines)) == "\n".join(map(ast.unparse, getter.body))
    name, arguments = "__getitems__", ast.arguments([], [ast.arg(this), ast.arg(index)], None, [], [], None, [])
    listed = ast.parse(f"{index} = list({index})").body
    batch = ast.fix_missing_locations(ast.FunctionDef(name, arguments, [*listed, *lines], [], None, lineno=1))
    return RowCode(frozenset(code.rows), frozenset(code.constants), frozenset(code.outside), batch, plain)


def _takes_one_index(found: ast.arguments) -> bool:
    more = [*found.posonlyargs, *found.kwonlyargs, *found.defaults, found.vararg, found.kwarg]
    return len(found.args) == 2 and not any(more)


@dataclass
class _Code:
    """What is known of the code so far: local names that hold `known` rows, `groups` of them, and `keys` of a group."""

    this: str
    index: str
    known: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    returned: bool = False

    def line(self, line: ast.stmt) -> list[ast.stmt] | None:
        """The same line for a batch, or none if it has no work for one. None: it is not allowed."""
        if self._is_text(line) or self._makes_a_number(line):
            return [line] if self._is_text(line) else []
        if isinstance(line, ast.Return) and line.value is not None:
            self.returned = True
            value = self._group(line.value)
            return None if value is None else [ast.Return(value)]
        if not isinstance(line, ast.Assign) or len(line.targets) != 1:
            return None
        target = line.targets[0]
        value = self._row(line.value)
        of_group = value is None
        value = self._group(line.value) if of_group else value
        if value is None or not self._assign(target, of_group):
            return None
        return [ast.Assign([target], value, lineno=1)]

    def _assign(self, target: ast.expr, of_group: bool) -> bool:
        if isinstance(target, ast.Subscript):  # of a dictionary that was made here
            return isinstance(target.value, ast.Name) and target.value.id in self.groups and _is_constant(target.slice)
        if not isinstance(target, ast.Name) or target.id in (self.this, self.index):
            return False
        (self.known if of_group else self.groups).discard(target.id)
        (self.groups if of_group else self.known).add(target.id)
        return True

    def _is_text(self, line: ast.stmt) -> bool:
        return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)

    def _makes_a_number(self, line: ast.stmt) -> bool:
        """Whether this only makes a number of the index."""
        one = self.index
        made = (f"{one} = int({one})", f"if torch.is_tensor({one}):\n    {one} = {one}.tolist()")
        return ast.unparse(line) in made

    def _group(self, node: ast.expr) -> ast.expr | None:
        """A row, or rows in tuples, lists and dictionaries."""
        if isinstance(node, ast.Tuple | ast.List):
            found = _all(map(self._group, node.elts))
            return None if found is None else type(node)(found, ast.Load())
        if isinstance(node, ast.Dict):
            values = _all(map(self._group, node.values))
            keys = all(one is not None and _is_constant(one) for one in node.keys)
            return ast.Dict(node.keys, values) if keys and values is not None else None
        if isinstance(node, ast.Name) and node.id in self.groups:
            return node
        if isinstance(node, ast.DictComp) and isinstance(node.key, ast.Name):
            made = self._each(node.generators, lambda: self._group(node.value))
            known = made is not None and node.key.id == ast.unparse(node.generators[0].target)
            return ast.DictComp(node.key, made, node.generators) if known and made is not None else None
        if isinstance(node, ast.ListComp):
            return self._listed(node, self._group)
        return self._row(node)

    def _listed(self, node: ast.ListComp, how: Callable[[ast.expr], ast.expr | None]) -> ast.expr | None:
        made = self._each(node.generators, lambda: how(node.elt))
        return None if made is None else ast.ListComp(made, node.generators)

    def _each(self, over: list[ast.comprehension], how: Callable[[], ast.expr | None]) -> ast.expr | None:
        """What is made for each of some constant keys."""
        one = over[0]
        if len(over) != 1 or one.ifs or one.is_async or not isinstance(one.target, ast.Name):
            return None
        names = {*self.known, *self.groups, self.this, self.index}
        if one.target.id in names or not (self._constant(one.iter) or _is_constants(one.iter)):
            return None
        self.keys.add(one.target.id)
        found = how()
        self.keys.discard(one.target.id)
        return found

    def _row(self, node: ast.expr) -> ast.expr | None:
        """A row of an array, of which each value was changed by itself."""
        if isinstance(node, ast.Name):
            return node if node.id in self.known else None
        if isinstance(node, ast.Subscript):
            return node if self._taken(node) else self._part(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._row(node.operand)
            return None if value is None else ast.UnaryOp(node.op, value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATIONS):
            sides = [self._row(one) for one in (node.left, node.right)]
            if sides == [None, None]:
                return None
            plain = (node.left, node.right)
            both = [
                side or (one if self._constant(one) or _is_number(one) else None)
                for side, one in zip(sides, plain, strict=True)
            ]
            left, right = both
            return None if left is None or right is None else ast.BinOp(left, node.op, right)
        return self._called(node) if isinstance(node, ast.Call) else None

    def _called(self, node: ast.Call) -> ast.expr | None:
        options = [*node.args, *(one.value for one in node.keywords)]
        if any(one.arg is None for one in node.keywords):
            return None
        name = ast.unparse(node.func).replace("numpy.", "np.", 1)
        module, _, last = name.partition(".")
        if name in _NUMBERS and len(options) == 1 == len(node.args):
            return self._number(node.args[0], _NUMBERS[name])
        if name in _JOINED or (name in (*_AS_TENSOR[1:], *_AS_ARRAY) and _is_list(node.args[:1])):
            return self._joined(node, name)
        each = module in ("np", "torch") and (last in _EACH or (module == "np" and last in _TYPES))
        if (name in (*_AS_TENSOR, *_AS_ARRAY) or each) and node.args and all(map(_is_option, options[1:])):
            self.outside.add(module)
            value = self._row(node.args[0])
            made = _name("torch.as_tensor") if name == "torch.tensor" and _is_tensor(value) else node.func
            return None if value is None else ast.Call(made, [value, *node.args[1:]], node.keywords)
        if not isinstance(node.func, ast.Attribute) or (value := self._row(node.func.value)) is None:
            return None
        return self._method(node, value, options)

    def _method(self, node: ast.Call, value: ast.expr, options: list[ast.expr]) -> ast.expr | None:
        assert isinstance(node.func, ast.Attribute)
        method, args = node.func.attr, node.args
        if method in (*_SAME, *_EACH):
            allowed = all(map(_is_option, options))
        elif method in ("reshape", "view"):
            allowed = all(map(_is_whole, options)) and bool(args) and not node.keywords
            args = [ast.parse(f"len({self.index})", mode="eval").body, *args]
        elif method == "unsqueeze":
            allowed = len(options) == 1 == len(args) and _is_whole(args[0])
            args = list(map(_behind, args))
        elif method in ("permute", "transpose"):
            allowed = len(args) > 2 and not node.keywords and all(_is_whole(one) and _whole(one) >= 0 for one in args)
            args = [ast.Constant(0), *map(_behind, args)]
        else:
            return None
        return ast.Call(ast.Attribute(value, method, ast.Load()), args, node.keywords) if allowed else None

    def _number(self, node: ast.expr, kind: str) -> ast.expr | None:
        value = self._row(node)
        self.outside.add("torch")
        dtype = ast.keyword("dtype", _name(kind))
        return None if value is None else ast.Call(_name("torch.as_tensor"), [value], [dtype])

    def _joined(self, node: ast.Call, name: str) -> ast.expr | None:
        """Rows that are put beside one another: along the next dimension."""
        if not _is_list(node.args[:1]):
            return None
        first = node.args[0]
        if isinstance(first, ast.ListComp):
            rows = self._listed(first, self._row)
        else:
            assert isinstance(first, ast.List | ast.Tuple)
            found = _all(map(self._row, first.elts))
            rows = None if not found else ast.List(found, ast.Load())
        module = name.partition(".")[0]
        self.outside.add(module)
        if rows is None:
            return None
        if name not in _JOINED:
            return self._array_of(node, module, rows)
        where = [*node.args[1:], *(one.value for one in node.keywords if one.arg == _JOINED[name])]
        if len(where) != len(node.args) - 1 + len(node.keywords) or len(where) > 1 or not all(map(_is_whole, where)):
            return None
        at = _behind(where[0]) if where else ast.Constant(1)
        return ast.Call(node.func, [rows], [ast.keyword(_JOINED[name], at)])

    def _array_of(self, node: ast.Call, module: str, rows: ast.expr) -> ast.expr | None:
        """`torch.tensor([...])` or `np.array([...])` of rows."""
        kinds = [*node.args[1:], *(one.value for one in node.keywords if one.arg == "dtype")]
        if len(kinds) != len(node.args) - 1 + len(node.keywords) or len(kinds) > 1 or not all(map(_is_option, kinds)):
            return None
        if module == "torch" and (len(node.args) > 1 or not isinstance(rows, ast.List)):
            return None
        if module == "torch":
            assert isinstance(rows, ast.List)
            rows = ast.List([ast.Call(_name("torch.as_tensor"), [one], []) for one in rows.elts], ast.Load())
        made = ast.Call(ast.Attribute(_module(node.func), "stack", ast.Load()), [rows, ast.Constant(1)], [])
        changed = ast.Attribute(made, "to" if module == "torch" else "astype", ast.Load())
        return ast.Call(changed, kinds, []) if kinds else made

    def _taken(self, node: ast.Subscript) -> bool:
        """Whether this is `self.name[index]`, `self.name[key][index]`, or some columns of such a row."""
        at = node.slice
        if isinstance(at, ast.Tuple) and at.elts:
            first, *others = at.elts
            at = first if all(_is_place(one) for one in others) else at
        if not isinstance(at, ast.Name) or at.id != self.index:
            return False
        whole = node.value
        if isinstance(whole, ast.Subscript) and (_is_constant(whole.slice) or ast.unparse(whole.slice) in self.keys):
            whole = whole.value
        if not isinstance(whole, ast.Attribute) or not self._is_this(whole.value):
            return False
        self.rows.add(whole.attr)
        return True

    def _part(self, node: ast.Subscript) -> ast.expr | None:
        """A part of a row: the same part of each."""
        value = self._row(node.value)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if value is None or not places or not all(map(_is_place, places)):
            return None
        return ast.Subscript(value, ast.Tuple([ast.Slice(), *places], ast.Load()), ast.Load())

    def _is_this(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.this

    def _constant(self, node: ast.expr) -> bool:
        """Whether this is an attribute of the dataset, or a name of the module: what it is shows later."""
        if isinstance(node, ast.Attribute) and self._is_this(node.value):
            self.constants.add(node.attr)
            return True
        local = {self.this, self.index, *self.known, *self.groups, *self.keys}
        if not isinstance(node, ast.Name) or node.id in local:
            return False
        self.outside.add(node.id)
        return True


def _all(found: Iterable[ast.expr | None]) -> list[ast.expr] | None:
    made = list(found)
    return None if None in made else [one for one in made if one is not None]


def _name(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _module(function: ast.expr) -> ast.expr:
    assert isinstance(function, ast.Attribute)
    return function.value


def _is_list(args: list[ast.expr]) -> bool:
    return bool(args) and isinstance(args[0], ast.List | ast.Tuple | ast.ListComp)


def _is_tensor(node: ast.expr | None) -> bool:
    """Whether this is a tensor for sure, as what was made of a number."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("torch.")


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)


def _is_constants(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.Tuple) and all(map(_is_constant, node.elts))


def _is_option(node: ast.expr) -> bool:
    """Whether this is a constant, or the name of one, such as `torch.float32`."""
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Attribute) and isinstance(inner, ast.Name))


def _is_place(node: ast.expr) -> bool:
    """Whether this is a constant place in a row: a number, None, or a slice of numbers."""
    if isinstance(node, ast.Slice):
        return all(one is None or _is_whole(one) for one in (node.lower, node.upper, node.step))
    return _is_whole(node) or (isinstance(node, ast.Constant) and node.value is None)


def _is_whole(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(inner, ast.Constant) and type(inner.value) is int


def _whole(node: ast.expr) -> int:
    return int(ast.literal_eval(node))


def _behind(node: ast.expr) -> ast.expr:
    """The same dimension of a row in a batch of rows."""
    at = _whole(node)
    return ast.Constant(at + 1) if at >= 0 else node
