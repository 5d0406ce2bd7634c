"""A loader that an installed library makes: its files stay, and the user's line and its words are told."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from made_up_trials import LOADER, seen, watched

from pipebench.advise.command import AdviseOptions, _Reporter
from pipebench.advise.conductor import Conductor
from pipebench.advise.snippet import written
from pipebench.remedies import draft, getitems, sampler_ahead
from pipebench.remedies.source import sources
from pipebench.render import layout
from pipebench.render.advice import parts
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.results.watched import StageResult
from pipebench.stats import Speedup
from pipebench.watch.record.trial_lines import FunctionPlace, LoaderMade

PLAINLY = "Set, in the loader or the settings that it takes:"
TEXT = "def make(ds):\n    return DataLoader(ds)\n"
GAIN = Finding(Change("num_workers", {"num_workers": 8}), "gain", Speedup(2.0, 1.9, 2.1, 0.95), (2.0, 2.0, 2.0))


@pytest.fixture
def figures(tmp_path, monkeypatch):
    """The figures of a loader that `kit` makes for line 3 of train.py."""
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "lib" / "site-packages" / "kit" / "__init__.py"
    library.parent.mkdir(parents=True)
    library.write_text(TEXT)
    script = tmp_path / "train.py"
    script.write_text("import kit\n\nloader = kit.make(data)\n")
    made = LoaderMade(1, str(library), 2, 2, 11, 25, "make", 10, collate=FunctionPlace("join", str(library), 1))
    loader = replace(LOADER, file=str(script), line=3)
    return replace(
        seen(batch_size=4), watched=watched(0.6, loader=loader), loader=loader, made=made, all_made={1: made}
    )


def _told(figures, change=GAIN.change, patch=None):
    conductor = Conductor(SimpleNamespace(now=lambda: 1.0), {}, 60.0)
    conductor.seen, conductor.made, conductor.ended = figures, dict(figures.all_made), "done"
    conductor.findings = [replace(GAIN, change=change)]
    found = _Reporter(None, conductor, AdviseOptions(patch=patch), None, None, began_s=4e9)._with_text(
        conductor.advice()
    )
    return found, " ".join(layout.text(parts(found, figures.watched), width=80).split())


def test_no_file_of_a_library_is_changed(figures):
    inside = Rewrite(figures.made.file, 0, 0, "x = 1\n")
    for change in (GAIN.change, Change("any", {}, rewrites=(inside,)), replace(GAIN.change, rewrites=(inside,))):
        assert written(figures.made, change).snippet is None and written(figures.made, change).diff is None
        assert written(figures.made, change).no_diff == written(figures.made, change).no_snippet == "library"


def test_the_report_names_the_users_own_line(figures, tmp_path):
    found, text = _told(figures, patch=tmp_path / "fix.diff")
    assert (found.file, found.line, found.made_by) == (str(tmp_path / "train.py"), 3, "kit")
    assert f"kit makes the loader, called from train.py:3. {PLAINLY} num_workers=8" in text
    assert "No patch was written. A library makes the loader, and its files stay as they are." in text
    assert "site-packages" not in text and not (tmp_path / "fix.diff").exists()


def test_the_setting_is_told_in_the_words_of_the_library(figures):
    loader = replace(figures.loader, made_by="transformers")
    figures = replace(figures, loader=loader, watched=watched(loader=loader))
    change = Change("both", {"num_workers": 8, "persistent_workers": True, "pin_memory": True})
    _, text = _told(figures, change)
    assert (
        "transformers makes the loader, called from train.py:3. Set: dataloader_num_workers in TrainingArguments to 8 "
        "dataloader_persistent_workers=True in TrainingArguments pin_memory=True" in text
    )


def test_without_a_line_of_the_user_no_line_is_told(figures):
    loader = replace(figures.loader, file=figures.made.file)
    found, text = _told(replace(figures, loader=loader, watched=watched(loader=loader)))
    assert (found.file, found.line) == ("", 0) and f"kit makes the loader. {PLAINLY}" in text


def test_words_for_another_way_to_make_a_loader_are_not_told(figures, tmp_path):
    """Lightning has words for loaders that it makes of a dataset, and none for one that it makes again."""
    library = tmp_path / "site-packages" / "lightning" / "connector.py"
    library.parent.mkdir(parents=True)
    library.write_text(TEXT)
    made = replace(figures.made, file=str(library))
    found, text = _told(replace(figures, made=made, all_made={1: made}))
    assert found.made_by == "lightning"
    assert f"called from train.py:3. {PLAINLY} num_workers=8" in text


def test_remedies_look_into_the_users_file_and_into_no_library(figures, tmp_path, monkeypatch):
    assert [one.file for one in sources(figures)] == [str(tmp_path / "train.py")]
    monkeypatch.setattr(getitems, "_only_takes", lambda figures: True)
    assert getitems.propose(figures, []).rewrites == ()


def test_what_stands_in_the_users_file_is_written(figures, tmp_path):
    text = "import kit\nsteps = Compose([Resize(256)])\nloader = kit.make(Image.open(path))\n"
    (tmp_path / "train.py").write_text(text)
    rows = ("ImageFile.load", "decode"), ("Resize", "transform")
    stages = tuple(StageResult(name, kind, 1, 100, 0.1, 0.3) for name, kind in rows)
    change = draft.propose(replace(figures, watched=replace(figures.watched, stages=stages), discards=True), [])
    assert "+loader = kit.make(drafted(Image.open(path), (256, 256)))" in written(figures.made, change).diff


def test_a_place_to_change_is_the_users_own(figures, tmp_path, monkeypatch):
    row = SimpleNamespace(loader=1)
    monkeypatch.setattr(sampler_ahead, "account_s", lambda figures, kind: [(50.0, row)])
    monkeypatch.setattr(sampler_ahead, "without", lambda watched, spent: 2.0)
    assert sampler_ahead.propose(figures, []).at.file == str(tmp_path / "train.py")
