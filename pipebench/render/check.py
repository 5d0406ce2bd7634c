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
    """How many images break or change training, of how many that were looked at."""
    of = f"{check.looked:,} images looked at ({check.listed:,} listed)" if partial else counted(check.looked, "image")
    name, interrupted = printable(check.name), " (interrupted)" if partial else ""
    others = [one for one in check.findings if one.effect != "note"]
    if check.harmful:
        return f"{name}: {check.harmful:,} of {of} break or change training{interrupted}."
    if others:
        return f"{name}: {of}, each good alone, but not the whole{interrupted}."
    return f"{name}: {of}, none that breaks or changes training{interrupted}."


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
