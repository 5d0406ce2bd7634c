"""What is done once in a run, or between its loops: how long it takes, and where. Pure, but for source text."""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from pipebench.results.account import Cause
from pipebench.watch.read.gather import Run
from pipebench.watch.read.in_loop import FEWEST, between_loops
from pipebench.watch.read.lines_around import Text
from pipebench.watch.read.of_causes import MATTERS, Seen
from pipebench.watch.read.pass_causes import LARGE_ONCE, dataset_anew
from pipebench.watch.read.slow_line import slow_line
from pipebench.watch.record.own_code import WAITS
from pipebench.watch.record.program_lines import StartLooks
from pipebench.watch.record.trial_lines import LineLooks

Values = dict[str, str | int | float]
_LEAST_S = 1.0  # after the last loop: a process with torch takes half of it to end
_COVERED = 0.7  # of what comes before the first loop: looks that end sooner, as at a fork, do not stand for all
_LARGE = 0.3  # of the looks: a function that is named
_TOLD = 0.1  # of the looks: imports that are told beside it
_OF_CHILD = re.compile(r"\bos\.wait(?:pid|id|3|4)?\s*\(")
_PROCESSES = ("os.", "subprocess.", "multiprocessing.")


def once(seen: Seen) -> Iterable[Cause]:
    """What is done once in a run, or between its loops, if it is a large part of the run."""
    told = sum(one.s for one in dataset_anew(seen))
    large = {"large": 1} if not told and seen.s("outside-loops") >= LARGE_ONCE * seen.loops_s else {}
    if (between := seen.s("outside-loops") - told) >= MATTERS * seen.account.wall_s:
        yield Cause("outside-loops", between, values=between_loops(seen.run) | large)
    if (before := seen.s("interpreter", "before-loops")) >= LARGE_ONCE * seen.account.wall_s:
        values = before_first(seen.run, seen.s("before-loops"), before)
        saved = float(values["line_share"]) * before if "title" in values else None
        yield Cause("before-loops", before, saved, values=values)
    if (after := seen.s("after-loops", "exit")) >= max(_LEAST_S, LARGE_ONCE * seen.account.wall_s):
        yield Cause("after-loops", after, values=after_last(seen.run, seen.s("after-loops"), after))


def before_first(run: Run, recorded_s: float, whole_s: float, text: Text = linecache.getline) -> Values:
    """Where the time before the first loop went, as values of a cause; none if looks do not say it.

    The function that has most, with its share; that of `imports`; and the line of `slow_line`. Looks are of
    `recorded_s`, and shares of `whole_s`, in which Python and pipebench start, too.
    """
    found = _looks(run, recorded_s, after=False)
    if found is None:
        return {}
    looks = round(found.looks * whole_s / recorded_s)
    share = found.imports / looks
    values = _function(found.lines, looks, text) | slow_line(found.lines, text=text, of=looks)
    return values | ({"imports": share} if share >= _TOLD else {})


def after_last(run: Run, recorded_s: float, whole_s: float, text: Text = linecache.getline) -> Values:
    """Where the time after the last loop went, as `before_first`. The process ends after `recorded_s` of `whole_s`."""
    found = _looks(run, recorded_s, after=True)
    return {} if found is None else _function(found.lines, round(found.looks * whole_s / recorded_s), text)


def _looks(run: Run, recorded_s: float, after: bool) -> StartLooks | None:
    """The looks before the first loop, or after the last one; None if they are few, or of a small part of that time."""
    every = [one for process in run.of_script() for one in process.of(StartLooks) if one.after == after]
    found = next(iter(every), None)
    if found is None or found.looks < FEWEST or (found.end - found.begin) / 1e9 < _COVERED * recorded_s:
        return None
    return found


def _function(lines: Sequence[LineLooks], looks: int, text: Text) -> Values:
    """The function that has most of these lines, its share, the line in it that has most, and what that waits in."""
    functions = Counter[tuple[str, str]]()
    for one in lines:
        functions[one.file, one.function] += one.looks
    for (file, function), count in functions.most_common(1):
        if count < _LARGE * looks:
            return {}
        own = Counter[int]()
        for one in lines:
            own[one.line] += one.looks if (one.file, one.function) == (file, function) else 0
        line, most = own.most_common(1)[0]
        named = {"function": function} if function else {}
        waits = _waits([one for one in lines if (one.file, one.function, one.line) == (file, function, line)], text)
        return {"file": file, "line": line, **named, "share": count / looks, **(waits if 2 * most >= count else {})}
    return {}


def _waits(line: Sequence[LineLooks], text: Text) -> Values:
    """What these looks at one line wait in, where most of them do; `for_process`: for another process."""
    calls = Counter[str]()
    for one in line:
        calls[one.calls or _in_c(text(one.file, one.line))] += one.looks
    name, count = calls.most_common(1)[0]
    if 2 * count < calls.total() or name.partition(".")[0] not in (*WAITS, "os"):
        return {}
    return {"waits": name, **({"for_process": 1} if name.startswith(_PROCESSES) else {})}


def _in_c(text: str) -> str:
    """The wait for a child that a line calls, which is in C and leaves no frame; "" if its text has none."""
    found = _OF_CHILD.search(text)
    return found[0].rstrip("( ") if found else ""
