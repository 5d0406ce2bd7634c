"""Folders for one run: private, under names that nobody can tell before, and no link is followed."""

import stat

import pytest

from pipebench.host.scratch import Scratch


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_private_and_its_name_cannot_be_told_before(temporary):
    with Scratch("watch") as one, Scratch("watch") as other:
        assert stat.S_IMODE(one.stat().st_mode) == 0o700 and one.parent == other.parent == temporary
        assert len({one.name, other.name, "pipebench-watch-"}) == 3
    assert not list(temporary.iterdir())


def test_a_link_in_the_place_of_a_folder_or_of_its_lock_is_not_followed(temporary):
    kept = temporary / "of-mine"
    (kept / "inner").mkdir(parents=True)
    (kept / ".pipebench-lock").touch()
    (temporary / "pipebench-watch-link").symlink_to(kept)
    (temporary / "pipebench-watch-lock").mkdir()
    (temporary / "pipebench-watch-lock" / ".pipebench-lock").symlink_to(kept / ".pipebench-lock")
    (temporary / "pipebench-watch-left").mkdir()
    (temporary / "pipebench-watch-left" / ".pipebench-lock").touch()  # that of a run that was killed
    with Scratch("watch"):
        left = {one.name for one in temporary.iterdir()}
    assert {"of-mine", "pipebench-watch-link", "pipebench-watch-lock"} < left and "pipebench-watch-left" not in left
    assert (kept / "inner").exists() and (kept / ".pipebench-lock").exists()
