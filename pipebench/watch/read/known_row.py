"""A row of the table of slow lines: how such a line is known, and what is written instead."""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """A line in which `pattern` is found, and how it is written instead.

    `calls` is what the line calls then, of a library in Python. Functions that are not of Python do not show in a look:
    where the line calls nothing that is seen, it must call no more than `most` functions that are not in `beside`
    (None: it must call what is in `calls`). `same`: it is only slow if the dataset does it for each sample, with what
    does not change. `in_loop`: only in a loop. `begins`: not where a loop follows in the function, which needs the
    line once. `listed`: only where the file makes a list or an array of the name in the pattern's first group. `cut`:
    only where a part of that name is taken below. `kinds`: only in rows of these kinds. `least_s`: only where it takes
    so many seconds of each sample. Not `sure`: the text does not tell enough to make it the next step.
    `where`: it is slow only where this holds, which neither the text nor looks tell, so no saving is counted on.
    In a loop that makes its batches itself, `alone` is said in place of `how`; what has none and does not hold
    `anywhere` is not told there. `draws`: it holds in samplers, too. `every`: only where
    each use of the pattern's first group below is this, which calls it NAME, and there is one. `near`: only where
    the line or one above it has this of that name. `twice`: only where the pattern is found of that name in its
    function once more.
    """

    pattern: re.Pattern[str]
    title: str
    how: tuple[str, ...]
    calls: str = ""
    most: int | None = 1
    beside: tuple[str, ...] = ()
    same: bool = False
    in_loop: bool = False
    begins: bool = False
    listed: bool = False
    cut: bool = False
    kinds: tuple[str, ...] = ()
    least_s: float = 0.0
    sure: bool = True
    alone: tuple[str, ...] = ()
    anywhere: bool = False
    draws: bool = False
    where: str = ""
    every: str = ""
    near: str = ""
    twice: bool = False
