"""Renders two reports held against each other: the verdict, what differs besides, the rows, the notes. Pure."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from pipebench.render import watch_account
from pipebench.render.before_after_rows import by_size, least_told, name_of, times, told_of, value_of, with_gain
from pipebench.render.cells import Table, gain, rounded, when
from pipebench.render.layout import Line, Part, Spare, Sparing, shortened
from pipebench.render.watch_notes import sentence
from pipebench.results.before_after import (
    CPU,
    FEWER,
    MORE,
    NO_FLOOR,
    SAME,
    UNJUDGED,
    BeforeAfter,
    Differing,
    Floor,
    Row,
    Side,
)
from pipebench.results.comparison import (
    FASTER,
    GATE_FAILED,
    NO_RESULT,
    NOT_TOLD,
    SLOWER,
)
from pipebench.stats import Speedup
from pipebench.units import counted, listed, percent, printable, seconds, seconds_scale

_FEW, _FEW_WATCHED = 12, 5  # rows of a short report
_PARTS = 4  # of an account in a short report
_NAME = 44  # columns
_ONLY = 3  # names of rows that one report has alone
_DIFFERING = 8
_WATCHED = ("watch", "command", "advise")
_ACCOUNT = "account"
_NOTHING = 1e-6  # seconds
_SMALLEST = 1e-3  # of the longer run: smaller rows of the account are one
_BUSY = 1.05  # others that could make less than that are not mentioned


def parts(found: BeforeAfter, *, full: bool = False) -> list[Sparing]:
    """The comparison in at most 30 lines of 80 columns; `full` adds every row."""
    made: list[Sparing] = [Line(verdict(found), "bold"), *_sides(found), *_differing(found, full)]
    if found.kind in _WATCHED:
        made += _account(found, full)
    shown = _shown(found, full)
    made += [_table(shown)] if shown else []
    return [*made, "", *_below(found, shown, full)]


def verdict(found: BeforeAfter) -> str:
    """What changed, in a sentence. Before it: a run that is not whole, what is not alike, and what fails the gate."""
    early = f"{_early(found)}. " if found.partial else ""
    apart = "Not of the same machine, workload or data. " if found.forced else ""
    lost = f"Failed in the head: {listed([printable(one) for one in found.failed])}. " if found.failed else ""
    return f"{early}{apart}{_over(found)}{lost}{_OF_KIND.get(found.kind, _of_rows)(found)}{_beside(found)}"


def _early(found: BeforeAfter) -> str:
    return "Both runs ended early" if len(found.partial) > 1 else f"The run of the {found.partial[0]} ended early"


def _beside(found: BeforeAfter) -> str:
    """The rows that are slower for certain although no gate is about them."""
    slower = [f"{name_of(one)} {times(one)}" for one in by_size(found.beside)]
    what = "Slower for certain" if found.fail_above is None else "Slower for certain, and not in the gate"
    said = f" {what}: {listed(slower, '; ')}." if slower else ""
    less = [one for one in by_size(found.rows) if one.group == "remedies" and one.verdict == SLOWER]
    gains = [f"{one.name} {value_of(one, one.base)} → {value_of(one, one.head)}" for one in less]
    return f"{said} Gains less for certain: {printable(listed(gains))}." if less else said


def _over(found: BeforeAfter) -> str:
    """What fails the gate, with its figures."""
    if found.gate != GATE_FAILED:
        return ""
    rows = [one for one in by_size(found.rows) if f"{one.group}: {one.name}" in found.exceeding]
    limit, said = percent(found.fail_above or 0.0, 1), ""
    for what, counts in ((f"More than {limit} slower", False), (f"More by over {limit}", True)):
        over = [with_gain(one) for one in rows if (one.unit == "count") is counts]
        said += f"{what}: {listed(over, '; ')}. " if over else ""
    return said


_CHANGED = (("slower", SLOWER), ("more", MORE), ("faster", FASTER), ("fewer", FEWER))


def _of_rows(found: BeforeAfter) -> str:
    gated = [one for one in found.rows if one.gated]
    fails = set(found.exceeding)
    rows = [one for one in by_size(gated) if f"{one.group}: {one.name}" not in fails]
    changed = [(word, [with_gain(one) for one in rows if one.verdict == verdict]) for word, verdict in _CHANGED]
    words = "; ".join(f"{word}: {listed(those)}" for word, those in changed if those)
    if not words and not fails and any(one.verdict == NO_FLOOR for one in gated):
        return f"Whether anything changed cannot be told: {_no_floor()}."
    said = [f"{words[:1].upper()}{words[1:]}."] if words else []
    if untold := sum(one.verdict == NOT_TOLD for one in gated):
        said.append(f"No difference that can be told in {counted(untold, 'other row' if words or fails else 'row')}.")
    if same := sum(one.verdict == SAME for one in gated):
        said.append(f"{counted(same, 'count')} {'is' if same == 1 else 'are'} the same.")
    return " ".join(said) or "Nothing in these reports can be judged."


def _no_floor() -> str:
    return "no earlier run says how far two runs here are apart, and there are too few rows to see it"


def _of_watch(found: BeforeAfter) -> str:
    said = []
    if found.wait is not None:
        shares = f"{percent(found.wait[0])} → {percent(found.wait[1])} of an iteration"
        said.append(f"wait {shares}" if found.wait_told else f"wait ~ ({shares})")
    rates = [one for one in found.rows if one.group == "loop" and one.judgement is not None]
    main = next((one for one in rates if one.gated), next(iter(rates), None))
    if main is not None and main.judgement is not None:
        over = main.judgement.head_over_base
        said += [f"{gain(over)} samples/s"] if main.judgement.told else [f"samples/s {_untold(over)}"]
        said += [f"{name_of(one)} {times(one)}" for one in rates if one is not main and _is_slower(one)]
        said += _by_cpu(found, main.judgement.told)
    said += [
        f"{one.name} {percent(one.base)} → {percent(one.head)}"
        for one in found.rows
        if one.group == "ranks" and one.unit == "share"
    ]
    whole = next((one for one in found.rows if one.group == "run"), None)
    if whole is not None and main is None:
        said.append(f"run {seconds(whole.base)} → {seconds(whole.head)}")
    changed = [_change(one) for one in found.differing if one.of == "settings"]
    text = "; ".join([*(said or ["nothing of the loops can be compared"]), *_what_changed(changed)])
    return f"{text[:1].upper()}{text[1:]}."


def _what_changed(changed: Sequence[str]) -> Iterator[str]:
    if changed:
        yield f"what changed: {', '.join(changed)}"


def _is_slower(one: Row) -> bool:
    return one.gated and one.verdict == SLOWER


def _by_cpu(found: BeforeAfter, told: bool) -> Iterator[str]:
    """What is left to say where the rate is not `told`, because others had the cores; and what became slower."""
    rows = [one for one in found.rows if one.name.startswith(CPU) and one not in found.beside]
    for one in rows:
        judged = one.judgement
        if judged is not None and judged.told and (_is_slower(one) or (one.name == CPU and not told)):
            yield f"loading by {one.name} {gain(judged.head_over_base)}"


def _untold(over: Speedup) -> str:
    return f"~ ({rounded(over)}; less than {least_told(over)} cannot be told)"


def _of_syncs(found: BeforeAfter) -> str:
    whole = found.rows[0]
    return f"Sync points a step: {whole.base:g} → {whole.head:g}."


def _of_calibration(found: BeforeAfter) -> str:
    said = [f"{printable(one.name)} {value_of(one, one.base)} → {value_of(one, one.head)}" for one in found.rows[:2]]
    return f"Calibrated twice: {', '.join(said)}."


_OF_KIND: dict[str, Callable[[BeforeAfter], str]] = {
    **dict.fromkeys(_WATCHED, _of_watch), "syncs": _of_syncs, "calibrate": _of_calibration,
}  # fmt: skip


def _sides(found: BeforeAfter) -> Iterator[Part]:
    one_host = found.base.host == found.head.host
    yield f"Base: {_side(found.base, one_host)}. Head: {_side(found.head, one_host)}."


def _side(one: Side, one_host: bool) -> str:
    made = when(one.created) if one.created else "at an unknown time"
    where = "" if one_host else f", {printable(one.host or 'an unknown host')}"
    part = ", partial" if one.partial else ""
    return f"{printable(os.path.basename(one.file))} ({made}{where}{part})"


def _differing(found: BeforeAfter, full: bool) -> Iterator[Part]:
    """A line for each kind of thing that differs, what makes the figures incomparable first."""
    changed = [one for one in found.differing if one.of != "settings" or found.kind not in _WATCHED]
    for of in dict.fromkeys(one.of for one in changed):
        of_it = [_change(one) for one in changed if one.of == of]
        rest = 0 if full else len(of_it) - _DIFFERING
        more = f" and {rest} more" if rest > 0 else ""
        yield f"Differs in {of}: {', '.join(of_it if full else of_it[:_DIFFERING])}{more}."
    if not changed:
        known = "Machine and versions" if found.kind in _WATCHED else "Machine, versions, workload and data"
        told = "are not known" if found.base.host is None and found.head.host is None else "are the same"
        yield f"{known} {told}."


def _change(one: Differing) -> str:
    return f"{printable(one.name)} {printable(one.base) or 'none'} → {printable(one.head) or 'none'}"


def _account(found: BeforeAfter, full: bool) -> Iterator[Part]:
    """Where the two runs went, side by side, in the rows that a watched run shows."""
    both = {one.name: one for one in found.rows if one.group == _ACCOUNT}
    whole = next((one for one in found.rows if one.group == "run"), None)
    if whole is None:
        return
    long = watch_account.LONG
    every: list[tuple[str, tuple[str, ...]]] = [(long.get(code, code), (code,)) for code in both]
    named = every if full and both else watch_account.short(both)
    sums = [(name, _sum(both[code] for code in codes if code in both)) for name, codes in named]
    large = sorted((max(pair) for _, pair in sums), reverse=True)[: None if full else _PARTS]
    least = max(large[-1], _SMALLEST * max(whole.base, whole.head))
    kept = [(name, pair) for name, pair in sums if max(pair) >= least]
    small = tuple(sum(pair[side] for _, pair in sums) - sum(pair[side] for _, pair in kept) for side in (0, 1))
    scale = seconds_scale([max(whole.base, whole.head)])
    rest = [("smaller rows", small)] if max(small) > _NOTHING else []
    cells = tuple(
        (printable(name), *(scale.number(spent) for spent in pair))
        for name, pair in [*kept, *rest, ("whole run", (whole.base, whole.head))]
    )
    yield Table("", (f"where the runs went, in {scale.unit}", "base", "head"), cells, frozenset({1, 2}), kept=1)


def _sum(rows: Iterable[Row]) -> tuple[float, float]:
    listed = list(rows)
    return sum(one.base for one in listed), sum(one.head for one in listed)


def _shown(found: BeforeAfter, full: bool) -> list[Row]:
    """The rows of the table. The short report has those that changed, and others as far as there is room."""
    rows = [one for one in found.rows if one.group not in (_ACCOUNT, "run")]
    if found.kind in _WATCHED:
        return rows if full else sorted(rows, key=_rank)[:_FEW_WATCHED]
    if full or len(rows) <= _FEW:
        return rows
    changed = [one for one in rows if one.verdict not in (NOT_TOLD, SAME, NO_FLOOR) and one.gated]
    return by_size(changed)[:_FEW]


def _rank(one: Row) -> tuple[bool, bool, bool]:
    """First the wait, CPU time and what the gate is about, then what changed, then what was judged."""
    first = one.gated or one.name in ("wait", CPU) or one.unit == "share"
    return not first, one.verdict not in (FASTER, SLOWER), one.judgement is None


def _table(rows: Sequence[Row]) -> Table:
    cells = tuple(
        (shortened(name_of(one), _NAME), value_of(one, one.base), value_of(one, one.head), told_of(one)) for one in rows
    )
    return Table("", ("", "base", "head", "speed-up"), cells, frozenset({1, 2, 3}))


def _below(found: BeforeAfter, shown: Sequence[Row], full: bool) -> Iterator[Sparing]:
    rest = sum(one.group not in (_ACCOUNT, "run") for one in found.rows) - len(shown)
    if rest > 0:
        yield Spare((f"{counted(rest, 'more row')}: --full shows {'it' if rest == 1 else 'them'}.",), 2)
    base = [one for one in found.only_base if one not in found.failed]
    only = [
        f"only in {side}: {_some(names, len(names) if full else _ONLY)}"
        for side, names in (("base", base), ("head", found.only_head))
        if names
    ]
    if only:
        yield Spare((f"Rows {'; '.join(only)}.",))
    yield from _notes(found, full)
    yield from _sure(found)
    yield from _gate(found)


def _notes(found: BeforeAfter, full: bool) -> Iterator[str]:
    """The notes that only one of two watched runs has: their codes in one line, or their sentences."""
    both = [("new in head", found.appeared), ("no longer there", found.vanished)]
    if full:
        for what, notes in both:
            yield from (f"{what[:1].upper()}{what[1:]}: {sentence(note)}" for note in notes)
        return
    said = [f"{what}: {_some([shortened(note.code, _NAME) for note in notes], _ONLY)}" for what, notes in both if notes]
    if said:
        yield f"Notes {'; '.join(said)} (--full has the sentences)."


def _some(names: Sequence[str], most: int) -> str:
    rest = len(names) - most
    return ", ".join(printable(one) for one in names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _sure(found: BeforeAfter) -> Iterator[str]:
    judged = [one.judgement for one in found.rows if one.judgement is not None]
    if not judged:
        return
    enough = sum(one.enough for one in judged)
    hold = f" {'All ' if enough > 1 else ''}{counted(enough, 'interval')} hold{'' if enough > 1 else 's'} with 95 %."
    floor = f" {_FLOORS[found.floor.source](found.floor)}" if found.floor is not None else ""
    if found.base.host != found.head.host:
        floor = floor.replace("of this host", "of one of the two hosts")
    more = " Run both once more: from its second run on, a report knows how far runs of its host are apart."
    yield (
        f"Speed-up: above 1 the head is faster; ~: cannot be told.{hold if enough else ''}{floor}"
        f"{more if enough < len(judged) else ''}"
    )


_FLOORS: dict[str, Callable[[Floor], str]] = {
    "earlier-runs": lambda one: (
        f"{counted(one.runs, 'run')} of this host were apart by up to {_away(one)}; the intervals hold that."
    ),
    "these-rows": lambda one: (
        f"Most of the {one.rows} rows are apart by up to {_away(one)}: a row must stand out from that."
    ),
    "plain-runs": lambda one: (
        f"Runs of one script are apart by up to {_away(one)}{_others(one)}; the intervals hold that."
    ),
}


def _others(floor: Floor) -> str:
    if floor.others is None:
        return ", and what others took of the cores is not known of both, so wall times are not judged"
    if floor.others < _BUSY:
        return ""
    return f", and what others took of the cores can make {floor.others:.1f}×"


def _away(floor: Floor) -> str:
    return percent(math.expm1(floor.half))


def no_result(found: BeforeAfter) -> str:
    """Why a gate has no result."""
    if found.partial:
        more = f", and the head has no result of {listed([printable(one) for one in found.lost])}"
        early = _early(found)
        return f"{early[:1].lower()}{early[1:]}{more if found.lost else ''}"
    if found.lost:
        return f"the head has no result of {listed([printable(one) for one in found.lost])}"
    some = any(one.gated for one in found.rows)
    rows = listed([name_of(one) for one in found.rows if one.gated and one.verdict in UNJUDGED], "; ")
    if some and not rows and found.beside:
        slower = listed([name_of(one) for one in by_size(found.beside)], "; ")
        return f"it is not about {slower}, slower for certain, and no rate is told to be faster all the same"
    if some and not rows:
        return f"in so much noise it would only see a row that is {percent(found.sees or 0.0)} slower"
    return (
        f"not every row could be judged ({rows})"
        if some
        else "no figure of these reports is one that it could be about"
    )


def _gate(found: BeforeAfter) -> Iterator[str]:
    if found.fail_above is None or found.gate == GATE_FAILED:
        return
    limit = percent(found.fail_above, 1)
    if found.gate == NO_RESULT:
        yield f"The gate of {limit} has no result: {no_result(found)}."
        return
    least = f" It sees a row that is {percent(found.sees)} slower, and seldom less." if found.sees is not None else ""
    yield f"The gate of {limit} is passed.{_about(found)}{least}"


def _about(found: BeforeAfter) -> str:
    """What the gate judged, if there are rows that it did not."""
    others = [one for one in found.rows if not one.gated and one.judgement is not None]
    if not others:
        return ""
    others.sort(key=lambda one: not one.name.startswith(CPU))  # a reader expects the gate to be about it
    judged = listed([name_of(one) for one in found.rows if one.gated], "; ")
    more = f"; {counted(len(others) - 1, 'more row')}" if len(others) > 1 else ""
    why = " (other numbers of workers)" if others[0].name.startswith(CPU) else ""
    return f" Judged: {judged}. Not judged: {name_of(others[0])}{why}{more}."
