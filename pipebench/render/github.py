"""Annotations of a comparison for GitHub: lines that a workflow prints, and GitHub shows beside the code. Pure.

The form is that of workflow commands: `::warning file=…,line=…,title=…::message`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pipebench.render import same_work
from pipebench.results.comparison import FAILED, SLOWER, Change, Comparison
from pipebench.stats import Speedup
from pipebench.units import percent, printable

MOST = 10  # annotations of one kind that GitHub shows of a step


def commands(found: Comparison, places: Mapping[str, tuple[str, int]]) -> list[str]:
    """One annotation for each benchmark that became slower, that fails the gate, that failed, or whose output changed.

    The slowest is the first. `places` has the file and the line of a benchmark, where they are known. What fails the
    gate is an error.
    """
    worst = sorted(found.changes, key=lambda one: one.judgement.head_over_base.speedup if one.judgement else 0.0)
    return [line for kind in ("error", "warning") for line in _of_kind(kind, found, worst, places)]


def _of_kind(
    kind: str, found: Comparison, changes: list[Change], places: Mapping[str, tuple[str, int]]
) -> Iterator[str]:
    told = [one for one in changes if one.verdict in (SLOWER, FAILED) or _changed(one, found)]
    chosen = [one for one in told if _kind(one, found) == kind]
    room = MOST if len(chosen) <= MOST else MOST - 1
    for one in chosen[:room]:
        file, line = places.get(one.benchmark, ("", 0))
        place = f"file={_property(file)},line={line}," if file else ""
        yield f"::{kind} {place}title={_property(printable(one.benchmark))}::{_data(_message(one, found))}"
    if rest := chosen[room:]:
        names = ", ".join(printable(one.benchmark) for one in rest)
        yield f"::{kind} title=pipebench::{_data(f'and {len(rest)} more: {names}')}"


def _kind(one: Change, found: Comparison) -> str:
    fails = one.benchmark in found.exceeding or (found.fail_on_change and one.changed)
    return "error" if fails else "warning"


def _changed(one: Change, found: Comparison) -> bool:
    return one.changed and not found.allow_changed


def _message(one: Change, found: Comparison) -> str:
    if one.judgement is None:
        return f"failed: {printable(one.failed or '')}"
    other = same_work.notes(one.outputs) if one.outputs and _changed(one, found) else []
    return "; ".join([*([_slower(one.judgement.head_over_base, found)] if one.verdict == SLOWER else []), *other])


def _slower(over: Speedup, found: Comparison) -> str:
    longer, least, most = (percent(1 / speedup - 1, 1) for speedup in (over.speedup, over.high, over.low))
    limit = f"; the limit is {percent(found.fail_above, 1)}" if found.fail_above is not None else ""
    return f"takes {longer} longer ({least} to {most}) than in {printable(found.base)}{limit}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
