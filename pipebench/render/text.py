"""A report for the terminal, or as Markdown."""

from __future__ import annotations

import io

from pipebench.render import tables
from pipebench.render.tables import Table
from pipebench.report import Report


def table(report: Report, *, width: int = 110, colour: bool = False) -> str:
    """The report as aligned tables, the verdict first; `colour` adds terminal styles and nothing else."""
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=colour, no_color=not colour, highlight=False, legacy_windows=False
    )

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style))

    say(tables.verdict(report), "bold")
    for line in tables.heading(report):
        say(line, "dim")
    for one in tables.all_tables(report):
        say("")
        console.print(_laid_out(one))
        for note in one.notes:
            say(f"  {note}", "dim")
    bad = tables.bad_samples(report)
    if bad:
        say(f"\nBad samples ({len({one.sample for one in report.bad_samples})})", "bold")
        for line in bad:
            say(f"  {line}")
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _laid_out(one: Table) -> object:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    laid = RichTable(title=Text(one.title, style="bold"), title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(one.headers):
        laid.add_column(Text(header), justify="right" if index in one.numeric else "left", no_wrap=index > 0)
    for row in one.rows:
        laid.add_row(*(Text(cell) for cell in row))
    return laid


def markdown(report: Report) -> str:
    """The report as Markdown, for a pull request or a document."""
    parts = [tables.verdict(report), *tables.heading(report)]
    parts = [_inert(part) for part in parts]
    for one in tables.all_tables(report):
        rule = ["---:" if index in one.numeric else "---" for index in range(len(one.headers))]
        lines = [_row(one.headers), _row(tuple(rule), escape=False), *(_row(row) for row in one.rows)]
        parts += [f"### {_inert(one.title)}", "\n".join(lines)]
        parts += ["\n".join(f"- {_inert(note)}" for note in one.notes)] if one.notes else []
    bad = tables.bad_samples(report)
    parts += ["### Bad samples", "\n".join(f"- {_inert(line)}" for line in bad)] if bad else []
    return "\n\n".join(parts) + "\n"


def _row(cells: tuple[str, ...], escape: bool = True) -> str:
    return "| " + " | ".join(_inert(cell) if escape else cell for cell in cells) + " |"


def _inert(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join("\\" + char if char in "\\`*_{}[]<>#|~!" else char for char in text)
