"""Finds the line in which a sampler spends its time, and what is known to be faster. Pure, but for source text."""

from __future__ import annotations

import linecache
from collections import Counter

from pipebench.results.drilled import DrilledLine
from pipebench.watch.read.drilled import with_known
from pipebench.watch.read.in_loop import as_values
from pipebench.watch.read.known_lines import Line
from pipebench.watch.read.known_row import Known
from pipebench.watch.read.known_table import GROUPS, OF_INDICES
from pipebench.watch.read.line_runs import Place, per_element
from pipebench.watch.read.lines_around import Text
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.slow_line import Iteration, an_iteration
from pipebench.watch.record.trial_lines import LineLooks

_FEWEST = 10  # looks at a sampler: fewer tell no line
_IN_SAMPLERS = (("for each sample", "for each index"), ("dataset is made", "sampler is made"), ("a sample has", "take"))


def line_of_sampler(
    seen: Seen, loader: int, spent_s: float, text: Text = linecache.getline
) -> dict[str, str | int | float]:
    """The line of the script in which half of the looks at a sampler found it, as values of a cause; none without one.

    It is the innermost of the script, as in a function that the sampler calls. What is written in its place is told, if
    that is known by its text, or by how often it runs in an iteration. The sampler took `spent_s` of the run.
    """
    found, called = Counter[LineLooks](), Counter[LineLooks]()
    for one in (one for line in seen.run.looks(loader) for one in line.drawn):
        found[one._replace(looks=0, calls="")] += one.looks
        called[one._replace(looks=0)] += one.looks
    most, looks = max(found.items(), key=lambda one: one[1], default=(LineLooks("", "", 0, "", 0), 0))
    if looks < _FEWEST or 2 * looks < found.total():
        return {}
    share, its = looks / found.total(), an_iteration(seen, loader, spent_s)
    values = as_values(most.file, most.line, most.function)
    calls = max((one for one in called if one._replace(calls="") == most), key=lambda one: called[one])
    if (known := _known(calls, share, its, text)) is None:
        return values
    how = " ".join(known.how)
    for of_dataset, of_sampler in _IN_SAMPLERS:
        how = how.replace(of_dataset, of_sampler)
    runs = its.runs.get(Place(most.file, most.line))
    often = {"runs": runs.times, "runs_least": int(runs.least)} if runs is not None else {}
    place = {f"slow_{name}": values.get(name, "") for name in ("file", "function", "line")}
    return {**values, **place, "line_share": share, "title": known.title, "how": how, **often}


def _known(one: LineLooks, share: float, its: Iteration, text: Text) -> Known | None:
    """What is written in place of a line of a sampler, if that is known."""
    for kind in ("getitem", "loop"):
        line = DrilledLine(one.file, one.function, one.line, one.calls, "", 1, 1.0, 1.0, 1.0)
        title = with_known(line, Line("", "", "", "", kind), text).title
        if title in OF_INDICES:
            return OF_INDICES[title]
    return GROUPS if per_element(its.runs.get(Place(one.file, one.line)), share * its.took_s) else None
