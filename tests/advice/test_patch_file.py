"""What becomes of the file for a patch is always told, and no old patch stays where a new one was asked for."""

import ast
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_up_trials import watched

from pipebench.advise import command
from pipebench.advise.command import AdviseOptions, _Reporter, advise
from pipebench.advise.judging import together
from pipebench.errors import PipebenchError
from pipebench.render import layout
from pipebench.render.advice import parts
from pipebench.render.advice_lines import by_hand
from pipebench.results.advice import ANEW, Advice, Change, Finding, Place, Rewrite
from pipebench.stats import Speedup
from pipebench.watch.record.trial_lines import LoaderMade

GAIN = Speedup(2.0, 1.9, 2.1, 0.95)
FASTER = Finding(Change("num_workers", {"num_workers": 4}), "gain", GAIN, (2.0, 2.0, 2.0))


def _made(path, call="DataLoader(data)", loader=1):
    path.write_text(f"{call}\n")
    node = ast.parse(call).body[0].value
    return LoaderMade(loader, str(path), 1, 1, 0, node.end_col_offset, "<module>", 10)


def _told(patch, made, *findings, best=0, began_s=4e9):
    """The advice, and its lines as text."""
    conductor = SimpleNamespace(made={one.loader: one for one in made})
    advice = Advice(findings, best, 1, made[0].file if made else "", 1, 60.0, 30.0, "done")
    reporter = _Reporter(None, conductor, AdviseOptions(patch=patch), None, None, began_s=began_s)
    found = reporter._with_text(advice)
    return found, " ".join(layout.text(parts(found, watched()), width=80).split())


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_report_says_where_the_patch_is(tmp_path):
    found, text = _told(tmp_path / "fix.diff", [_made(tmp_path / "train.py")], FASTER)
    assert "+DataLoader(data, num_workers=4)" in (tmp_path / "fix.diff").read_text()
    assert "The patch is in fix.diff." in text and found.patch.reason == "" and found.snippet is not None


def test_without_the_option_nothing_is_said(tmp_path):
    found, text = _told(None, [_made(tmp_path / "train.py")], FASTER)
    assert found.patch is None and "patch" not in text


@pytest.mark.parametrize(
    ("finding", "best", "loaders", "said"),
    [
        (FASTER, None, list, "No change is advised."),
        (replace(FASTER, reason=ANEW), 0, list, "First the script must make the loader once, before its passes."),
        (replace(FASTER, change=Change("one_thread", {}, one_thread=True, pools=("OMP_NUM_THREADS=1",))), 0, list,
         "This change is written by hand."),
        (FASTER, 0, lambda made: [], "The call that makes the loader was not found, or it hides its arguments: "
         "write the change by hand."),
        (FASTER, 0, lambda made: [*made, replace(made[0], loader=2)],
         "This call makes other loaders too, or it may, and they were not tried: change only this loader."),
    ],
)  # fmt: skip
def test_the_report_says_why_there_is_no_patch(tmp_path, finding, best, loaders, said):
    found, text = _told(tmp_path / "fix.diff", loaders([_made(tmp_path / "train.py")]), finding, best=best)
    assert f"No patch was written. {said}" in text and not (tmp_path / "fix.diff").exists()
    assert found.patch.reason and text.count(said) == 1


def test_a_file_elsewhere_is_named_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    found, text = _told(tmp_path / "fix.diff", [_made(tmp_path / "train.py")], FASTER)
    assert "The file is not in the current folder: run pipebench in a folder that holds it." in text
    assert found.snippet is not None and "+ DataLoader(data, num_workers=4)" in text


@pytest.mark.parametrize("patch", [None, "fix.diff"])
def test_what_could_not_be_read_any_more_is_told_once(tmp_path, patch):
    made = _made(tmp_path / "train.py")
    broken = replace(FASTER, change=replace(FASTER.change, rewrites=(Rewrite(made.file, 0, 0, "("),)))
    found, text = _told(patch and tmp_path / patch, [made], broken)
    assert (
        found.snippet is None and text.count("Python could not read the changed file: write the change by hand.") == 1
    )
    assert "train.py:1: DataLoader(..., num_workers=4)" in text


