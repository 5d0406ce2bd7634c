"""The report of `run` while it is made: saved whenever there is more of it, and shown at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.errors import PipebenchError
from pipebench.terminal import rendered, save_page
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.results.report import Report


def show(report: Report, style: str, export_html: Path | None) -> None:
    """Writes the report to standard output, and the page that was asked for."""
    click.echo(rendered(report, style), nl=False)
    save_page(report, export_html)


class Kept:
    """The report so far, saved whenever there is more of it: where it was asked for, else as the latest one."""

    def __init__(self, export_json: Path | None) -> None:
        from pipebench.host import machine

        self.report: Report | None = None
        self.unsaved: PipebenchError | None = None
        self._asked = export_json is not None
        self._place = export_json or machine.cache_folder() / "reports" / "latest.json"

    def __call__(self, report: Report) -> None:
        """Keeps and saves; a place that cannot be written ends the run only before anything has been measured."""
        from pipebench.results.report import save

        self.report = report
        self.unsaved = None
        try:
            save(report, self._place)
        except PipebenchError as error:
            if self._asked and not self.measured:
                raise
            self.unsaved = error

    @property
    def measured(self) -> bool:
        """Whether the report has any figure."""
        return self.report is not None and bool(self.report.measurements or self.report.engine)

    @property
    def where(self) -> str:
        if self.report is None or self.unsaved is not None:
            return "nothing was saved"
        return f"what was measured is in {printable(self._place)}"

    def check_saved(self) -> None:
        """Raises the `PipebenchError` for which the report is not where it was asked for."""
        if self.unsaved is not None and self._asked:
            raise self.unsaved
