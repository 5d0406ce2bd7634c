"""Where the user's files put `functools.lru_cache` around a function, and what gives it room for all results."""

from __future__ import annotations

import ast
from typing import NamedTuple

from pipebench.remedies.seen import Seen
from pipebench.remedies.source import Source, sources
from pipebench.results.advice import Place, Rewrite
from pipebench.watch.record.own_code import owner

_NAME = "lru_cache"
_DEFAULT = 128  # of functools


class Decorated(NamedTuple):
    """A function and the cache around it, which holds so many results (None: not known, or no bound)."""

    source: Source
    function: ast.FunctionDef
    decorator: ast.expr
    holds: int | None

    @property
    def place(self) -> Place:
        return Place(self.function.name, self.source.file, self.decorator.lineno)

    def without_bound(self) -> tuple[Rewrite, ...]:
        """Writes `maxsize=None` for the number that is there; nothing if there is none."""
        number = _given(self.decorator)
        if number is None or not isinstance(self.decorator, ast.Call):
            return ()
        by_place = self.decorator.args == [number]
        begin, end = self.source.begin(number), self.source.end(number)
        return (Rewrite(self.source.file, begin, end, "maxsize=None" if by_place else "None"),)


def decorated(seen: Seen, name: str) -> Decorated | None:
    """The only function of this name behind an `lru_cache`, in the files of the loader or where looks found it."""
    last = name.split(".")[-1]
    looked = [line.file for _, _, line in seen.lines() if line.function.split(".")[-1] == last and not owner(line.file)]
    found = [
        Decorated(source, node, one, _holds(one))
        for source in sources(seen, looked)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name == last
        for one in node.decorator_list
        if _is_cache(source, one)
    ]
    return found[0] if len(found) == 1 else None


def _is_cache(source: Source, decorator: ast.expr) -> bool:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(function).split(".")[-1] == _NAME and source.is_of(function, "functools")


def _holds(decorator: ast.expr) -> int | None:
    number = _given(decorator)
    if number is not None:
        return int(str(number.value))
    bare = not isinstance(decorator, ast.Call) or not (decorator.args or decorator.keywords)
    return _DEFAULT if bare else None


def _given(decorator: ast.expr) -> ast.Constant | None:
    """The number of results in the text of the decorator."""
    if not isinstance(decorator, ast.Call):
        return None
    given = [*decorator.args[:1], *(one.value for one in decorator.keywords if one.arg == "maxsize")]
    found = given[0] if given else None
    return found if isinstance(found, ast.Constant) and type(found.value) is int else None
