"""Finds the line in which most of a loop's own work on batches is, and what is known to be faster there.

Such a loop has no dataset, so only what holds in any code is told. Pure, but for source text.
"""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Iterable

from pipebench.results.drilled import DrilledLine
from pipebench.watch.read.drilled import Text, with_known
from pipebench.watch.read.in_loop import FEWEST
from pipebench.watch.read.known_lines import Line
from pipebench.watch.read.known_table import KNOWN, NESTED
from pipebench.watch.record.trial_lines import LineLooks

_KNOWN, _MOST = 0.3, 0.5  # of the looks: a line that is known to be slow, and one that is named
_LIBRARIES = ("numpy", "scipy", "PIL", "cv2", "pandas", "sklearn", "skimage", "torch")
# title -> what is said of it there
_ALONE = {one.title: one.alone or one.how for one in (NESTED, *KNOWN) if one.alone or one.anywhere}


def slow_line(lines: Iterable[LineLooks], text: Text = linecache.getline) -> dict[str, str | int | float]:
    """The line and its share, as values of a cause, with what is written in its place, if that is known.

    None if looks are too few, or found no line of the kind.
    """
    counts = Counter[tuple[str, str, int, str]]()
    for one in lines:
        counts[one.file, one.function, one.line, one.calls] += one.looks
    looks = sum(counts.values())
    if looks < FEWEST:
        return {}
    for place, count in counts.most_common():
        if count < _KNOWN * looks:
            break
        if (title := _known(place, text)) in _ALONE:
            return _values(place, count / looks) | {"title": title, "how": " ".join(_ALONE[title])}
    by_line = Counter[tuple[str, str, int]]()
    for place, count in counts.items():
        by_line[place[:3]] += count
    most, count = by_line.most_common(1)[0]
    return _values(most, count / looks) if count >= _MOST * looks else {}


def _known(place: tuple[str, str, int, str], text: Text) -> str:
    file, function, line, calls = place
    of = calls.partition(".")[0]
    calls = calls if "." in calls and (of in _LIBRARIES or of in sys.stdlib_module_names) else ""  # else it is in C
    found = DrilledLine(file, function, line, calls, "", 1, 1.0, 1.0, 1.0)
    return with_known(found, Line("", "", "", "", "loop"), text).title


def _values(place: tuple[str, ...] | tuple[object, ...], share: float) -> dict[str, str | int | float]:
    file, function, line, *_ = place
    return {"slow_file": str(file), "slow_function": str(function), "slow_line": int(str(line)), "line_share": share}
