"""The options that save a report as a page: where they are, what they refuse, and that a page is whole."""

import importlib
from dataclasses import replace

import every_report
import made_up
import pytest
from click.testing import CliRunner

from pipebench.commands import _keeping, show, watch
from pipebench.commands.advise import saved_at as advised_at
from pipebench.errors import PipebenchError, UsageError
from pipebench.results import report
from pipebench.results.watched import Note
from pipebench.terminal import delivered, places

WATCH = every_report.EXAMPLES["watch"]


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch):
    """Drawing them takes a second for each page."""
    monkeypatch.setattr("pipebench.render.pictures.of", lambda report: ())


@pytest.fixture
def saved(tmp_path):
    report.save(WATCH, tmp_path / "r.json")
    return tmp_path / "r.json"


def _show(*arguments):
    return CliRunner().invoke(show.command, [str(one) for one in arguments])


def _whole(file):
    text = file.read_text()
    return text.startswith("<!DOCTYPE html>") and text.endswith("</html>\n") and "of the run&#x27;s 60.5 s" in text


@pytest.mark.parametrize("name", ["run", "watch", "advise", "study", "ab", "syncs", "calibrate"])
def test_each_command_that_measures_saves_a_page(name):
    command = importlib.import_module(f"pipebench.commands.{name}").command
    assert "--export-html" in [option for one in command.params for option in one.opts]


def test_show_makes_a_page_and_prints_nothing(saved, tmp_path):
    done = _show(saved, "--html", tmp_path / "new" / "r.html")
    assert done.exit_code == 0 and done.output == "" and _whole(tmp_path / "new" / "r.html")


def test_show_overwrites_only_if_it_may(saved, tmp_path):
    (tmp_path / "r.html").write_text("mine")
    assert isinstance(_show(saved, "--html", tmp_path / "r.html").exception, UsageError)
    assert (tmp_path / "r.html").read_text() == "mine"
    assert _show(saved, "--html", tmp_path / "r.html", "--force").exit_code == 0 and _whole(tmp_path / "r.html")


def test_a_report_whose_figures_do_not_belong_together_is_refused(tmp_path):
    report.save(replace(WATCH, watched=replace(WATCH.watched, notes=(Note("oversubscribed"),))), tmp_path / "r.json")
    done = _show(tmp_path / "r.json", "--html", tmp_path / "r.html")
    assert isinstance(done.exception, PipebenchError) and "do not belong together" in done.exception.problem
    assert not (tmp_path / "r.html").exists()


def test_two_exports_in_one_file_are_refused_and_so_is_a_folder_that_takes_no_file(tmp_path):
    with pytest.raises(UsageError, match="same file"):
        places(False, tmp_path / "a", None, tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(PipebenchError, match="cannot write"):
        places(False, None, tmp_path / "file" / "r.html")


def test_delivered_watched_advised_and_measured_reports_become_pages(tmp_path, capsys):
    delivered(WATCH, "json", None, tmp_path / "1.html")
    watch.saved_at(None, None, tmp_path / "2.html")(made_up.watched(), None)
    advised_at(None, None, tmp_path / "3.html")(made_up.watched(), every_report.EXAMPLES["advise"].advice)
    _keeping.show(WATCH, "table", tmp_path / "4.html")
    for number in (1, 2, 4):
        assert _whole(tmp_path / f"{number}.html")
    assert "num_workers=8 makes the training loop" in (tmp_path / "3.html").read_text()
    assert watch.saved_at(None) is None and advised_at(None) is None
