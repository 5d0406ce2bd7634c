"""Names the lines of the user's own code that do other work than layers before a backward. Pure.

They work in Python, keep a metric, or do an operation in place of which torch has one that does less. The clock takes
all of it for forward. Looks at the loop's stack find these lines. What they cost is known only where no device works
meanwhile. Where the script trains on no device, lines that wait are named, too.
"""

from __future__ import annotations

import linecache
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipebench.results.account import Cause
from pipebench.results.drilled import sleeps
from pipebench.watch.read.after_model import python_loops
from pipebench.watch.read.device_idle import in_waits
from pipebench.watch.read.gather import NO_LOADER, Run
from pipebench.watch.read.in_loop import FEWEST, enough, keeps_metric, on_host, words_of
from pipebench.watch.read.known_lines import IN_QUOTES
from pipebench.watch.read.line_runs import counts_of
from pipebench.watch.read.lines_around import Text
from pipebench.watch.read.of_causes import MATTERS, Seen
from pipebench.watch.read.prepared import FORWARDS, copies, late_share, looks_at_forward, prepared
from pipebench.watch.read.slow_line import is_slow_operation, slow_line
from pipebench.watch.record.own_code import WAITS
from pipebench.watch.record.trial_lines import LineLooks

CODE = "own-lines"
_PART = 0.15  # of the phase: a function that is named
_PART_OF_ALL = 0.05  # where no loader makes the batches, so that this phase holds that, too
_LEAST, _LEAST_OF_CAUSE = 5, 10  # looks
_ONE_LINE = 0.8  # of the looks at a function: else its lines are told from the first to the last one
_TRAINS = frozenset({
    "loss", "losses", "criterion", "forward", "net", "network", "model", "layer", "head", "learner", "learn", "train",
    "trainer", "training", "step", "epoch", "fit", "run", "runner", "loop", "main",
})  # fmt: skip
_OF_METRIC = ("update", "compute", "add", "result", "evaluate")
_LARGE = 0.3  # of the looks at forward: a line with an operation of torch that is named
_OPERATIONS = re.compile(r"\b((?:F|torch|nn\.functional)\.(?:\w+\.)*\w+)\(")
_CALLS = re.compile(r"([A-Za-z_]\w*)\s*\(")
_VIEWS = frozenset({
    "view", "reshape", "flatten", "size", "dim", "squeeze", "unsqueeze", "transpose", "permute", "contiguous", "detach",
    "len", "int", "range", "float", "long", "to",
})  # fmt: skip
_MOST = 3  # functions, which must be in one file


class OwnLines(NamedTuple):
    """A function of the user's own, its lines besides layers, what they call, and their share of the phase.

    `sleeps`: most looks found them while they let time pass, which is no work.
    """

    file: str
    function: str
    first: int
    last: int
    calls: str
    looks: int
    share: float
    sleeps: bool = False


def own_lines(run: Run, loader: int, text: Text = linecache.getline) -> list[OwnLines]:
    """What looks at the loop of a loader found, the largest first; none if they are too few to say it."""
    lines = run.looks(loader)
    looks = looks_at_forward(lines)
    told = prepared(run, loader)
    late = late_share(run, loader) if loader == NO_LOADER else 0.0
    rest = looks * (1 - late - (told.share if told is not None else 0.0))  # the others have rows of their own
    if not enough(lines, looks) or rest < FEWEST:
        return []
    by_function: dict[tuple[str, str | int], list[LineLooks]] = {}
    waits = on_host(lines)  # for no device
    part = _PART_OF_ALL if waits and loader == NO_LOADER else _PART
    for one in (one for one in _besides_layers(run, loader, text) if waits or not _in_waits(one)):
        by_function.setdefault((one.file, one.function or one.line), []).append(one)
    found = (_of_function(same, rest)._replace(sleeps=_sleep(same, text)) for same in by_function.values())
    large = [one for one in found if one.looks >= _LEAST and one.share >= part]
    return sorted(large, key=lambda one: -one.looks)


def _besides_layers(run: Run, loader: int, text: Text = linecache.getline) -> list[LineLooks]:
    """All lines that work in Python, and those of other work besides layers, of each look one."""
    lines, counts = run.looks(loader), counts_of(run, loader)
    models = [one for line in lines for one in line.models_in if _is_metric(one.function)]
    inside = {(one.file, one.function) for one in models}
    told = Counter[LineLooks]()
    for one in (one for line in lines for one in line.forward_lines):
        told[one._replace(looks=0)] += one.looks
    least = _PART_OF_ALL * looks_at_forward(lines)
    other = {
        one
        for one, looks in told.items()
        if _is_metric(one.function)
        or (looks >= least and (counts.only_python(one.file, one.line) or is_slow_operation(one, text)))
    }
    other = {one for one in other if (one.file, one.function) not in inside}
    found = [one for line in lines for one in line.forward_lines if one._replace(looks=0) in other]
    at = {(one.file, one.line) for one in other}
    python = [one for line in lines for one in line.lines if (one.file, one.function) not in inside]
    return models + found + [one for one in python if (one.file, one.line) not in at]


def _is_metric(function: str) -> bool:
    """Whether a function keeps a metric by its name. "score" alone may be one of attention, or a model's."""
    if not keeps_metric(function) or not _TRAINS.isdisjoint(words_of(function)):
        return False
    rest = re.sub("(?i)scores?", "", function)
    return keeps_metric(rest) or function.rpartition(".")[2] in _OF_METRIC


def _in_models(run: Run, loader: int, found: OwnLines) -> bool:
    """Whether a function is named because a model runs there, for a metric."""
    if not _is_metric(found.function):
        return False
    called = (one for line in run.looks(loader) for one in line.models_in)
    return any((one.file, one.line, one.function) == (found.file, found.first, found.function) for one in called)


