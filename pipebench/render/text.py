"""A report for the terminal, or as Markdown."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipebench.render import ab, calibration, study, syncs, tables, watched
from pipebench.render.cells import Table
from pipebench.results.report import Report
from pipebench.results.studies import StudyResult

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

WIDE = 10_000  # columns: where a table is measured, not printed


def table(report: Report, *, width: int = 110, colour: bool = False) -> str:
    """The report as aligned tables, each part with its verdict first.

    `colour` adds terminal styles and nothing else. No line of the lab's parts and of studies is wider than `width`
    columns: a table leaves out what follows from its other columns, or is stacked.
    """
    page = _Page(width, colour)
    if report.workload is not None:
        _lab(page, report)
    if report.watched is not None:
        page.raw(watched.text(report))
    if report.sync_points is not None:
        page.raw(syncs.render(report.sync_points))
    if (compared := report.comparison) is not None:
        page.raw(ab.text(compared.changes, compared.base, compared.head, compared.fail_above))
    for one in report.studies:
        _study(page, one)
    if report.calibration is not None:
        page.raw(calibration.render(report.calibration))
    if _is_without_heading(report):
        page.lines(tables.heading(report), "dim")
    return page.text()


def _is_without_heading(report: Report) -> bool:
    """Whether there are timings and no part above has said on what machine they were taken."""
    timed = report.comparison is not None or report.studies
    return bool(timed) and report.workload is None and report.watched is None


def _lab(page: _Page, report: Report) -> None:
    page.lines(tables.verdict(report).splitlines(), "bold")
    page.lines(tables.heading(report), "dim")
    for one in tables.all_tables(report):
        page.table(one)
    if bad := tables.bad_samples(report):
        page.gap()
        page.lines([f"Bad samples ({len({one.sample for one in report.bad_samples})})"], "bold")
        page.lines(bad, indent=2)


def _study(page: _Page, one: StudyResult) -> None:
    first, *rest = study.heading(one)
    page.lines([first], "bold")
    page.lines(rest, "dim")
    page.table(study.table(one), titled=False)


class _Page:
    """What was printed so far, by rich, on a page of `width` columns."""

    def __init__(self, width: int, colour: bool) -> None:
        from rich.console import Console

        self._out = io.StringIO()
        self._console: Console = Console(
            file=self._out,
            width=width,
            force_terminal=colour,
            no_color=not colour,
            highlight=False,
            legacy_windows=False,
        )

    def gap(self) -> None:
        """An empty line."""
        self._console.print()

    def lines(self, lines: list[str], style: str = "", indent: int = 0) -> None:
        """Each line inert and wrapped at the width, with `indent` blanks before every part of it."""
        from rich.padding import Padding
        from rich.text import Text

        for line in lines:
            self._console.print(Padding(Text(line, style=style), (0, 0, 0, indent), expand=False))

    def raw(self, text: str) -> None:
        """Text that is laid out already."""
        self._out.write(text)

    def table(self, one: Table, titled: bool = True) -> None:
        """A table under its title, with its notes."""
        if titled:
            self.gap()
            self.lines([one.title], "bold")
        self._fitted(one)
        self.lines(list(one.notes), "dim", indent=2)

    def _fitted(self, one: Table) -> None:
        """The widest form of the table that fits; where none does, its rows one below another."""
        for narrower in one.narrower():
            laid = _laid_out(narrower)
            measured = laid.__rich_measure__(self._console, self._console.options.update(width=WIDE))
            if measured.maximum <= self._console.width:
                self._console.print(laid)
                return
        for row in one.rows:
            cells = zip(one.headers[1:], row[1:], strict=True)
            self.lines([row[0]])
            self.lines([f"{name}: {cell}".removeprefix(": ") for name, cell in cells if cell], indent=2)

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._out.getvalue().splitlines()) + "\n"


def _laid_out(one: Table) -> RichTable:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable
    from rich.text import Text

    laid = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for index, header in enumerate(one.headers):
        laid.add_column(Text(header), justify="right" if index in one.numeric else "left", no_wrap=True)
    for row in one.rows:
        laid.add_row(*(Text(cell) for cell in row))
    return laid


def markdown(report: Report) -> str:
    """The report as Markdown, for a pull request or a document."""
    return "\n\n".join(part.rstrip("\n") for part in _markdown_parts(report)) + "\n"


def _markdown_parts(report: Report) -> Iterator[str]:
    if report.workload is not None:
        yield from _lab_markdown(report)
    if report.watched is not None:
        yield watched.markdown(report)
    if report.sync_points is not None:
        yield fenced(syncs.render(report.sync_points))
    if (compared := report.comparison) is not None:
        yield ab.markdown(compared.changes, compared.base, compared.head, compared.fail_above)
    for one in report.studies:
        title, *rest = markdown_table(study.table(one), level=2)
        yield from (title, *map(inert, study.heading(one)[1:]), *rest)
    if report.calibration is not None:
        yield fenced(calibration.render(report.calibration))
    if _is_without_heading(report):
        yield from map(inert, tables.heading(report))


def _lab_markdown(report: Report) -> Iterator[str]:
    yield from map(inert, [tables.verdict(report), *tables.heading(report)])
    for one in tables.all_tables(report):
        yield from markdown_table(one)
    if bad := tables.bad_samples(report):
        yield "### Bad samples"
        yield "\n".join(f"- {inert(line)}" for line in bad)


def fenced(text: str) -> str:
    """Text in a block that Markdown leaves alone; no line of it can end the block."""
    return f"````text\n{text.replace('````', '` ` ` `')}````\n"


def markdown_table(one: Table, level: int = 3) -> list[str]:
    """Title, table and notes, as paragraphs of Markdown."""
    rule = ["---:" if index in one.numeric else "---" for index in range(len(one.headers))]
    lines = [_row(one.headers), _row(tuple(rule), escape=False), *(_row(row) for row in one.rows)]
    notes = ["\n".join(f"- {inert(note)}" for note in one.notes)] if one.notes else []
    return [f"{'#' * level} {inert(one.title)}", "\n".join(lines), *notes]


def _row(cells: tuple[str, ...], escape: bool = True) -> str:
    return "| " + " | ".join(inert(cell) if escape else cell for cell in cells) + " |"


def inert(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join("\\" + char if char in "\\`*_{}[]<>#|~!" else char for char in text)
