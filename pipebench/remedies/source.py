"""Finds calls in the user's files, and says which bytes to replace. Nothing is written here."""

from __future__ import annotations

import ast
import builtins
import codecs
import contextlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pipebench.remedies.seen import Seen
from pipebench.results.advice import Place, Rewrite
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.trial_lines import LoaderMade

_LOADER = "DataLoader"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_KEEPERS = ("append", "add", "insert", "extend", "setdefault")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_CLOSED = re.compile(rb"(?:(?:\s|\\|#[^\r\n]*[\r\n])*\))*")  # closing parentheses, with comments before them
_BEFORE_COLLATE = 6  # positional parameters of a DataLoader before `collate_fn`


class Source:
    """One file. `tree` is its code; places count bytes. Raises OSError, SyntaxError or ValueError."""

    def __init__(self, file: str) -> None:
        self.file, self.raw = file, Path(file).read_bytes()
        self.tree = ast.parse(self.raw)
        self._lines = [0, *itertools.accumulate(map(len, self.raw.splitlines(keepends=True)))]
        if self.raw.startswith(codecs.BOM_UTF8):
            self._lines[0] = len(codecs.BOM_UTF8)  # the columns of the first line begin behind it

    def nodes(self, kind: type[ast.expr]) -> list[ast.expr]:
        return [one for one in ast.walk(self.tree) if isinstance(one, kind)]

    def begin(self, node: ast.expr | ast.stmt) -> int:
        return self._lines[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr) -> int:
        return self._lines[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def wrapped(self, first: ast.expr, last: ast.expr, before: str, after: str = ")") -> tuple[Rewrite, ...]:
        """Puts `before` before the expression `first`, and `after` after `last`."""
        places = (self.begin(first), before), (self.end(last), after)
        return tuple(Rewrite(self.file, place, place, text) for place, text in places)

    def call_at(self, made: LoaderMade) -> ast.Call | None:
        """The call that made a loader; None if there is none at that place, or if it is no DataLoader's."""
        wanted = (made.line, made.end_line, made.column, made.end_column)
        for one in self.nodes(ast.Call):
            place = (one.lineno, one.end_lineno, one.col_offset, one.end_col_offset)
            if place == wanted and isinstance(one, ast.Call) and self._makes_loader(one.func):
                return one
        return None

    def holds(self, node: ast.expr, one: Rewrite) -> bool:
        """Whether a place lies in this expression."""
        return one.file == self.file and self.begin(node) <= one.begin and one.end <= self.end(node)

    def repeats(self, call: ast.Call, below: Sequence[ast.AST] = ()) -> bool:
        """Whether the file may come to this call in several ways, each for another loader.

        It stands in a comprehension, or in a loop that keeps each loader; or the file calls the function around it, or
        the class if that is `__init__`, in several places, or in one that repeats. `below` are the functions that are
        known to lead here.
        """
        around = _around(self.tree, call)
        if any(isinstance(one, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) for one in around):
            return True
        functions = [place for place, one in enumerate(around) if isinstance(one, _FUNCTIONS)]
        inner = around[functions[-1] :] if functions else around
        if _is_repeated(inner) and _is_kept(inner):
            return True
        if not functions:
            return False
        named: ast.AST = around[functions[-1]]
        if getattr(named, "name", "") == "__init__":
            named = around[functions[-1] - 1]
        name = getattr(named, "name", "")
        below = [*below, named]
        outside = [one for one in self.calls_of(name) if not any(known in below for known in _around(self.tree, one))]
        return len(outside) > 1 or any(self.repeats(one, below) for one in outside)

    def handles_errors(self, call: ast.Call) -> bool:
        """Whether an error of this call is handled, here or where the file calls the function around it."""
        functions = [one for one in _around(self.tree, call) if isinstance(one, _FUNCTIONS)]
        calls = self.calls_of(functions[-1].name) if functions else []
        return any(_is_tried(_around(self.tree, one)) for one in (call, *calls))

    def calls_of(self, name: str) -> list[ast.Call]:
        """Every call of `name` in this file. Only the last part of what is called counts."""
        return [one for one in self.nodes(ast.Call) if isinstance(one, ast.Call) and called(one) == name]

    def reached(self, name: str) -> list[ast.Call]:
        """The calls in the class `name`, in what it is made of, and in the functions and classes that these name."""
        defined = [one for one in ast.walk(self.tree) if isinstance(one, (*_FUNCTIONS, ast.ClassDef))]
        given = [one for one in ast.walk(self.tree) if isinstance(one, ast.Assign)]
        left: list[ast.AST] = [*(one for one in defined if one.name == name), *self.calls_of(name)]
        found: list[ast.AST] = []
        while left:
            node = left.pop()
            if node in found:
                continue
            found.append(node)
            names = {getattr(one, "id", getattr(one, "attr", "")) for one in ast.walk(node)}
            left += [one for one in defined if one.name in names]
            if isinstance(node, ast.expr):  # a name within a definition may be its own
                left += [one.value for one in given if names & {getattr(to, "id", None) for to in one.targets}]
        calls = (one for node in found for one in ast.walk(node) if isinstance(one, ast.Call))
        return list(dict.fromkeys(calls))

    def keeps(self, call: ast.Call) -> bool:
        """Whether the value of this call is kept in a container or an object."""
        return _is_stored(_around(self.tree, call))

    def is_of(self, function: ast.expr, package: str) -> bool:
        """Whether the file imports this name, or the module that it is an attribute of, from `package`."""
        first = ast.unparse(function).split(".")[0]
        for one in ast.walk(self.tree):
            if isinstance(one, ast.ImportFrom | ast.Import):
                for name in one.names:
                    origin = "" if getattr(one, "level", 0) else getattr(one, "module", name.name)
                    known = name.asname or name.name.split(".")[0]
                    if known == first and (origin or "").split(".")[0] == package:
                        return True
        return False

    def is_builtin(self, value: ast.expr) -> bool:
        """Whether this is the name of a builtin, such as `list`, which the file gives to nothing else."""
        if not isinstance(value, ast.Name) or not callable(getattr(builtins, value.id, None)):
            return False
        given = (one.id for one in ast.walk(self.tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))
        return value.id not in given

    def _makes_loader(self, function: ast.expr) -> bool:
        """Whether this is DataLoader, or a name that the file gives to it or to a class or a partial call of it."""
        if isinstance(function, ast.Attribute) and ast.unparse(function) == "super().__init__":
            return True  # a class of loaders: it is no other, since the call makes one
        return ast.unparse(function).split(".")[-1] in {_LOADER, *self._other_names()}

    def given_before(self, call: ast.Call) -> int | None:
        """How many parameters a partial call gives by position, before those of `call`; None if it hides them."""
        name = ast.unparse(call.func).split(".")[-1]
        partial = [
            node.value.args[1:]
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_loader(node.value)
            if name in [ast.unparse(one).split(".")[-1] for one in node.targets]
        ]
        hidden = any(isinstance(one, ast.Starred) for args in partial for one in args)
        return None if hidden else max(map(len, partial), default=0)

    def _other_names(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                yield from (one.asname for one in node.names if one.name == _LOADER and one.asname)
            elif isinstance(node, ast.ClassDef) and any(_LOADER in ast.unparse(one) for one in node.bases):
                yield node.name
            elif isinstance(node, ast.Assign) and _is_loader(node.value):
                yield from (ast.unparse(one).split(".")[-1] for one in node.targets)

    def imported(self, module: str) -> tuple[Rewrite, ...]:
        """Writes `import module` before the first import of the file, if it is not there. `module` has no dots."""
        if self.imports(module):
            return ()
        imports = [one for one in self.tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
        ours = [one for one in imports if not _from_future(one)] or self._statements()
        place = self._lines[_first_line(ours[0]) - 1]
        return (Rewrite(self.file, place, place, f"import {module}\n", helper=True),)

    def _statements(self) -> list[ast.stmt]:
        """The statements of the file behind its docstring and what it imports from `__future__`."""
        first = 0 if ast.get_docstring(self.tree, clean=False) is None else 1
        return [one for one in self.tree.body[first:] if not _from_future(one)]

    def with_keyword(self, call: ast.Call, text: str) -> Rewrite:
        """Puts the keyword `text` behind the last argument of `call`, and behind the parentheses around it."""
        last = max([*call.args, *(one.value for one in call.keywords)], key=self.end)
        place = self.end_of_group(last, self.end(call) - 1)
        return Rewrite(self.file, place, place, f", {text}")

    def line_before(self, call: ast.Call, text: str) -> tuple[Rewrite, ...]:
        """Writes a line before the statement that holds `call`; nothing where no other statement may stand."""
        around = _around(self.tree, call)
        place = self._lines[_first_line(_statement(around)) - 1] if around else 0
        line = self.raw[place:].split(b"\n", 1)[0]
        indent = line[: len(line) - len(line.lstrip())]
        begins = self.begin(_statement(around)) if around else 0
        first = place + len(indent) == begins or line.lstrip().startswith(b"@")
        if not around or not first or line.lstrip().startswith(b"elif"):
            return ()
        return (Rewrite(self.file, place + len(indent), place + len(indent), f"{text}\n{indent.decode()}"),)

    def imports(self, module: str, before: ast.expr | None = None) -> bool:
        """Whether the file imports a module under its own name, and, if an expression is given, `before` it."""
        last = before.lineno if before is not None else math.inf
        named = (
            name for one in self.tree.body if isinstance(one, ast.Import) and one.lineno < last for name in one.names
        )
        return any(one.name == module and one.asname in (None, module) for one in named)

    def end_of_group(self, node: ast.expr, until: int | None = None) -> int:
        """Where the parentheses behind an expression end, of those before the place `until`."""
        end = self.end(node)
        closed = _CLOSED.match(self.raw[end:until])
        return end + (closed.end() if closed else 0)

    def defined(self, what: Callable[..., object], user: ast.expr) -> Rewrite:
        """Writes the text of a class or function of ours before the statement of the module that holds `user`."""
        lines = [_first_line(one) for one in self.tree.body if _first_line(one) <= user.lineno]
        place = self._lines[max(lines) - 1]
        return Rewrite(self.file, place, place, f"{_plain(what)}\n\n", helper=True)


def _around(node: ast.AST, wanted: ast.AST) -> list[ast.AST]:
    """What holds a node of a tree, the outermost first, and the node itself; nothing if it is not in there."""
    if node is wanted:
        return [node]
    for one in ast.iter_child_nodes(node):
        if found := _around(one, wanted):
            return [node, *found]
    return []


def _is_tried(around: Sequence[ast.AST]) -> bool:
    """Whether the last of these stands in the body of a `try`, which handles its errors."""
    pairs = itertools.pairwise(around)
    return any(isinstance(one, ast.Try) and bool(one.handlers) and inner in one.body for one, inner in pairs)


def _is_repeated(around: Sequence[ast.AST]) -> bool:
    """Whether the last of these stands in the body of a loop."""
    return any(isinstance(one, _LOOPS) and inner in one.body for one, inner in itertools.pairwise(around))


def _is_kept(around: Sequence[ast.AST]) -> bool:
    """Whether the value of the last of these outlives one turn of its loop: it is stored, appended or yielded."""
    inside = around[around.index(_statement(around)) : -1]
    given = any(isinstance(one, ast.Yield | ast.YieldFrom) or called(one) in _KEEPERS for one in inside)
    return given or _is_stored(around)


def _is_stored(around: Sequence[ast.AST]) -> bool:
    """Whether the value of the last of these becomes an entry of a container or an attribute."""
    statement = _statement(around)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(one, ast.Subscript | ast.Attribute) for one in targets)


def _statement(around: Sequence[ast.AST]) -> ast.stmt:
    return next(one for one in reversed(around) if isinstance(one, ast.stmt))


def _plain(what: Callable[..., object]) -> str:
    """The text of a class or function, without our comments to the type checker."""
    return re.sub(r"  # type: ignore.*", "", inspect.getsource(what))


def _from_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _is_loader(value: ast.expr) -> bool:
    """Whether this is the class itself, or `partial(DataLoader, ...)`."""
    first = value.args[0] if called(value) == "partial" and isinstance(value, ast.Call) and value.args else value
    return isinstance(first, ast.Name | ast.Attribute) and ast.unparse(first).split(".")[-1] == _LOADER


def _first_line(node: ast.stmt) -> int:
    return int(min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))]))


