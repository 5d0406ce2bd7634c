"""Finds the line in which a sampler spends its time, and what is known to be faster. Pure, but for source text."""

from __future__ import annotations

import linecache
import re
from collections import Counter

from pipebench.results.drilled import DrilledLine, values_of
from pipebench.watch.read.drilled import with_known
from pipebench.watch.read.in_loop import as_values
from pipebench.watch.read.known_lines import Line
from pipebench.watch.read.known_row import Known
from pipebench.watch.read.known_table import GROUPS, OF_INDICES
from pipebench.watch.read.line_runs import Counts, Place, counts_of
from pipebench.watch.read.lines_around import Text, function_above
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.trial_lines import LineLooks

_FEWEST = 10  # looks at a sampler: fewer tell no line
_OF_INDEX = 8  # runs for each index that is drawn
_COMPARES = re.compile(r"[^=!<>][=!]=[^=]")
_IN_SAMPLERS = (("for each sample", "for each index"), ("dataset is made", "sampler is made"), ("a sample has", "take"))


def line_of_sampler(seen: Seen, loader: int, text: Text = linecache.getline) -> dict[str, str | int | float]:
    """The line of the script in which half of the looks at a sampler found it, as values of a cause; none without one.

    It is the innermost of the script, as in a function that the sampler calls. What is written in its place is told, if
    that is known by its text, or by how often it runs for each index.
    """
    found, called = Counter[LineLooks](), Counter[LineLooks]()
    for one in (one for line in seen.run.looks(loader) for one in line.drawn):
        found[one._replace(looks=0, calls="")] += one.looks
        called[one._replace(looks=0)] += one.looks
    most, looks = max(found.items(), key=lambda one: one[1], default=(LineLooks("", "", 0, "", 0), 0))
    if looks < _FEWEST or 2 * looks < found.total():
        return {}
    counts = counts_of(seen.run, loader)
    runs = values_of(counts.of["iteration"].get(Place(most.file, most.line)))
    values = as_values(most.file, most.line, most.function)
    calls = max((one for one in called if one._replace(calls="") == most), key=lambda one: called[one])
    if (known := _known(calls, counts, text)) is None:
        return values
    how = " ".join(known.alone or known.how)
    for of_dataset, of_sampler in _IN_SAMPLERS:
        how = how.replace(of_dataset, of_sampler)
    place: dict[str, str | int | float] = {
        "slow_file": most.file, "slow_function": most.function, "slow_line": most.line,
        "line_share": looks / found.total(), "title": known.title, "how": how,
    }  # fmt: skip
    return values | place | runs


def _known(one: LineLooks, counts: Counts, text: Text) -> Known | None:
    """What is written in place of a line of a sampler, if that is known."""
    line = DrilledLine(one.file, one.function, one.line, one.calls, "", 1, 1.0, 1.0, 1.0)
    for kind in ("getitem", "loop"):
        title = with_known(line, Line("", "", "", "", kind), text).title
        if title in OF_INDICES:
            return OF_INDICES[title]
    own = text(one.file, one.line)
    runs = counts.of["iteration"].get(Place(one.file, one.line))
    many = runs is not None and runs.times >= _OF_INDEX * counts.samples
    compares = any(map(_COMPARES.search, (own, *function_above(one.file, one.line, text))))
    return GROUPS if many and compares and counts.per_element(line, "iteration", own) else None
