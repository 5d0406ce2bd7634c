"""What the commands share: --full, the characters of the output, and the time that is left."""

import io
import sys
import warnings

import click
import pytest
from click.testing import CliRunner

from pipebench.host.screen import columns, encoding
from pipebench.results import report
from pipebench.results.examination import Examination, Finding
from pipebench.results.sync_points import SyncPoint, SyncReport
from pipebench.terminal import progress, rendered, whole

FINDINGS = tuple(Finding(f"check {number}", "fine", "well") for number in range(40))
LONG = report.new(examination=Examination(FINDINGS, "/data", 1.0))


@click.command()
@whole
def command():
    click.echo(rendered(LONG, "table"), nl=False)


def test_full_shows_every_figure_and_without_it_the_report_fits_a_screen():
    assert len(CliRunner().invoke(command).output.splitlines()) <= 30
    full = CliRunner().invoke(command, ["--full"]).output.splitlines()
    assert len(full) > 40 and full[0] == full[-1]


def test_a_program_that_reads_sync_points_gets_every_one(capsys):
    points = tuple(SyncPoint(f"a{number}.py", 1, 1.0, ()) for number in range(40))
    found = report.new(sync_points=SyncReport("f", 3, 40.0, None, "no device here", points))
    assert sum(line.startswith("a") for line in rendered(found, "table").splitlines()) == 40


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ({"LC_ALL": "C"}, "ascii"),
        ({"LANG": "POSIX"}, "ascii"),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, "utf-8"),
        ({}, "utf-8"),
    ],
)
def test_the_c_locale_shows_ascii_whatever_python_writes(chosen, shown, monkeypatch):
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    assert encoding(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")) == shown


@pytest.mark.parametrize(("chosen", "width"), [(None, 80), ("132", 132), ("40", 80), ("wide", 80)])
def test_without_a_terminal_text_has_80_columns_unless_the_user_says_other(chosen, width, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    if chosen is not None:
        monkeypatch.setenv("COLUMNS", chosen)
    assert columns(io.StringIO()) == width


def test_the_bar_of_progress_shows_the_time_that_is_left(monkeypatch):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Screen())
    with progress() as advance:
        advance(1, 4, "a thing")
        shown = {type(one).__name__ for one in advance.__self__._bar.columns}
    assert "TimeRemainingColumn" in shown


def test_what_libraries_warn_of_is_said_once_after_the_progress(capsys):
    """Found with photographs of 100 megapixels: a path of Pillow between two lines of progress, for each image."""
    before = warnings.showwarning
    with progress() as advance:
        for number in range(3):
            advance(number, 3, f"image {number}")
            warnings.showwarning(UserWarning(f"{number}\x1b pixels"), UserWarning, "/lib/PIL/Image.py", 34)
        warnings.showwarning(UserWarning("another"), UserWarning, "/lib/other.py", 7)
    assert warnings.showwarning is before
    assert capsys.readouterr().err.splitlines() == [
        "image 0",
        "image 1",
        "image 2",
        "pipebench: a library warned. UserWarning: 0\\x1b pixels (Image.py:34), and 2 others of this line",
        "pipebench: a library warned. UserWarning: another (other.py:7)",
    ]