def sources(seen: Seen, more: Sequence[str] = ()) -> Iterator[Source]:
    """The user's own files where the loader is made, and where its collate function is, and `more` of them."""
    collate = seen.made.collate if seen.made else None
    files = [seen.place_of(seen.made)[0], collate.file if collate and not owner(collate.file) else "", *more]
    for file in filter(None, dict.fromkeys(files)):
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            yield Source(file)


def calls_of(seen: Seen, name: str) -> list[tuple[Source, ast.Call]]:
    """Every call of `name` in these files."""
    return [(source, one) for source in sources(seen) for one in source.calls_of(name)]


def with_collate(
    seen: Seen, function: str, module: str, around: Callable[..., object] | None = None
) -> tuple[Rewrite, ...]:
    """`collate_fn=function` in the call that makes the loader, and the import of `module`.

    The dataset is put into `around`, a class of ours, whose text is written, too (None: it stays as it is). Nothing if
    the call may have such an argument already, or if it does not show its dataset.
    """
    for source in sources(seen):
        call = source.call_at(seen.made) if seen.made and source.file == seen.made.file else None
        if call is None or not _takes_collate(call) or source.given_before(call) != 0:
            continue
        written = (source.with_keyword(call, f"collate_fn={function}"), *source.imported(module))
        dataset = call.args[0] if call.args else _keyword(call, "dataset")
        if around is None:
            return written
        if dataset is not None:  # behind the keyword, which may stand at the same place: the end of the dataset
            return (*written, *source.wrapped(dataset, dataset, f"{around.__name__}("), source.defined(around, call))
    return ()


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((one.value for one in call.keywords if one.arg == name), None)


