"""The lines of the user's own code inside a row without names, as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class DrilledLine:
    """A line of the user's own code inside a row that has no names, and its share of the row (0 to 1).

    `looks` of the row's looks at the stack found this line. The true share lies between `low` and `high` with a
    confidence of 95 %. `calls` is the library function that the line was calling ("": its own work, or a function
    in C), and `text` is the line itself. `line` is 0 for the other lines of the function together. `file` is empty for
    pipebench's own work in the row.

    If the line is known to be slow in other programs, `title` is what is written in its place, and `how` says how.
    `reread` is the file that it opens and reads anew, again and again ("": none that looks found).
    """

    file: str
    function: str
    line: int
    calls: str
    text: str
    looks: int
    share: float
    low: float
    high: float
    title: str = ""
    how: tuple[str, ...] = ()
    reread: str = ""


@dataclass(frozen=True)
class DrilledRow:
    """A row of the user's own code, such as `__getitem__`, and the lines in which its time is spent.

    `looks` is how often its stack was looked at, at random moments, from outside. In `unread` of them the stack changed
    while it was read, so no line is known. `worker_share` is the row's share of the time in which workers were busy.
    """

    loader: int
    stage: str
    kind: str
    worker_share: float
    looks: int
    unread: int
    lines: tuple[DrilledLine, ...]


class Known(NamedTuple):
    """What is written in place of some lines that are known to be slow: their whole share, and the largest of them."""

    share: float
    most: DrilledLine


def known(lines: Iterable[tuple[float, DrilledLine]]) -> list[Known]:
    """The lines that are known to be slow, by what is written in their place. Each comes with its share."""
    found: dict[str, list[tuple[float, DrilledLine]]] = {}
    for share, one in lines:
        if one.title:
            found.setdefault(one.title, []).append((share, one))
    return [Known(sum(share for share, _ in same), max(same, key=lambda one: one[0])[1]) for same in found.values()]
