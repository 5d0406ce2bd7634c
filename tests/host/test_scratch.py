"""Folders for one run: private, under names that nobody can tell before, and no link is followed."""

import errno
import os
import stat

import pytest

from pipebench.host.scratch import Scratch, _lock_name


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_private_and_its_name_cannot_be_told_before(temporary):
    with Scratch("watch") as one, Scratch("watch") as other:
        assert stat.S_IMODE(one.stat().st_mode) == 0o700 and one.parent == other.parent == temporary
        assert len({one.name, other.name, "pipebench-watch-"}) == 3
    assert not list(temporary.iterdir())


def left_behind(temporary):
    """The folder of a run that was killed."""
    left = temporary / "pipebench-watch-left"
    left.mkdir()
    (left / _lock_name()).touch()
    return left


def test_a_link_in_the_place_of_a_folder_or_of_its_lock_is_not_followed(temporary):
    kept = temporary / "of-mine"
    (kept / "inner").mkdir(parents=True)
    (kept / _lock_name()).touch()
    (temporary / "pipebench-watch-link").symlink_to(kept)
    (temporary / "pipebench-watch-lock").mkdir()
    (temporary / "pipebench-watch-lock" / _lock_name()).symlink_to(kept / _lock_name())
    left_behind(temporary)
    with Scratch("watch"):
        left = {one.name for one in temporary.iterdir()}
    assert {"of-mine", "pipebench-watch-link", "pipebench-watch-lock"} < left and "pipebench-watch-left" not in left
    assert (kept / "inner").exists() and (kept / _lock_name()).exists()


def test_another_node_does_not_remove_what_lives_here(temporary, monkeypatch):
    """They share a file system, of which each has its own locks (Lustre's localflock, NFS without a lock service)."""
    left = left_behind(temporary)
    for named in ({"boot": "0123456789abcdef"}, {}):
        with monkeypatch.context() as patch:
            patch.setattr("pipebench.host.identity.digests", lambda named=named: named)
            with Scratch("watch"):
                assert left.exists()
    with Scratch("watch"):
        assert not left.exists()


def test_where_there_are_no_locks_a_folder_is_used_and_nobody_removes_it(temporary, monkeypatch):
    def refused(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    with monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", refused)
        unlocked = Scratch("watch")
    with Scratch("watch"):
        assert unlocked.path.exists()
    unlocked.remove()
    assert not list(temporary.iterdir())


def test_a_folder_in_which_nothing_can_be_made_does_not_stay(temporary, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Scratch, "_locked", full)
    with pytest.raises(OSError, match="No space left"):
        Scratch("watch")
    assert not list(temporary.iterdir())
