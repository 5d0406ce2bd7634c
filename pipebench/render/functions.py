"""The functions that were timed in one process, such as those of tests: a row for each. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pipebench.render.cells import Table, gain, spread
from pipebench.results.measurement import Measurement
from pipebench.units import printable, seconds


def table(measurements: Sequence[Measurement]) -> Table:
    """What a call costs. Where a task has several functions, the speed-up is over its first.

    The rows do different things, so each has a unit of its own.
    """
    compared = {task for task, count in Counter(one.task for one in measurements).items() if count > 1}
    rows = []
    for one in measurements:
        name = f"{_test(one)} {printable(one.variant)}" if one.task in compared else _test(one)
        cost = (seconds(one.summary.median_s), spread(one.summary)) if one.summary else ("", "")
        rows.append((name, *cost, *([gain(one.over_reference) if one.task in compared else ""] if compared else [])))
    headers = ("test", "a call", "", *(["speed-up"] if compared else []))
    notes = tuple(_notes(measurements, bool(compared)))
    return Table("Functions of the tests", headers, tuple(rows), frozenset(range(1, len(headers))), notes)


def _test(one: Measurement) -> str:
    """The name of the test: its task without the stage."""
    return printable(one.task.partition("/")[2])


def _notes(measurements: Sequence[Measurement], compared: bool) -> Iterator[str]:
    if compared:
        yield "speed-up: time of the test's first function / time of this one; above 1 it is faster."
    for one in measurements:
        if one.failed:
            yield f"{_test(one)} {printable(one.variant)}: failed: {printable(one.failed)}"
    warned = [(warning, _test(one)) for one in measurements for warning in one.warnings]
    for code in dict.fromkeys(warning.code for warning, _ in warned):
        found = [pair for pair in warned if pair[0].code == code]
        worst, name = max(found, key=lambda pair: pair[0].severity)
        rest = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield f"{name}: {printable(worst.problem)}{rest}"
