"""The submodules of each commit's checkout come from the clones that the user has."""

import os

import pytest
import repos

from pipebench.compare import checkouts
from pipebench.errors import PipebenchError


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "mine.py").write_text("SIZE = 0\n")
    repos.git(folder, "init", "--quiet")
    repos.commit(folder, "one")
    return folder


@pytest.fixture
def with_submodule(repo, tmp_path):
    """Two commits of `repo`, the second with a newer commit of its submodule `part`."""
    part = tmp_path / "part"
    part.mkdir()
    repos.git(part, "init", "--quiet")
    (part / "part.py").write_text("SIZE = 1\n")
    repos.commit(part, "one")
    repos.git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part), "part")
    repos.commit(repo, "with a part")
    (part / "part.py").write_text("SIZE = 2\n")
    newer = repos.commit(part, "two")
    repos.git(repo / "part", "fetch", "--quiet")
    repos.git(repo / "part", "checkout", "--quiet", newer)
    repos.commit(repo, "with a newer part")
    return repo


def test_submodules_are_those_of_each_commit(with_submodule):
    texts = [checkouts.checked_out(with_submodule, name).folder / "part" / "part.py" for name in ("HEAD~1", "HEAD")]
    assert [text.read_text() for text in texts] == ["SIZE = 1\n", "SIZE = 2\n"]


def test_a_submodule_that_was_removed_since_is_filled_in_all_the_same(with_submodule):
    repos.git(with_submodule, "rm", "--quiet", "part")
    repos.commit(with_submodule, "without it")
    old, new = (checkouts.checked_out(with_submodule, name).folder for name in ("HEAD~1", "HEAD"))
    assert (old / "part" / "part.py").read_text() == "SIZE = 2\n" and not (new / "part").exists()


def test_a_removed_submodule_with_a_space_in_its_name_is_filled_in(with_submodule, tmp_path):
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name", "third party")
    repos.git(with_submodule, *add, str(tmp_path / "part"), "other place")
    repos.commit(with_submodule, "with another")
    repos.git(with_submodule, "rm", "--quiet", "other place")
    repos.commit(with_submodule, "without it")
    folder = checkouts.checked_out(with_submodule, "HEAD~1").folder
    assert (folder / "other place" / "part.py").read_text() == "SIZE = 2\n"


@pytest.mark.parametrize("ignored", ["none", "all"])
def test_an_edit_in_a_cached_submodule_is_noticed(with_submodule, ignored):
    repos.git(with_submodule, "config", "-f", ".gitmodules", "submodule.part.ignore", ignored)
    repos.commit(with_submodule, "ignored")
    file = checkouts.checked_out(with_submodule, "HEAD").folder / "part" / "part.py"
    file.write_text("SIZE = 3\n")
    checkouts.checked_out(with_submodule, "HEAD")
    assert file.read_text() == "SIZE = 2\n"


def test_a_submodule_that_was_never_initialised_stays_empty(with_submodule, tmp_path):
    repos.git(tmp_path, "clone", "--quiet", str(with_submodule), "clone")
    assert os.listdir(checkouts.checked_out(tmp_path / "clone", "HEAD").folder / "part") == []


def test_a_submodule_that_is_initialised_later_is_filled_in_then(with_submodule, tmp_path):
    repos.git(tmp_path, "clone", "--quiet", str(with_submodule), "clone")
    checkouts.checked_out(tmp_path / "clone", "HEAD")
    repos.git(tmp_path / "clone", "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
    folder = checkouts.checked_out(tmp_path / "clone", "HEAD").folder
    assert (folder / "part" / "part.py").read_text() == "SIZE = 2\n"


def test_a_shallow_submodule_is_fetched_as_the_error_says(with_submodule, tmp_path):
    clone = tmp_path / "shallow"
    repos.git(tmp_path, "clone", "--quiet", f"file://{with_submodule}", str(clone))
    allowed = ("-c", "protocol.file.allow=always")
    repos.git(clone, "submodule", "--quiet", "init")
    repos.git(clone, "config", "submodule.part.url", f"file://{tmp_path / 'part'}")  # of a path, depth is ignored
    repos.git(clone, *allowed, "submodule", "--quiet", "update", "--depth", "1")
    checkouts.checked_out(clone, "HEAD")
    with pytest.raises(PipebenchError, match="submodule part lacks commit") as raised:
        checkouts.checked_out(clone, "HEAD~1")
    said = "git -C part fetch --unshallow"
    assert said in raised.value.remedy
    repos.git(clone, *allowed, *said.split()[1:])
    checkouts.checked_out(clone, "HEAD~1")


def test_a_submodule_without_the_recorded_commit_is_named(with_submodule, tmp_path):
    repos.git(with_submodule, "update-index", "--cacheinfo", f"160000,{'1' * 40},part")
    repos.git(with_submodule, "commit", "--quiet", "--message", "a commit that nobody has")
    with pytest.raises(PipebenchError, match="submodule part lacks commit 11111111"):
        checkouts.checked_out(with_submodule, "HEAD")
