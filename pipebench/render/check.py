"""What `pipebench check` found, as text. It fits a screen of 30 lines and 80 columns; `full` has every name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipebench.render.layout import Line, Part, shortened
from pipebench.results.check import Check, Finding, Found
from pipebench.units import counted, printable, seconds

_HEADINGS = {"breaks": "Breaks training", "changes": "Changes training", "note": "Good to know"}
_LINES = 25  # for the findings, so that verdict and closing lines fit a screen
_WIDTH = 78
_EXAMPLES = 3
_INDENT = 8


def parts(check: Check, *, full: bool = False, partial: bool = False) -> Iterator[Part]:
    """The verdict, what was found by what it does to a training, and what was compared."""
    yield Line(verdict(check, partial), "bold")
    forms = [_whole(one) for one in check.findings] if full else _fitting(check.findings)
    effect = ""
    for finding, lines in zip(check.findings, forms, strict=True):
        if finding.effect != effect:
            effect = finding.effect
            yield Line(_HEADINGS[effect], "bold")
        yield from (Line(line, hanging="  ") for line in lines)
    yield Line(_method(check), "dim")
    if check.findings and not full:
        yield Line("All names: --full. All names and reasons for a program: --format json.", "dim")


def verdict(check: Check, partial: bool = False) -> str:
    """How many images, shards and folders break or change training, and how many images were looked at."""
    name, end = printable(check.name), f"{_only(check, partial)}."
    one = check.places == 1
    places = f"{check.places:,} {'shard or folder' if one else 'shards or folders'}"
    if check.harmful:
        more = f" and {places}" if check.places else ""
        return f"{name}: {check.harmful:,} of {counted(check.listed, 'image')}{more} break or change training{end}"
    looked = f"{name}: {counted(check.looked, 'image')}"
    if check.places:
        return f"{looked}, each good alone, but {places} {'breaks' if one else 'break'} training{end}"
    if check.does_harm:  # by a report of an earlier release, which counted only images that are harmful alone
        return f"{looked}, each good alone, but not the whole{end}"
    return f"{looked}, none that breaks or changes training{end}"


def _only(check: Check, partial: bool) -> str:
    """What was not looked at: after an interrupt, or beyond the limit; "" if all was."""
    if not partial and check.left_out == 0:
        return ""
    of = "" if check.left_out is None else f" of {check.listed + check.left_out:,}"
    return f"; only the first {check.looked:,}{of} were looked at{' (interrupted)' if partial else ''}"


def in_a_line(findings: Iterable[Finding]) -> Iterator[str]:
    """One line for each finding, such as for the head of another report."""
    for one in findings:
        first, detail = one.found[0], f" ({printable(one.found[0].detail)})" if one.found[0].detail else ""
        more = f" and {one.count - 1:,} more" if one.count > 1 else ""
        yield f"{printable(first.name)}{detail}{more}: {printable(one.what)} → {printable(one.remedy)}"


def _method(check: Check) -> str:
    missing = f"; not here: {', '.join(map(printable, check.missing))}" if check.missing else ""
    decoders = ", ".join(map(printable, check.decoders))
    return f"Looked at in {seconds(check.elapsed_s)}, decoded by {decoders or 'nothing'}{missing}."


def _fitting(findings: Sequence[Finding]) -> list[list[str]]:
    """The lines of each finding, as many as fit a screen. The last, the least important, lose first."""
    forms = [[_head(one), _examples(one)] for one in findings]
    headings = len({one.effect for one in findings})
    for form in reversed(forms):
        if headings + sum(map(len, forms)) > _LINES:
            del form[1:]
    return forms


def _head(one: Finding) -> str:
    return f"{one.count:>6,}  {printable(one.what)} → {printable(one.remedy)}"


def _examples(one: Finding) -> str:
    """The first names, with the reason of the first, in one line. Names and reason are shortened if they must be."""
    shown = [printable(found.name) for found in one.found[:_EXAMPLES]]
    more = f", and {one.count - len(shown):,} more" if one.count > len(shown) else ""
    detail = printable(one.found[0].detail) if one.found else ""
    whole = _joined(shown, detail) + more
    if len(whole) <= _WIDTH - _INDENT:
        return " " * _INDENT + whole
    detail = shortened(detail, 40)
    room = _WIDTH - _INDENT - len(more) - len(_joined([""] * len(shown), detail))
    return " " * _INDENT + _joined([shortened(name, max(8, room // len(shown))) for name in shown], detail) + more


def _joined(names: Sequence[str], detail: str) -> str:
    return ", ".join(f"{name} ({detail})" if detail and not place else name for place, name in enumerate(names))


def _whole(one: Finding) -> list[str]:
    more = [f"        and {one.count - len(one.found):,} more, of which no names were kept"]
    names = [f"        {_named(found)}" for found in one.found]
    return [_head(one), *names, *(more if one.count > len(one.found) else [])]


def _named(found: Found) -> str:
    return printable(found.name) + (f": {printable(found.detail)}" if found.detail else "")
