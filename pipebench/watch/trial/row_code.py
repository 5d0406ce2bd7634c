"""Reads a `__getitem__` that makes a sample from rows of arrays, and writes the code that makes a whole batch at once.

What each allowed piece of code does to one row, its piece for a batch does to all rows of it; the rows of a batch lie
along a first dimension. Anything that is not known to be such a piece is not allowed: branches, calls of other
functions, what takes a mean. Pure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from pipebench.watch.trial import row_pieces as pieces


@dataclass(frozen=True)
class RowCode:
    """What was read. `rows` are the attributes of the dataset of which rows are taken, `constants` the others.

    `outside` are the names of the module that are read. `absent` attributes must be None: the code has a branch for
    others. The arrays of each group `together` must have as many dimensions. `rounds`: a function may round a float16
    otherwise in an array. `batch` is the code for a batch, with the same arguments: a list of indices in place of one.
    `plain`: it is the same code.
    """

    rows: frozenset[str]
    constants: frozenset[str]
    outside: frozenset[str]
    absent: frozenset[str]
    together: tuple[frozenset[str], ...]
    rounds: bool
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
    listed = ast.parse(f"{index} = list(map(int, {index}))").body
    batch = ast.fix_missing_locations(ast.FunctionDef(name, arguments, [*listed, *lines], [], None, lineno=1))
    rows, constants, outside, absent = map(frozenset, (code.rows, code.constants, code.outside, code.absent))
    return RowCode(rows, constants, outside, absent, tuple(code.together), code.rounds, batch, plain)


def _takes_one_index(found: ast.arguments) -> bool:
    more = [*found.posonlyargs, *found.kwonlyargs, *found.defaults, found.vararg, found.kwarg]
    return len(found.args) == 2 and not any(more)


@dataclass
class _Code:
    """What is known of the code so far: local names that hold `known` rows, `groups` of them, and `keys` of a group.

    Of known rows, it is the arrays that they come from: None if they may have other dimensions than these.
    """

    this: str
    index: str
    known: dict[str, frozenset[str] | None] = field(default_factory=dict)
    groups: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    rows: set[str] = field(default_factory=set)
    constants: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)
    absent: set[str] = field(default_factory=set)
    together: list[frozenset[str]] = field(default_factory=list)
    rounds: bool = False
    returned: bool = False

    def line(self, line: ast.stmt) -> list[ast.stmt] | None:
        """The same line for a batch, or none if it has no work for one. None: it is not allowed."""
        if self._makes_a_number(line):
            return []
        if (isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)) or self._is_for_others(line):
            return [line]
        if isinstance(line, ast.Return) and line.value is not None:
            self.returned = True
            value = self._group(line.value)
            return None if value is None else [ast.Return(value)]
        if not isinstance(line, ast.Assign) or len(line.targets) != 1:
            return None
        target = line.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple):
            return self._several(target, line.value)
        value = self._assigned(target, line.value)
        return None if value is None else [ast.Assign([target], value, lineno=1)]

    def _several(self, targets: ast.Tuple, values: ast.Tuple) -> list[ast.stmt] | None:
        """`x, y = self.x[index], self.y[index]`"""
        made = pieces.every(map(self._row, values.elts))  # all of them before any name changes
        origins = list(map(self._origin, values.elts))
        names = [one.id for one in targets.elts if isinstance(one, ast.Name)]
        if made is None or len(names) != len(targets.elts) or len(names) != len(made):
            return None
        if not {self.this, self.index}.isdisjoint(names):
            return None
        self.groups.difference_update(names)
        self.known.update(zip(names, origins, strict=True))
        return [ast.Assign([targets], ast.Tuple(made, ast.Load()), lineno=1)]

    def _assigned(self, target: ast.expr, value: ast.expr) -> ast.expr | None:
        """The value for a batch, which `target` has from now on."""
        row = self._row(value)
        made = self._group(value) if row is None else row
        if isinstance(target, ast.Subscript):  # of a dictionary that was made here
            of_group = isinstance(target.value, ast.Name) and target.value.id in self.groups
            return made if of_group and pieces.is_constant(target.slice) else None
        if made is None or not isinstance(target, ast.Name) or target.id in (self.this, self.index):
            return None
        origin = self._origin(value)
        self.known.pop(target.id, None)
        self.groups.discard(target.id)
        if row is None:
            self.groups.add(target.id)
        else:
            self.known[target.id] = origin
        return made

    def _makes_a_number(self, line: ast.stmt) -> bool:
        """Whether this only makes a number of the index."""
        one = self.index
        made = (f"{one} = int({one})", f"if torch.is_tensor({one}):\n    {one} = {one}.tolist()")
        return ast.unparse(line) in made

    def _is_for_others(self, line: ast.stmt) -> bool:
        """Whether this is `if self.transform is not None: ...`, which does nothing where that is None."""
        if not isinstance(line, ast.If) or line.orelse:
            return False
        test = line.test
        if isinstance(test, ast.Compare) and ast.unparse(test).endswith(" is not None"):
            test = test.left
        if not isinstance(test, ast.Attribute) or not self._is_this(test.value):
            return False
        self.absent.add(test.attr)
        return True

    def _group(self, node: ast.expr) -> ast.expr | None:
        """A row, or rows in tuples, lists and dictionaries."""
        if isinstance(node, ast.Tuple | ast.List):
            found = pieces.every(map(self._group, node.elts))
            return None if found is None else type(node)(found, ast.Load())
        if isinstance(node, ast.Dict):
            values = pieces.every(map(self._group, node.values))
            keys = all(one is not None and pieces.is_constant(one) for one in node.keys)
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
        if one.target.id in names or not (self._named(one.iter) or pieces.are_constants(one.iter)):
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
        if isinstance(node, ast.BinOp) and isinstance(node.op, pieces.OPERATIONS):
            return self._combined(node)
        return self._called(node) if isinstance(node, ast.Call) else None

    def _combined(self, node: ast.BinOp) -> ast.expr | None:
        """Two rows that are added, say, or a row and a constant.

        Rows of other dimensions would meet other values of one another in a batch. A constant is the same for all rows.
        """
        left, right = self._row(node.left), self._row(node.right)
        if left is not None and right is not None:
            origins = [self._origin(one) for one in (node.left, node.right)]
            if None in origins:
                return None
            self.together.append(frozenset().union(*(one for one in origins if one is not None)))
        elif left is not None:
            right = node.right if self._constant(node.right) else None
        elif right is not None:
            left = node.left if self._constant(node.left) else None
        return None if left is None or right is None else ast.BinOp(left, node.op, right)

    def _origin(self, node: ast.expr) -> frozenset[str] | None:
        """The arrays that a row comes from. None: it may have other dimensions than a row of these."""
        found = set[str]()
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and one.id in self.known:
                origin = self.known[one.id]
                if origin is None:
                    return None
                found |= origin
            elif self._turns(one):
                return None
            elif isinstance(one, ast.Attribute) and self._is_this(one.value) and one.attr in self.rows:
                found.add(one.attr)
        return frozenset(found)

    def _turns(self, one: ast.AST) -> bool:
        """Whether this may give other dimensions than it is given."""
        if isinstance(one, ast.Subscript):
            taken = isinstance(one.slice, ast.Name) and one.slice.id == self.index
            return not taken and (not isinstance(one.value, ast.Attribute) or isinstance(one.slice, ast.Tuple))
        if isinstance(one, ast.Attribute):
            return one.attr in pieces.OTHER_DIMENSIONS
        return isinstance(one, ast.Call) and pieces.is_list(one.args)

    def _called(self, node: ast.Call) -> ast.expr | None:
        name = ast.unparse(node.func).replace("numpy.", "np.", 1)
        module, _, last = name.partition(".")
        if name in pieces.NUMBERS:
            plain = len(node.args) == 1 and not node.keywords
            return self._number(node.args[0], pieces.NUMBERS[name]) if plain else None
        as_array = name in pieces.AS_TENSOR or name in pieces.AS_ARRAY
        if name in pieces.JOINED or (as_array and pieces.is_list(node.args)):
            return self._joined(node, name)
        each = module in ("np", "torch") and last in pieces.EACH
        if as_array or each or (module == "np" and last in pieces.TYPES):
            return self._function(node, name)
        if not isinstance(node.func, ast.Attribute) or (value := self._row(node.func.value)) is None:
            return None
        return self._method(node, node.func.attr, value)

    def _function(self, node: ast.Call, name: str) -> ast.expr | None:
        """A function of torch or NumPy that changes each value by itself, or none."""
        module, _, last = name.partition(".")
        if not node.args or not pieces.are_options(node, 1) or not self._may_round(last, node):
            return None
        self.outside.add(module)
        first = node.args[0]
        if name == "torch.tensor" and isinstance(first, ast.Call) and ast.unparse(first.func) == "float":
            value = self._row(first.args[0]) if len(first.args) == 1 and not first.keywords else None
            if value is None or len(node.args) > 1 or [one.arg for one in node.keywords] not in ([], ["dtype"]):
                return None
            kinds = node.keywords or [ast.keyword("dtype", pieces.expression("torch.get_default_dtype()"))]
            return ast.Call(pieces.expression("torch.as_tensor"), [value], kinds)
        value = self._row(first)
        as_is = name == "torch.tensor" and pieces.is_tensor(value)
        made = pieces.expression("torch.as_tensor") if as_is else node.func
        return None if value is None else ast.Call(made, [value, *node.args[1:]], node.keywords)

    def _may_round(self, name: str, node: ast.Call) -> bool:
        """Notes whether it rounds. False: it may change the array itself."""
        self.rounds |= name in pieces.ROUNDS
        return name != "nan_to_num" or not (node.keywords or len(node.args) > 1)

    def _method(self, node: ast.Call, method: str, value: ast.expr) -> ast.expr | None:
        args, allowed = node.args, not node.keywords
        whole = pieces.dimensions(args)
        if method in (*pieces.SAME, *pieces.EACH):
            allowed = pieces.are_options(node, 0) and self._may_round(method, node)
        elif method in pieces.WITH_A_NUMBER:
            allowed = allowed and len(args) == 1 and pieces.is_number(args[0])
        elif method in pieces.FLAT:
            allowed, method, args = allowed and not args, "reshape", [self._length(), pieces.expression("-1")]
        elif whole is None or method not in pieces.OTHER_DIMENSIONS:
            return None
        elif method in ("reshape", "view"):
            args = [self._length(), *whole]
        elif method == "unsqueeze":
            allowed, args = allowed and len(whole) == 1, list(map(pieces.behind, whole))
        else:  # of two dimensions, torch's `transpose` and NumPy's are not the same
            allowed = allowed and (whole != args or len(args) > 2) and all(map(pieces.is_constant, whole))
            args = [ast.Constant(0), *map(pieces.behind, whole)]
        return ast.Call(ast.Attribute(value, method, ast.Load()), args, node.keywords) if allowed else None

    def _length(self) -> ast.expr:
        return pieces.expression(f"len({self.index})")

    def _number(self, node: ast.expr, kind: str) -> ast.expr | None:
        value = self._row(node)
        self.outside.add("torch")
        return None if value is None else _as_tensor(value, pieces.expression(kind))

    def _joined(self, node: ast.Call, name: str) -> ast.expr | None:
        """Rows that are put beside one another: along the next dimension."""
        if not pieces.is_list(node.args):
            return None
        module = name.partition(".")[0]
        self.outside.add(module)
        if name in pieces.JOINED:
            where = pieces.second(node, pieces.JOINED[name])
            rows = self._listed_rows(node.args[0], lambda row: row)
            if rows is None or where is None or not all(map(pieces.is_whole, where)):
                return None
            at = pieces.behind(where[0]) if where else ast.Constant(1)
            return ast.Call(node.func, [rows], [ast.keyword(pieces.JOINED[name], at)])
        kinds = pieces.second(node, "dtype")
        if kinds is None or not all(map(pieces.is_option, kinds)) or (module == "torch" and len(node.args) > 1):
            return None
        kind = kinds[0] if kinds else None

        def of_kind(row: ast.expr) -> ast.expr:  # before they are joined: that may round them
            if module == "torch":
                return _as_tensor(row, kind)
            return row if kind is None else ast.Call(ast.Attribute(row, "astype", ast.Load()), [kind], [])

        rows = self._listed_rows(node.args[0], of_kind)
        assert isinstance(node.func, ast.Attribute)
        stack = ast.Attribute(node.func.value, "stack", ast.Load())
        return None if rows is None else ast.Call(stack, [rows, ast.Constant(1)], [])

    def _listed_rows(self, node: ast.expr, change: Callable[[ast.expr], ast.expr]) -> ast.expr | None:
        """The rows of a list, each of them changed."""

        def changed(one: ast.expr) -> ast.expr | None:
            row = self._row(one)
            return None if row is None else change(row)

        if isinstance(node, ast.ListComp):
            return self._listed(node, changed)
        assert isinstance(node, ast.List | ast.Tuple)
        found = pieces.every(map(changed, node.elts))
        return ast.List(found, ast.Load()) if found else None

    def _taken(self, node: ast.Subscript) -> bool:
        """Whether this is `self.name[index]`, `self.name[key][index]`, or some columns of such a row."""
        at = node.slice
        if isinstance(at, ast.Tuple) and at.elts:
            first, *others = at.elts
            at = first if all(map(pieces.is_place, others)) else at
        if not isinstance(at, ast.Name) or at.id != self.index:
            return False
        whole = node.value
        if isinstance(whole, ast.Subscript):
            key = whole.slice
            whole = whole.value if pieces.is_constant(key) or ast.unparse(key) in self.keys else whole
        if not isinstance(whole, ast.Attribute) or not self._is_this(whole.value):
            return False
        self.rows.add(whole.attr)
        return True

    def _part(self, node: ast.Subscript) -> ast.expr | None:
        """A part of a row: the same part of each."""
        value = self._row(node.value)
        places = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if value is None or not places or not all(map(pieces.is_place, places)):
            return None
        return ast.Subscript(value, ast.Tuple([ast.Slice(), *places], ast.Load()), ast.Load())

    def _is_this(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.this

    def _constant(self, node: ast.expr) -> bool:
        """Whether this is a number, or made of numbers and names of constants."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, pieces.OPERATIONS):
            return self._constant(node.left) and self._constant(node.right)
        return pieces.is_number(node) or self._named(node)

    def _named(self, node: ast.expr) -> bool:
        """Whether this is an attribute of the dataset, or a name of the module: what it is shows later."""
        if isinstance(node, ast.Attribute) and self._is_this(node.value):
            self.constants.add(node.attr)
            return True
        local = {self.this, self.index, *self.known, *self.groups, *self.keys}
        if not isinstance(node, ast.Name) or node.id in local:
            return False
        self.outside.add(node.id)
        return True


def _as_tensor(value: ast.expr, kind: ast.expr | None) -> ast.expr:
    keywords = [] if kind is None else [ast.keyword("dtype", kind)]
    return ast.Call(pieces.expression("torch.as_tensor"), [value], keywords)
