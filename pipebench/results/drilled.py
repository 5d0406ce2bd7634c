"""The lines of the user's own code inside a row without names, as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

Sure: TypeAlias = Literal["", "about", "more than"]
What: TypeAlias = Literal["each", "arguments", "object", "before", "cut"]
"""What was needless: see `NeedlessCall`."""


@dataclass(frozen=True)
class NeedlessCall:
    """A function that did more than its samples needed, called at `line` of `file` (and at `several` others).

    It gave "each" of these `samples` the same, or did so for the same "arguments", or made an "object" with the same
    arguments for each; or `again` of its
    `calls` in them gave what one "before" had given to the same sample. Or a part is "cut" out of its result: that has
    `whole_bytes`, and the whole sample `kept_bytes`. It `saves` that part of what the function takes: `share` of the
    time in which batches are made (0: not known).
    """

    what: What
    function: str
    file: str
    line: int
    several: bool
    samples: int
    calls: int
    again: int
    whole_bytes: float
    kept_bytes: float
    saves: float
    share: float
    loader: int

    @property
    def told(self) -> tuple[str, str, str, int, bool, int, int, int, float, float]:
        """What a sentence on it needs, in the order of `units.did_needlessly`."""
        counts = self.samples, self.calls, self.again, self.whole_bytes, self.kept_bytes
        return self.what, self.function, self.file, self.line, self.several, *counts


@dataclass(frozen=True)
class Runs:
    """How many `times` a line runs in each "sample", "batch" or "iteration": the mean of those that were looked into.

    `sure`: "about" that, where they differed, or "more than" that, as there were too many lines to count all of them.
    `each_s` is the most that it takes each time, with what it calls: all that was counted then took so long, divided by
    its runs.
    """

    times: int
    per: Literal["sample", "batch", "iteration"]
    sure: Sure = ""
    each_s: float = 0.0

    @property
    def often(self) -> str:
        """
        >>> Runs(6000, "sample").often, Runs(19481, "iteration", "more than").often, Runs(108, "batch", "about").often
        ('runs 6,000 times a sample', 'runs more than 19,000 times an iteration', 'runs about 110 times a batch')
        """
        article = "an" if self.per == "iteration" else "a"
        times = f"{self.sure} {_two_digits(self.times):,}" if self.sure else f"{self.times:,}"
        return f"runs {times} times {article} {self.per}"


def _two_digits(times: int) -> int:
    """
    >>> _two_digits(19481), _two_digits(7)
    (19000, 7)
    """
    unit: int = 10 ** max(0, len(str(times)) - 2)
    return times // unit * unit


_READABLE = 0.25  # of the looks at a row, at least: of fewer, no more is said


def values_of(runs: Runs | None) -> dict[str, str | int | float]:
    """The runs of a line in an iteration, as the values of a cause; none if they are not known."""
    return {} if runs is None else {"runs": runs.times, "runs_sure": runs.sure}


def runs_of(values: Mapping[str, str | int | float]) -> Runs | None:
    """The same, from the values of a cause."""
    sure: Any = values.get("runs_sure", "")
    return Runs(int(values["runs"]), "iteration", sure) if "runs" in values else None


def sleeps(text: str) -> bool:
    """Whether this line of a program lets time pass by `sleep`: no other way to compute makes it faster.

    >>> sleeps("    time.sleep(0.03); y = x.sum()"), sleeps("sleeping = rows.sleep_stage")
    (True, False)
    """
    return re.search(r"\bsleep\(", text) is not None


@dataclass(frozen=True)
class DrilledLine:
    """A line of the user's own code inside a row that has no names, and its share of the row (0 to 1).

    `looks` of the row's looks at the stack found this line. The true share lies between `low` and `high` with a
    confidence of 95 %. `calls` is the library function that the line was calling ("": its own work, or a function
    in C), and `text` is the line itself. `line` is 0 for the other lines of the function together. `file` is empty for
    pipebench's own work in the row.

    If the line is known to be slow in other programs, `title` is what is written in its place, and `how` says how.
    `reread` is the file that it opens and reads anew, again and again ("": none that looks found). `runs` is how often
    it runs (None: not known, or fewer than three times). `needless` is what does more there than is needed.
    `at_lock` is the share of the line's looks in which the process waited in the kernel for the lock of a file (None:
    not known).
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
    runs: Runs | None = None
    needless: NeedlessCall | None = None
    at_lock: float | None = None

    @property
    def sleeps(self) -> bool:
        """Whether the line only lets time pass, as far as its text shows that."""
        return sleeps(self.text)

    @property
    def to_change(self) -> DrilledLine:
        """The line that is to be changed: of what is needless, the one that calls it."""
        if self.needless is None:
            return self
        return replace(self, function="", file=self.needless.file, line=self.needless.line, runs=None)


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

    @property
    def of_lines(self) -> float:
        """The row's share, by which that of a line is multiplied: looks that could not be read count as the others."""
        return self.worker_share / max(_READABLE, 1 - self.unread / max(1, self.looks))


class Known(NamedTuple):
    """What is written in place of some lines that are known to be slow: their whole share, and the largest of them.

    `alike`: there are others.
    """

    share: float
    most: DrilledLine
    alike: bool = False


def known(lines: Iterable[tuple[float, DrilledLine]]) -> list[Known]:
    """The lines that are known to be slow, by what is written in their place. Each comes with its share."""
    found: dict[str, list[tuple[float, DrilledLine]]] = {}
    for share, one in lines:
        if one.title:
            saves = one.needless.saves if one.needless is not None else 1.0
            found.setdefault(one.title, []).append((saves * share, one))
    return [
        Known(
            sum(share for share, _ in same),
            max(same, key=lambda one: one[0])[1],
            len({(one.file, one.line) for _, one in same}) > 1 and all(one.needless is None for _, one in same),
        )
        for same in found.values()
    ]
