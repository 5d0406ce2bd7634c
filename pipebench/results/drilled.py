"""The lines of the user's own code inside a row without names, as plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DrilledLine:
    """A line of the user's own code inside a row that has no names, and its share of the row (0 to 1).

    `looks` of the row's looks at the stack found this line. The true share lies between `low` and `high` with a
    confidence of 95 %. `calls` is the library function that the line was calling ("": its own work, or a function
    in C), and `text` is the line itself. `line` is 0 for the other lines of the function together. `file` is empty for
    pipebench's own work in the row.

    If the line is known to be slow in other programs, `title` is what is written in its place, and `how` says how.
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
