"""Shared by the commands: the options for a report's format and file, output, and progress on standard error."""

from __future__ import annotations

import contextlib
import signal
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipebench.host.screen import colours, columns
from pipebench.host.whole_files import check_writable, destination

if TYPE_CHECKING:
    from pipebench.render.layout import Part
    from pipebench.results.report import Report

WHOLE_LINES = 10_000  # columns: so many that no line wraps
Command = TypeVar("Command", bound=Callable[..., object])


def formatted(command: Command) -> Command:
    """Adds the option `--format` to a command, as its parameter `style`."""
    return click.option(
        "--format",
        "style",
        type=click.Choice(["table", "json", "markdown"]),
        default="table",
        show_default=True,
        help="Format of the report on standard output.",
    )(command)


def exported(command: Command) -> Command:
    """Adds the options `--export-json` and `--force` to a command, as its parameters `export_json` and `force`."""
    file = click.Path(path_type=Path, dir_okay=False)
    saving = click.option("--export-json", type=file, metavar="FILE", help="Save the report here.")
    return saving(click.option("--force", is_flag=True, help="Let exports overwrite files.")(command))


def place(asked: Path | None, force: bool) -> Path | None:
    """The path to which an export goes; None if no export was asked for.

    Raises UsageError or PipebenchError if the file cannot be written, before anything is measured.
    """
    if asked is None:
        return None
    found = destination(asked, force)
    check_writable(found)
    return found


def delivered(report: Report, style: str, export_json: Path | None) -> None:
    """Writes the report to standard output. Saves it first if `export_json` names a file."""
    if export_json is not None:
        from pipebench.results.report import save

        save(report, export_json)
    click.echo(rendered(report, style), nl=False)


def rendered(report: Report, style: str, full: bool = False) -> str:
    """The report as JSON, as Markdown, or as tables of the terminal's width.

    `full` shows every figure of a watched run in the tables.
    """
    from pipebench.render import text
    from pipebench.results.report import encode

    if style == "json":
        return encode(report).decode()
    if style == "markdown":
        return text.markdown(report)
    return text.table(report, width=_width(report), colour=colours(sys.stdout), full=full)


def laid_out(parts: Iterable[Part]) -> str:
    """Parts of text in the width of standard output."""
    from pipebench.render import layout

    return layout.text(parts, width=columns(sys.stdout))


def in_width(line: str, indent: str = "") -> str:
    """An error line in the width of the terminal, its later parts indented. Without a terminal, the line is whole.

    The standard library wraps it, because an error of the command line must not wait for rich.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        return indent + line
    lines = textwrap.TextWrapper(columns(sys.stderr), indent, f"{indent}  ")
    lines.break_long_words = lines.break_on_hyphens = False
    return lines.fill(line)


def _width(report: Report) -> int:
    """The columns of standard output. If a program reads sync points, no line wraps, so each point has one line."""
    read_by_program = report.sync_points is not None and not (sys.stdout is not None and sys.stdout.isatty())
    return WHOLE_LINES if read_by_program else columns(sys.stdout)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Within this block SIGTERM and SIGHUP interrupt as Ctrl-C does, but only once: what is known is saved then."""
    here = threading.current_thread() is threading.main_thread()
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP) if here}

    def interrupt(number: int, frame: object) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for one, handler in before.items():
        if handler == signal.SIG_DFL:  # `nohup` ignores SIGHUP
            signal.signal(one, interrupt)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class progress:
    """A `with` block that gives a progress callback: a bar on a terminal, else a line for each new activity."""

    def __enter__(self) -> Callable[[int, int, str], None]:
        self._what = ""
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._id = self._bar.add_task("starting", total=None)
        return self._advance

    def _advance(self, done: int, total: int, what: str) -> None:
        if self._bar is not None:
            self._bar.update(self._id, completed=done, total=total or None, description=what)
        elif what != self._what:
            click.echo(what, err=True)
        self._what = what

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
