"""A report for the terminal, or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.render import tables, watched
from pipebench.render.cells import Table
from pipebench.render.layout import console, fitted, inert, laid_out, markdown_table, styled
from pipebench.results.report import Report

NARROW = 100  # columns; below, tables leave out what can be derived from the rest


def table(report: Report, *, width: int = 110, colour: bool = False, full: bool = False) -> str:
    """The report as aligned tables, the verdict first; `colour` adds terminal styles and nothing else.

    `full` shows every figure of a watched run; without it they fit a screen.
    """
    if report.watch is not None:
        return watched.text(report, width=width, colour=colour, full=full)
    screen, out = console(width, colour)

    def say(text: str, style: str = "") -> None:
        screen.print(styled(text, style))

    say(tables.verdict(report), "bold")
    for line in tables.heading(report):
        say(line, "dim")
    for one in tables.all_tables(report):
        say("")
        screen.print(laid_out(fitted(one if width >= NARROW else one.narrowed(), width)))
        for note in one.notes:
            say(f"  {note}", "dim")
    bad = tables.bad_samples(report)
    if bad:
        say(f"\nBad samples ({len({one.sample for one in report.bad_samples})})", "bold")
        for line in bad:
            say(f"  {line}")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def plain(lines: Sequence[str], one: Table, *, width: int = 110, colour: bool = False) -> str:
    """Some lines and a table with its notes, for the terminal."""
    screen, out = console(width, colour)
    for line in lines:
        screen.print(styled(line, "bold" if line is lines[0] else "dim"))
    screen.print(laid_out(fitted(one, width)))
    for note in one.notes:
        screen.print(styled(f"  {note}"))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def markdown(report: Report) -> str:
    """The report as Markdown, for a pull request or a document."""
    if report.watch is not None:
        return watched.markdown(report)
    parts = [tables.verdict(report), *tables.heading(report)]
    parts = [inert(part) for part in parts]
    for one in tables.all_tables(report):
        parts += markdown_table(one)
    bad = tables.bad_samples(report)
    parts += ["### Bad samples", "\n".join(f"- {inert(line)}" for line in bad)] if bad else []
    return "\n\n".join(parts) + "\n"