def test_a_patch_that_is_only_a_part_says_so(tmp_path):
    hand = replace(FASTER, change=Change("as_tensors", {}, title="tensors", edits={"as_tensors": {}}, how=("x",)))
    both = replace(FASTER, change=together([FASTER, hand]))
    _, text = _told(tmp_path / "fix.diff", [_made(tmp_path / "train.py")], both)
    assert "The patch is in fix.diff, but not all of this change: write the rest by hand." in text
    threads = replace(FASTER, change=Change("one_thread", {}, one_thread=True))
    written = replace(FASTER, change=replace(hand.change, rewrites=(Rewrite("x", 0, 0, ""),)))
    assert together([FASTER, threads]).partly and not together([FASTER, written]).partly
    assert together([FASTER, replace(written, change=replace(written.change, partly=True))]).partly


def test_each_part_of_a_change_is_told_at_its_own_place(tmp_path):
    """What has no place of its own comes first, so that it stands below no other's."""
    table = Change("lookup", {}, edits={"lookup": {}}, how=("Put both into x.",), at=Place("Normalize", "train.py", 12))
    kept = Change("kept", {}, edits={"kept": {}}, how=("Keep y.",), at=Place("Data.read", "train.py", 3))
    copies = Change("copies", {}, edits={"copies": {}}, how=("Let samples hold copies.",))
    both = together([replace(FASTER, change=one) for one in (table, kept, copies)])
    assert list(by_hand(both)) == [
        "  Let samples hold copies.", "Change Normalize in train.py:12:", "  Put both into x.",
        "Change Data.read in train.py:3:", "  Keep y.",
    ]  # fmt: skip
    assert list(by_hand(table)) == ["Change Normalize in train.py:12:", "  Put both into x."]


def test_a_patch_that_cannot_be_saved_does_not_cost_the_report(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    found, text = _told(tmp_path / "file" / "fix.diff", [_made(tmp_path / "train.py")], FASTER)
    assert found.patch.reason == "not-saved" and "No patch was written. The file could not be written" in text
    assert "cannot write" in capsys.readouterr().err


def test_an_old_patch_is_removed_before_the_script_runs(tmp_path, monkeypatch):
    old, there = tmp_path / "fix.diff", []
    old.write_text("old")

    def run(argv, settings, **around):
        there.append(old.exists())
        return SimpleNamespace(status=0)

    monkeypatch.setattr(command.supervisor, "run", run)
    assert advise(AdviseOptions(patch=old), ["train.py"]) == 0
    assert advise(AdviseOptions(patch=old), ["train.py"]) == 0 and there == [False, False]


def test_an_old_patch_that_cannot_be_removed_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr(command.supervisor, "run", None)  # a call would fail
    with pytest.raises(PipebenchError, match="cannot remove the old"):
        advise(AdviseOptions(patch=tmp_path), ["train.py"])


@pytest.mark.parametrize("patch", [None, "fix.diff"])
def test_a_file_that_was_saved_during_the_run_is_left_alone(tmp_path, patch):
    """The places of a change are those of the text that ran."""
    made, other = _made(tmp_path / "train.py"), tmp_path / "data.py"
    other.write_text("x = 1\n")
    os.utime(other, (1_000.0, 1_000.0))
    os.utime(made.file, (3_000.0, 3_000.0))
    found, text = _told(patch and tmp_path / patch, [made], FASTER, began_s=2_000.0)
    assert found.snippet is None and text.count("The file was changed during the run: run pipebench again") == 1
    of_other = replace(FASTER, change=Change("any", {}, rewrites=(Rewrite(str(other), 0, 0, "y = 1\n"),)))
    assert _told(None, [made], of_other, began_s=2_000.0)[0].snippet is not None
    assert _told(None, [made], of_other, began_s=500.0)[0].snippet is None
