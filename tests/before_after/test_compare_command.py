"""`pipebench compare` as a command: its exit statuses, its three formats, and files that are no reports."""

import json

import pytest
from click.testing import CliRunner
from saved_pairs import PAIRS, lab, watched

from pipebench.commands.compare import command
from pipebench.errors import PipebenchError, UsageError
from pipebench.results import report


@pytest.fixture
def files(tmp_path):
    """A report of `run` before and after, and one of `watch`."""
    for name, one in (
        ("base", PAIRS["run"][0]),
        ("head", PAIRS["run"][1]),
        ("same", lab(seed=2)),
        ("watch", watched()),
    ):
        report.save(one, tmp_path / f"{name}.json")
    return tmp_path


def _run(*words):
    return CliRunner().invoke(command, list(map(str, words)), standalone_mode=False)


@pytest.mark.parametrize(("head", "limit", "status"), [("head", "5%", 3), ("same", "5%", 0), ("head", "60%", 0)])
def test_the_gate_is_the_exit_status(files, head, limit, status):
    found = _run(files / "base.json", files / f"{head}.json", "--fail-above", limit)
    assert found.return_value == status
    assert ("slower: decode/rgb: quick" in found.stderr) == (status == 3)


def test_a_gate_without_a_result_is_exit_1(tmp_path):
    for name, one in zip(("a", "b"), PAIRS["calibrate"], strict=True):
        report.save(one, tmp_path / name)
    assert _run(tmp_path / "a", tmp_path / "b", "--fail-above", "5%").return_value == 1
    assert _run(tmp_path / "a", tmp_path / "b").return_value == 0


def test_json_is_the_report_that_is_saved(files):
    saved = files / "c.json"
    found = _run(files / "base.json", files / "head.json", "--format", "json", "--export-json", saved)
    printed = json.loads(found.stdout)
    assert printed == json.loads(saved.read_text()) and printed["before_after"]["kind"] == "run"
    markdown = _run(files / "base.json", files / "head.json", "--format", "markdown").stdout
    assert markdown.startswith("**Slower: decode/rgb/quick")


def test_two_kinds_and_two_machines_are_wrong_usage(files):
    error = _run(files / "base.json", files / "watch.json").exception
    assert isinstance(error, UsageError) and "one of watch" in error.problem


def test_a_report_whose_figures_do_not_belong_together_is_refused(files):
    plain = json.loads((files / "head.json").read_text())
    plain["measurements"][0]["readings_s"][0] = -1.0
    plain["measurements"][0]["calls_per_reading"] = 0
    (files / "head.json").write_text(json.dumps(plain))
    assert isinstance(_run(files / "base.json", files / "head.json").exception, PipebenchError)


def test_the_comparison_as_a_page(files):
    page = files / "c.html"
    found = _run(files / "base.json", files / "head.json", "--html", page)
    assert found.return_value == 0 and found.stdout.startswith("Slower: decode/rgb/quick")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and "pipebench compare" in text and "decode/rgb/quick" in text
    assert "Row by row" in text and "Measured on" not in text
    assert 'id="picture-changes"' in text and "Every row, and what" not in text
    again = _run(files / "base.json", files / "head.json", "--html", page)
    assert isinstance(again.exception, PipebenchError) and "--force" in again.exception.remedy
