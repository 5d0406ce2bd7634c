"""The text around a line of a source file: its function above and below, and what the file gives names. Pure.

But for the text itself, which is asked for line by line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pipebench.watch.read.known_lines import GIVES, LONGEST, LOOP, Line, indent_of, statement

_FAR = 120  # lines of a function
_LONG = 5000  # lines of a file
_DEF = re.compile(r"\s*(?:(?:async\s+)?def|class)\s")

Text = Callable[[str, int], str]
"""The text of a line of a file, "" if there is none."""


_NO_ROW = Line("", "", "", "")


def around(file: str, line: int, text: Text, row: Line = _NO_ROW) -> Line:
    """A line with what is around it. `row` is what else is known of it."""
    above = function_above(file, line, text)
    below = function_below(file, line, above, text)
    indent = indent_of(text(file, line))
    statements = giving(file, text)
    return row._replace(
        text=statement_at(file, line, text),
        indent=indent,
        above=above,
        below=below,
        given=[one for one, _ in statements],
        values=of_module(statements),
    )


def statement_at(file: str, line: int, text: Text) -> str:
    """The text of a line, with the rest of its statement."""
    return statement([text(file, at) for at in range(line, line + LONGEST)])


def function_above(file: str, line: int, text: Text) -> list[str]:
    """The lines of its function above a line, with its decorators. Of a long function, the last ones."""
    found: list[str] = []
    deep, in_head = indent_of(text(file, line)), False
    for at in range(line - 1, max(0, line - _FAR), -1):
        one = text(file, at).rstrip()
        if in_head and not one.lstrip().startswith("@"):
            break
        found.append(one)
        in_head = in_head or (_DEF.match(one) is not None and indent_of(one) < deep)
    return found[::-1]


def function_below(file: str, line: int, above: Sequence[str], text: Text) -> list[str]:
    """The lines of its function below a line. `above` begins with the function's head."""
    found: list[str] = []
    head = min((indent_of(one) for one in above if one), default=0)
    for at in range(line + 1, line + _FAR):
        one = text(file, at)
        if not one or (one.strip() and indent_of(one) <= head):
            break
        found.append(one.rstrip())
    return found


def body_around(file: str, line: int, text: Text) -> list[str]:
    """The innermost loop that a line is in, with its head; nothing if it is in no loop that is seen."""
    head, depth = line, indent_of(text(file, line))
    if not LOOP.match(text(file, line)):
        for head in range(line - 1, max(0, line - _FAR), -1):
            one = text(file, head)
            if one.strip() and indent_of(one) < depth:
                depth = indent_of(one)
                if LOOP.match(one) or _DEF.match(one):
                    break
    if not LOOP.match(text(file, head)):
        return []
    body = [text(file, head)]
    for at in range(head + 1, head + _FAR):
        one = text(file, at)
        if not one or (one.strip() and indent_of(one) <= depth):
            break
        body.append(one.rstrip())
    return body


def giving(file: str, text: Text) -> list[tuple[str, bool]]:
    """The statements of a file that give a name its value, each in one line, and whether it is inside something."""
    found = []
    for at in range(1, _LONG):
        one = text(file, at)
        if not one:
            break
        if GIVES.match(one):
            whole = statement([one, *(text(file, at + more) for more in range(1, LONGEST))])
            found.append((whole, indent_of(one) > 0))
    return found


def of_module(statements: Iterable[tuple[str, bool]]) -> dict[str, str]:
    """What such statements give a name outside of functions and classes, of names that get a value once."""
    found: dict[str, list[str]] = {}
    for one, inside in statements:
        if (gives := GIVES.match(one)) is not None:
            for name in re.split(r"\s*,\s*", gives[1]):
                found.setdefault(name, []).append("" if inside or name != gives[1] else gives[2])
    return {name: its[0] for name, its in found.items() if len(its) == 1 and its[0]}
