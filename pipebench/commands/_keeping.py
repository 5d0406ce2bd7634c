"""The report of a long command while it is made: saved whenever there is more of it, and shown at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipebench.errors import PipebenchError
from pipebench.host.interrupts import INTERRUPTED
from pipebench.terminal import progress, ready_to_render, rendered, save_page, say
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.results.report import Report

Progress = Callable[[int, int, str], None]


def show(report: Report, style: str, export_html: Path | None) -> None:
    """Writes the report to standard output, and the page that was asked for."""
    click.echo(rendered(report, style), nl=False)
    save_page(report, export_html)


def kept_and_shown(
    measure: Callable[[Progress, Kept], object],
    style: str,
    export_json: Path | None,
    export_html: Path | None,
    unmeasured: Callable[[Report], list[str]] = lambda report: [],
) -> int:
    """Measures with progress, keeps what `measure` gives, and shows it, also after Ctrl-C. Returns the exit status.

    `unmeasured` says why a run that reached its end has not measured what it was asked to. After a `PipebenchError`
    what was measured is shown before it is raised again.
    """
    ready_to_render()
    kept, interrupted = Kept(export_json), False
    failure: PipebenchError | None = None
    try:
        with progress() as advance:
            measure(advance, kept)
    except KeyboardInterrupt:
        interrupted = True
        say(f"pipebench: interrupted{kept.where}")
    except PipebenchError as error:
        failure = error
    early = interrupted or failure is not None
    if kept.report is not None:
        problem = failure.problem if failure is not None else kept.report.failure
        if early or kept.report.partial:
            kept(replace(kept.report, partial=early, failure=problem))
    if kept.report is not None and (kept.measured or not early):
        show(kept.report, style, export_html)
    if failure is not None:
        raise failure
    reasons = unmeasured(kept.report) if kept.report is not None and not early else []
    for reason in reasons:
        say(f"pipebench: {reason}")
    kept.check_saved()
    return INTERRUPTED if interrupted else 1 if reasons else 0


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
        if self.report is None:
            return False
        loaders = self.report.loaders.results if self.report.loaders is not None else ()
        return bool(self.report.measurements or self.report.engine or any(one.rounds for one in loaders))

    @property
    def where(self) -> str:
        """For the line about an interrupt: where the report is."""
        if not self.measured:
            return " before anything was measured"
        place = printable(self._place)
        return f"; what was measured is in {place}" if self.unsaved is None else "; nothing was saved"

    def check_saved(self) -> None:
        """Raises the `PipebenchError` for which the report is not where it was asked for."""
        if self.unsaved is not None and self._asked:
            raise self.unsaved
