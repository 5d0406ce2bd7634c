"""Shared by the commands: the options for a report's format and file, output, and progress on standard error."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from pipebench.errors import PipebenchError, UsageError
from pipebench.host.redaction import inert
from pipebench.host.screen import colours, columns, encoding
from pipebench.host.whole_files import check_writable, destination, write_whole
from pipebench.units import counted, printable

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from pipebench.render.layout import Part
    from pipebench.results.report import Report

_STANDARD = 2  # the descriptor of standard error, the last of the standard streams
_FULL = "pipebench.full"  # in the context of a command: whether --full was given
WHOLE_LINES = 10_000  # columns: so many that no line wraps
Shown = TypeVar("Shown")
Command = TypeVar("Command", bound=Callable[..., object])
Made = TypeVar("Made")


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


def text_or_json(command: Command) -> Command:
    """Adds the option `--format` to a command whose result is a few lines, as its parameter `style`."""
    kinds = click.Choice(["text", "json"])
    text = "Format of the result on standard output."
    return click.option("--format", "style", type=kinds, default="text", show_default=True, help=text)(command)


def as_json(**parts: Any) -> None:
    """Writes a report with these parts to standard output, as JSON."""
    from pipebench.results.report import new

    click.echo(rendered(new(**parts), "json"), nl=False)


def whole(command: Command) -> Command:
    """Adds the option `--full` to a command. `rendered` knows whether it was given."""

    def kept(context: click.Context, option: click.Parameter, given: bool) -> None:
        context.meta[_FULL] = given

    text = "Show every figure. By default the report fits a screen."
    return click.option("--full", is_flag=True, expose_value=False, callback=kept, help=text)(command)


def exported(command: Command) -> Command:
    """Adds the options `--export-json` and `--force` to a command, as its parameters `export_json` and `force`."""
    file = click.Path(path_type=Path, dir_okay=False)
    saving = click.option("--export-json", type=file, metavar="FILE", help="Save the report here.")
    return saving(click.option("--force", is_flag=True, help="Let exports overwrite files.")(command))


def paged(command: Command) -> Command:
    """Adds the option `--export-html` to a command, as its parameter `export_html`."""
    file = click.Path(path_type=Path, dir_okay=False)
    return click.option("--export-html", type=file, metavar="FILE", help="Save the report as a page.")(command)


def place(asked: Path | None, force: bool) -> Path | None:
    """The path to which an export goes; None if no export was asked for.

    Raises UsageError or PipebenchError if the file cannot be written, before anything is measured.
    """
    if asked is None:
        return None
    found = destination(asked, force)
    check_writable(found)
    return found


def places(force: bool, *asked: Path | None) -> list[Path | None]:
    """The paths to which several exports go, as `place` finds them. UsageError if two of them are one file."""
    found = [place(one, force) for one in asked]
    named = [one for one in found if one is not None]
    if len(set(named)) < len(named):
        raise UsageError("two of the exports name the same file", "give each its own file")
    return found


def delivered(
    report: Report, style: str, export_json: Path | None, export_html: Path | None = None, *, sent: bool = False
) -> None:
    """Writes the report to standard output. `export_json` and `export_html` name files for it, too.

    `sent` says that what is written leaves the machine: then it is without the user's names.
    """
    report = nameless(report) if sent else report
    if export_json is not None:
        from pipebench.results.report import save

        save(report, export_json)
    click.echo(rendered(report, style), nl=False)
    save_page(report, export_html)


def save_page(report: Report, export_html: Path | None) -> None:
    """Saves the report as a page, if it was asked for."""
    if export_html is not None:
        from pipebench.render.html.page import document

        write_whole(export_html, document(report).encode())


def keep(
    report: Report, export_json: Path | None, passport: Path | None, export_html: Path | None, made: list[Report] | None
) -> None:
    """Saves what was asked for: the report, the costs of its batches, and a page. Adds the report to `made`."""
    from pipebench.predict.passports import passport_in
    from pipebench.results.report import new, save

    if made is not None:
        made.append(report)
    if export_json is not None:
        save(report, export_json)
    save_page(report, export_html)
    if passport is not None:
        save(new(passport=passport_in(report)), passport)  # last: there may be none


def nameless(found: Shown) -> Shown:
    """A report, or a part of one, without the user's names."""
    from pipebench.data import datasets
    from pipebench.results.names import without_names

    names = datasets.names()
    return without_names(found, {*names, *(f"{one}{datasets.PACKED}" for one in names)})


def ready_to_render() -> None:
    """Imports what shows a report. After a signal, the imports would take as long as the tables themselves."""
    for name in ("pipebench.render.text", "pipebench.results.secrets", *(f"rich.{one}" for one in _OF_RICH)):
        importlib.import_module(name)
    importlib.import_module("rich.cells").cell_len("–")  # which loads the widths of characters


_OF_RICH = ("box", "cells", "console", "table", "text")


