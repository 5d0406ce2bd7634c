"""Where in a repository the function stands that a benchmark measures, found in the text of its files.

Nothing is imported. A name that a package takes from one of its modules is followed to its definition.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipebench.compare.config import Own
from pipebench.compare.import_roots import INSTALLED, import_roots

FOLLOWED = 5  # imports of a name from module to module


@dataclass(frozen=True)
class Place:
    """A line of a file: its path relative to the repository, with forward slashes, and the line, from 1."""

    file: str
    line: int


def function_of(own: Own, identity: str) -> str | None:
    """The function, as module:function, that `pipebench.toml` names for a benchmark; None for one of asv or pytest."""
    entries = {f"bench/{one.name}": one.setup for one in getattr(own, "benchmark", ())}
    if identity in entries:
        return str(entries[identity])
    if identity.startswith("transform/"):
        return own.transform
    return own.loader if identity.startswith(("read/", "collate/", "loader/")) else None


def place_of(repo: Path, roots: Sequence[Path], function: str, left: int = FOLLOWED) -> Place | None:
    """The place where a function, as module:function, is defined under one of `roots`; None if it is not found."""
    module, _, name = function.partition(":")
    for file in _files(roots, module):
        try:
            body = ast.parse(file.read_bytes()).body
        except (OSError, SyntaxError, ValueError):
            return None
        if (line := _defined(body, name.split("."))) is not None and file.is_relative_to(repo):
            return Place(file.relative_to(repo).as_posix(), line)
        if (origin := _imported(body, name, module, file.name == "__init__.py")) and left:
            return place_of(repo, roots, origin, left - 1)
    return None


def _files(roots: Sequence[Path], module: str) -> Iterator[Path]:
    for root in roots:
        place = root.joinpath(*module.split("."))
        yield from (one for one in (place.with_name(place.name + ".py"), place / "__init__.py") if one.is_file())


def _defined(body: Sequence[ast.stmt], names: Sequence[str]) -> int | None:
    """The line that defines a name, or a method of a class: a function, a class, or what is assigned."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == names[0]:
            inner = _defined(node.body, names[1:]) if names[1:] and isinstance(node, ast.ClassDef) else None
            return inner or node.lineno
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == names[0] for one in targets):
            return node.lineno
    return None


def _imported(body: Sequence[ast.stmt], name: str, module: str, is_package: bool) -> str | None:
    """Where a module takes a name from, as module:function, if it imports the name."""
    for node in body:
        for one in node.names if isinstance(node, ast.ImportFrom) else ():
            if isinstance(node, ast.ImportFrom) and (one.asname or one.name) == name.partition(".")[0]:
                parts = module.split(".")
                around = parts[: len(parts) - node.level + is_package] if node.level else []
                inner = name.partition(".")[1:]
                return f"{'.'.join([*around, *([node.module] if node.module else [])])}:{one.name}{''.join(inner)}"
    return None


def places(own: Own | None, identities: Sequence[str], folder: Path) -> dict[str, tuple[str, int]]:
    """File and line of the functions that `pipebench.toml` names for these benchmarks, in the checkout in `folder`."""
    if own is None:
        return {}
    roots = [*(one for one in import_roots(folder, own.roots) if one.name != INSTALLED), folder / "src"]
    functions = {identity: function_of(own, identity) for identity in identities}
    found = {identity: place_of(folder, roots, name) for identity, name in functions.items() if name}
    return {identity: (one.file, one.line) for identity, one in found.items() if one}
