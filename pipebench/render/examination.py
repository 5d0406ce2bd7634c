"""Renders what `doctor` found: what will hurt first, each with its reason and its remedy. Pure.

By default at most 30 lines of 80 columns: what finds no room is named in one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipebench.render.layout import Line, Part, wrapped
from pipebench.results.examination import Examination, Finding, Level
from pipebench.units import counted, printable

LINES, COLUMNS = 30, 80
_TITLES: dict[Level, str] = {"will-hurt": "Will hurt", "worth-knowing": "Worth knowing", "not-known": "Not known here",
                             "fine": "Fine"}  # fmt: skip


def parts(found: Examination, full: bool = False) -> list[Part]:
    """All findings if `full`; else those that are not fine, on one screen."""
    first: Part = Line(verdict(found), "bold")
    if full:
        return [first, *(part for level in _TITLES for part in _all_of(found, level))]
    last = ["", *_rest(found)]
    return [first, *_fitting(found, LINES - _lines([first, *last])), *last]


def verdict(found: Examination) -> str:
    """How many findings hurt, and by name which, and how many are worth knowing."""
    hurting, known = found.of("will-hurt"), found.of("worth-knowing")
    names = ", ".join(printable(one.check) for one in hurting)
    first = f"{_things(len(hurting))} will hurt training on this machine: {names}." if hurting else (
        "Nothing that was looked at will hurt training on this machine."
    )  # fmt: skip
    return f"{first} {_things(len(known))} {'is' if len(known) == 1 else 'are'} worth knowing." if known else first


def _things(number: int) -> str:
    return counted(number, "thing")


def _all_of(found: Examination, level: Level) -> Iterator[Part]:
    if some := found.of(level):
        yield ""
        yield Line(_TITLES[level], "bold")
        for one in some:
            yield from _item(one)


def _item(one: Finding) -> Iterator[Part]:
    yield Line(f"  {printable(one.check)}: {printable(one.found)}", hanging="  ")
    if one.matters:
        yield Line(f"    {printable(one.matters)}", "dim")
    if one.remedy:
        yield Line(f"    Then: {printable(one.remedy)}{':' if one.command else '.'}", hanging="  ")
    if one.command:  # on a line of its own, to be copied
        yield Line(f"      {printable(one.command)}")


def _fitting(found: Examination, room: int) -> Iterator[Part]:
    """The findings that are not fine, whole ones only, as many as fit in so many lines."""
    left = room
    unsaid: list[Finding] = []
    for level in ("will-hurt", "worth-knowing"):
        title: list[Part] = ["", Line(_TITLES[level], "bold")]
        for one in found.of(level):
            made = [*title, *_item(one)]
            if unsaid or _lines(made) > left - _lines([_unsaid(found.findings)]):
                unsaid.append(one)
                continue
            yield from made
            left, title = left - _lines(made), []
    if unsaid:
        yield _unsaid(unsaid)


def _unsaid(some: Sequence[Finding]) -> Part:
    return Line(f"No room here for: {', '.join(printable(one.check) for one in some)} (--full).", hanging="  ")


def _rest(found: Examination) -> Iterator[Part]:
    """One line each for what is not known and for what is fine."""
    if unknown := found.of("not-known"):
        yield Line(f"Not known here: {', '.join(printable(one.check) for one in unknown)} (--full says why).")
    number = len(found.of("fine"))
    yield Line(f"{counted(number, 'check')} {'is' if number == 1 else 'are'} fine; --full shows them.")


def _lines(made: Sequence[Part]) -> int:
    """How many lines the parts take on a page of COLUMNS."""
    lines = (Line(one) if isinstance(one, str) else one for one in made)
    return sum(len(wrapped(one.text, COLUMNS, one.hanging)) for one in lines if isinstance(one, Line))
