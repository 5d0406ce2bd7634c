"""Finds the line in which most of a loop's own work is, and what is known to be faster there.

Such code has no dataset, so only what holds in any code is told. Pure, but for source text.
"""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Iterable, Mapping

from pipebench.results.drilled import DrilledLine, values_of
from pipebench.watch.read.drilled import with_known
from pipebench.watch.read.in_loop import FEWEST, Where
from pipebench.watch.read.known_arrays import NESTED
from pipebench.watch.read.known_elements import BY_COUNT, in_loop
from pipebench.watch.read.known_lines import Line
from pipebench.watch.read.known_operations import OPERATIONS
from pipebench.watch.read.known_table import KNOWN
from pipebench.watch.read.line_runs import NO_COUNTS, Counts, Place, counts_of
from pipebench.watch.read.lines_around import Text, statement_at
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.own_code import plain_name
from pipebench.watch.record.trial_lines import LineLooks

_KNOWN, _MOST = 0.3, 0.5  # of the looks: lines that are known to be slow by the same, and a line that is named
_SMALL = 0.05  # of the looks: lines that are not read
_LIBRARIES = ("numpy", "scipy", "PIL", "cv2", "pandas", "sklearn", "skimage", "torch")
# title -> what is said of it there
_EACH = (NESTED, *BY_COUNT, *KNOWN)
_OPERATIONS = frozenset(one.title for one in OPERATIONS)
_ALONE = {one.title: one.alone or one.how for one in _EACH if one.alone or one.anywhere}


def slow_line(
    lines: Iterable[LineLooks], counts: Counts = NO_COUNTS, text: Text = linecache.getline, *, of: int = 0
) -> dict[str, str | int | float]:
    """The line and its share, as values of a cause, with what is written in its place, if that is known.

    Then it is the largest of lines that are slow by the same, and the share is theirs. None if looks are too few, or
    found no line of the kind. Shares are `of` so many looks, if these are more than the lines have.
    """
    calls, whole = Counter[LineLooks](), Counter[LineLooks]()
    for one in lines:
        calls[one._replace(looks=0)] += one.looks
        whole[one._replace(looks=0, calls="")] += one.looks
    looks = max(whole.total(), of)
    if looks < FEWEST or not whole:
        return {}
    found: dict[str, list[tuple[LineLooks, int]]] = {}
    for one, count in calls.most_common():
        if count >= _SMALL * looks and (title := _known(one, text, counts)) in _ALONE:
            found.setdefault(title, []).append((one, count))
    sums = Counter({title: sum(count for _, count in same) for title, same in found.items()})
    for title, count in sums.most_common(1):
        if count >= _KNOWN * looks:
            line, _ = found[title][0]
            alike = {"slow_alike": 1} if len({each.line for each, _ in found[title]}) > 1 else {}
            return {**_values(line, count / looks, counts), **alike, "title": title, "how": " ".join(_ALONE[title])}
    most, count = whole.most_common(1)[0]
    return _values(most, count / looks, counts) if count >= _MOST * looks else {}


def is_slow_operation(one: LineLooks, text: Text = linecache.getline) -> bool:
    """Whether torch has an operation that does less than what this line does, by its text."""
    written = statement_at(one.file, one.line, text)
    if not any(each.pattern.search(written) for each in OPERATIONS):  # what is around it is long to read
        return False
    return _known(one, text, NO_COUNTS) in _OPERATIONS


def line_inside(seen: Seen, loader: int, values: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
    """The same of work in a loop besides waiting and training, inside the function of a place: see `as_values`.

    Without a function, it is in the loop itself, whose line is named already: then only what is known counts.
    """
    lines, name = seen.run.looks(loader), plain_name(str(values.get("function", "")))
    file, at_line = values.get("file"), values.get("line")
    places = (one for line in lines for one in line.places if one.early == one.after)
    looks = sum(one.looks for one in places if not name or name in map(plain_name, one.functions))
    besides = [one for line in lines for one in line.besides]
    own = next((one.function for one in besides if (one.file, one.line) == (file, at_line)), None)
    inside = (one for one in besides if one.function == (name or own))
    told = slow_line(inside, counts_of(seen.run, loader), of=looks)
    return told if name or "title" in told else {}


def line_before(seen: Seen, loader: int, where: Where) -> dict[str, str | int | float]:
    """The same of work before the model, inside the function that is named, and what that calls of the user's own.

    Without a function, it is that of all such work.
    """
    looked, name = seen.run.looks(loader), plain_name(where.function)
    lines = [one for line in looked for one in line.early_lines]
    if not name:
        return slow_line(lines, counts_of(seen.run, loader))
    places = [one for line in looked for one in line.places if one.early and not one.after]
    ways = [(one, [*map(plain_name, one.functions)]) for one in places]
    inside = {called for one, way in ways if name in way for called in way[way.index(name) : max(1, one.own)]}
    looks = sum(one.looks for one, way in ways if name in way)
    return slow_line((one for one in lines if one.function in inside), counts_of(seen.run, loader), of=looks)


def _known(one: LineLooks, text: Text, counts: Counts) -> str:
    """The title of what is known of a line, by its text or by how often it runs in an iteration; or ""."""
    library = one.calls.partition(".")[0]
    python = "." in one.calls and (library in _LIBRARIES or library in sys.stdlib_module_names)  # else it is in C
    line = DrilledLine(one.file, one.function, one.line, one.calls if python else "", "", 1, 1.0, 1.0, 1.0)
    title = with_known(line, Line("", "", "", "", "loop"), text).title
    if title in _ALONE or not counts.per_element(line, "iteration", text(one.file, one.line)):
        return title
    return in_loop(line, text).title


def _values(one: LineLooks, share: float, counts: Counts) -> dict[str, str | int | float]:
    runs = values_of(counts.of["iteration"].get(Place(one.file, one.line)))
    return {"slow_file": one.file, "slow_function": one.function, "slow_line": one.line, "line_share": share, **runs}
