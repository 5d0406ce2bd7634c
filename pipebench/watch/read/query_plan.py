"""Asks SQLite how a query of the user's finds its rows: by a key or an index, or by comparing all rows of a table.

The database is one that was open while the line ran. It is opened for reading; EXPLAIN QUERY PLAN runs no query, and of
the file only the schema is read. Documented at sqlite.org/eqp.html.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from contextlib import closing
from typing import Literal
from urllib.parse import quote

from pipebench.watch.read.known_files import INDEX, PLANNED, SCANS
from pipebench.watch.read.known_row import Known

_MAGIC = b"SQLite format 3\0"  # sqlite.org/fileformat2.html, 1.3.1
_NEEDS = re.compile(r"uses (\d+)")
_MOST_FILES = 4


def as_planned(found: Known, statement: str, files: Collection[str]) -> Known | None:
    """What is known of a line with a query, when SQLite has said how it finds rows; None if it has an index.

    `files` are open while the line runs. Anything else that is known stays what it is.
    """
    if found not in (INDEX, PLANNED):
        return found
    query = _query(statement)
    plans = {how for one in sorted(files)[:_MOST_FILES] if query and (how := plan(query, one)) is not None}
    if len(plans) != 1:
        return found if found == INDEX else None
    return SCANS if plans == {"scan"} else None


def plan(query: str, file: str) -> Literal["scan", "search"] | None:
    """How this query finds its rows in this file; None if it is no database of SQLite, or has other tables."""
    try:
        with open(file, "rb") as opened:
            if opened.read(len(_MAGIC)) != _MAGIC:
                return None
        import sqlite3
    except (OSError, ImportError):  # some builds of Python have no sqlite3
        return None
    asked = f"EXPLAIN QUERY PLAN {query}"
    try:
        with closing(sqlite3.connect(f"file:{quote(file)}?mode=ro&immutable=1", uri=True)) as connection:
            try:
                rows = connection.execute(asked).fetchall()
            except sqlite3.ProgrammingError as error:  # it has placeholders
                needs = _NEEDS.search(str(error))
                values = (None,) * int(needs[1]) if needs else _Any()
                rows = connection.execute(asked, values).fetchall()
    except (sqlite3.Error, ValueError, OverflowError):
        return None
    steps = [str(one[-1]).partition(" ")[0] for one in rows]
    if "SCAN" in steps:
        return "scan"
    return "search" if "SEARCH" in steps else None


class _Any(dict[str, None]):
    """Gives a value for each named placeholder."""

    def __missing__(self, name: str) -> None:
        return None


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text.strip())
    except (SyntaxError, ValueError):
        return None


def _query(statement: str) -> str:
    """The query that a statement executes, if it is written there as text; else ""."""
    tree = _parsed(statement) or _parsed(statement.rpartition("; ")[0])  # a later line fetches its rows
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute":
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                return first.value
    return ""