def _takes_collate(call: ast.Call) -> bool:
    hidden = any(one.arg in (None, "collate_fn") for one in call.keywords)
    hidden |= any(isinstance(one, ast.Starred) for one in call.args)
    return not hidden and bool(call.args or call.keywords) and len(call.args) <= _BEFORE_COLLATE


def steps_of(
    seen: Seen, name: str, place_of: Callable[[Sequence[str]], slice | None]
) -> tuple[Source, list[ast.expr]] | None:
    """The entries that `place_of` finds by name, in the list with the only call of `name`; None if there is none."""
    found = calls_of(seen, name)
    if len(found) != 1:
        return None
    source, call = found[0]
    for node in source.nodes(ast.List):
        entries = node.elts if isinstance(node, ast.List) and call in node.elts else []
        if (steps := place_of([called(one) for one in entries])) is not None:
            grouped = any(source.end_of_group(one) > source.end(one) for one in entries[steps])
            return None if grouped else (source, entries[steps])
    return None


def call_of(seen: Seen, name: str) -> Place | None:
    """The place of the call of `name`; None if there is none, or more than one."""
    found = calls_of(seen, name)
    return Place(name, found[0][0].file, found[0][1].lineno) if len(found) == 1 else None


def called(node: ast.AST) -> str:
    """The last name in what is called, as that of the class in `transforms.Normalize(...)`. "" for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else str(getattr(node.func, "id", ""))