def _sleep(same: Sequence[LineLooks], text: Text) -> bool:
    idle = (one for one in same if one.calls == "time.sleep" or _in_waits(one) or sleeps(text(one.file, one.line)))
    return 2 * sum(one.looks for one in idle) > sum(one.looks for one in same)


def _in_waits(one: LineLooks) -> bool:
    """Whether a line waits in a module for that."""
    return one.calls.partition(".")[0] in WAITS and "." in one.calls


def _of_function(same: Sequence[LineLooks], rest: float) -> OwnLines:
    by_line, looks = Counter[int](), sum(one.looks for one in same)
    for one in same:
        by_line[one.line] += one.looks
    line, most = by_line.most_common(1)[0]
    file, function, share = same[0].file, same[0].function, min(1.0, looks / rest)
    if most < _ONE_LINE * looks:
        return OwnLines(file, function, min(by_line), max(by_line), "", looks, share)
    calls = Counter[str]()
    for one in same:
        calls[one.calls] += one.looks * (one.line == line)
    called, times = calls.most_common(1)[0]
    return OwnLines(file, function, line, line, called if 2 * times > most else "", looks, share)


def alone(seen: Seen, loader: int) -> bool:
    """Whether no device works beside the host: then what a line takes, the loop takes."""
    return not (seen.on_device or copies(seen.run, loader) or in_waits(seen.run.turns(loader)) is not None)


def in_python(seen: Seen) -> Iterable[Cause]:
    """Such lines, as far as looks are certain. Python loops are a cause by themselves.

    So are its waits there, where the script trains on no device.

    A saving is at most all of it.
    """
    told = {one.loader for one in python_loops(seen)}
    for one in seen.in_loop:
        waits = on_host(seen.run.looks(one.loader))
        found = [line for line in _found(seen, one.loader) if waits or not line.sleeps]
        found = [line for line in found if line.sleeps == found[0].sleeps]  # the remedies differ
        share, looks = sum(line.share for line in found), sum(line.looks for line in found)
        whole_s = seen.forward_s(one.loader)
        if one.loader not in told and looks >= _LEAST_OF_CAUSE and seen.matters(whole_s, share, looks):
            values = _values(found, one.loader) | _known(seen.run, one.loader, found)
            values |= {"metric": 1} if _is_metric(found[0].function) else {}
            values |= {"models": 1} if _in_models(seen.run, one.loader, found[0]) else {}
            values |= {"rests": 1} if found[0].sleeps else {}
            yield Cause(CODE, share * whole_s, share * whole_s, one.loader, values)


def seen_in_forward(seen: Seen) -> dict[str, str | int | float]:
    """These lines as values of the cause that training itself is; none if they are a small part of it.

    Without any, the line of forward with most looks counts, if it calls an operation of torch by its name.
    """
    training = [one.loader for one in seen.in_loop if one.training]
    if len(training) != 1:
        return {}
    found = _found(seen, training[0]) or _operation(seen, training[0])
    spent = sum(line.share for line in found) * seen.forward_s(training[0])
    return _values(found, training[0]) if spent >= MATTERS * seen.loops_s > 0 else {}


def _operation(seen: Seen, loader: int, text: Text = linecache.getline) -> list[OwnLines]:
    lines = seen.run.looks(loader)
    looks, at = looks_at_forward(lines), Counter[LineLooks]()
    if not alone(seen, loader) or seen.s("spans", loader=loader) or not enough(lines, looks):
        return []
    for one in (one for line in lines for one in line.forward_lines):
        at[one._replace(looks=0, calls="")] += one.looks
    for one, count in at.most_common(1):
        written = text(one.file, one.line)
        named = _OPERATIONS.findall(written)
        if len(named) == 1 and _calls_only(named[0], written) and count >= max(_LEAST_OF_CAUSE, _LARGE * looks):
            return [OwnLines(one.file, one.function, one.line, one.line, named[0], count, min(1.0, count / looks))]
    return []


def _calls_only(operation: str, written: str) -> bool:
    """Whether a line calls this operation, and else what takes no time: another call may be the model's."""
    called = _CALLS.findall(IN_QUOTES.sub("''", written.partition("#")[0]))
    return set(called) - {operation.rpartition(".")[2]} <= _VIEWS


def _found(seen: Seen, loader: int) -> list[OwnLines]:
    """The lines that are named. Functions of `--span` have a row of their own, and looks do not tell them apart."""
    if not alone(seen, loader) or seen.s("spans", loader=loader):
        return []
    found = own_lines(seen.run, loader)
    return [one for one in found if one.file == found[0].file][:_MOST]


def _known(run: Run, loader: int, found: Sequence[OwnLines]) -> dict[str, str | int | float]:
    """What is written in place of a line of these functions, if that is known, as values of a cause."""
    named = {one.function for one in found}
    lines = [one for one in _besides_layers(run, loader) if one.function in named]
    slow = slow_line(lines, counts_of(run, loader))
    return slow if "title" in slow else {}


def _values(found: Sequence[OwnLines], loader: int) -> dict[str, str | int | float]:
    """Of the second and the third function, the names have a 2 and a 3 at their end."""
    values: dict[str, str | int | float] = {"phase_of_lines": FORWARDS[loader == NO_LOADER]} if found else {}
    for one, end in zip(found, ("", "2", "3"), strict=False):
        values |= {f"line{end}": one.first, f"last{end}": one.last, f"share{end}": one.share, "file": one.file}
        values |= {f"function{end}": one.function} if one.function else {}
        values |= {f"calls{end}": one.calls} if one.calls else {}
    return values