def rendered(report: Report, style: str, full: bool = False) -> str:
    """The report as JSON, as Markdown, or as tables of the terminal's width.

    `full` shows every figure in the tables; without it they fit a screen.
    """
    from pipebench.render import text
    from pipebench.render.signs import missing
    from pipebench.results.report import encode
    from pipebench.results.secrets import without_secrets

    if style == "json":
        return encode(report).decode()
    report = without_secrets(report)
    if style == "markdown":
        return text.markdown(report)
    context = click.get_current_context(silent=True)
    full = full or _width(report) == WHOLE_LINES or bool(context and context.meta.get(_FULL))
    lacking = missing(encoding(sys.stdout))
    return text.table(report, width=_width(report), colour=colours(sys.stdout), full=full, lacking=lacking)


def of_file(report: Report, file: Path, style: str, full: bool = False) -> str:
    """The text of a report that was loaded from a file, which may hold what no run gives. PipebenchError says so."""
    return sensible(file, lambda: rendered(report, style, full))


def sensible(file: Path, make: Callable[[], Made]) -> Made:
    """What is made of a report that was loaded from a file. PipebenchError if its figures make no sense."""
    try:
        return make()
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError) as error:
        raise PipebenchError(
            f"{printable(file)} cannot be shown: its figures do not belong together ({type(error).__name__})",
            "name a report that pipebench wrote",
        ) from error


def laid_out(parts: Iterable[Part]) -> str:
    """Parts of text in the width of standard output."""
    from pipebench.render import layout
    from pipebench.render.signs import missing

    return layout.text(parts, width=columns(sys.stdout), lacking=missing(encoding(sys.stdout)))


def say(line: str, indent: str = "") -> None:
    """Writes a line for the user on standard error."""
    click.echo(in_width(line, indent), err=True)


def in_width(line: str, indent: str = "") -> str:
    """An error line, inert and without secrets, in the width of the terminal, its later parts indented.

    Without a terminal, the line is whole, and several lines, such as a compiler's, stay so. The standard library wraps
    it, because an error of the command line must not wait for rich.
    """
    several = [inert(one) for one in line.split("\n")]
    if sys.stderr is None or not sys.stderr.isatty():
        return "\n".join(indent + one for one in several)
    lines = textwrap.TextWrapper(columns(sys.stderr), indent, f"{indent}  ")
    lines.break_long_words = lines.break_on_hyphens = False
    return "\n".join(map(lines.fill, several))


def _width(report: Report) -> int:
    """The columns of standard output. If a program reads sync points, no line wraps, so each point has one line."""
    read_by_program = report.sync_points is not None and not (sys.stdout is not None and sys.stdout.isatty())
    return WHOLE_LINES if read_by_program else columns(sys.stdout)


def prepared() -> None:
    """Makes standard output and standard error bear what they cannot show or take.

    A character that the encoding lacks is written as its escape. What standard error does not take, because its disk
    is full or its reader gone, is lost; a measurement does not end because of it. Of the three standard streams, one
    that was closed leads to nothing: else its number goes to the next file that is opened, and prints go into that.
    """
    for number in range(_STANDARD + 1):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number: this one
    sys.stderr = sys.stderr or os.fdopen(_STANDARD, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.flush()
        raw = io.BufferedWriter(_Forgiving(sys.stderr.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(raw, sys.stderr.encoding, "backslashreplace", line_buffering=True)


class _Forgiving(io.FileIO):
    """A file whose errors are nobody's."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


@contextlib.contextmanager
def libraries_silenced() -> Iterator[None]:
    """Within this block, what C libraries write to standard error is lost. What Python writes goes where it went."""
    try:
        sys.stderr.flush()
        kept = os.dup(2)
    except (OSError, AttributeError):  # there is no standard error
        yield
        return
    before = sys.stderr
    raw = io.BufferedWriter(_Forgiving(kept, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(raw, before.encoding, "backslashreplace", line_buffering=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(kept, 2)
        os.close(kept)


class _Warned:
    """The warnings of libraries in this process, and in those that it forks, kept in place of being written at once.

    Each kind is said once: what a library warns of, it warns of for each image.
    """

    def __init__(self) -> None:
        self._shown, warnings.showwarning = warnings.showwarning, self._keep
        self._kinds: dict[str, list[str]] = {}

    def _keep(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        said = f"{category.__name__}: {message} ({os.path.basename(filename)}:{lineno})"
        self._kinds.setdefault(f"{category.__name__} {filename}:{lineno}", []).append(said)

    def say(self) -> None:
        warnings.showwarning = self._shown
        for said in self._kinds.values():
            more = f", and {counted(len(said) - 1, 'other')} of this line" if len(said) > 1 else ""
            say(f"pipebench: a library warned. {said[0]}{more}")


class progress:
    """A `with` block that gives a progress callback: a bar on a terminal, else a line for each new activity.

    What libraries warn of meanwhile is said after it.
    """

    def __enter__(self) -> Callable[[int, int, str], None]:
        self._warned = _Warned()
        self._what = ""
        self._bar: Any = None
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(),
                TextColumn("left:"), TimeRemainingColumn(),
            )  # fmt: skip
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._id = self._bar.add_task("starting", total=None)
        return self._advance

    def _advance(self, done: int, total: int, what: str) -> None:
        what = inert(what)
        if self._bar is not None:
            self._bar.update(self._id, completed=done, total=total or None, description=what)
        elif what != self._what:
            click.echo(what, err=True)
        self._what = what

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._warned.say()
