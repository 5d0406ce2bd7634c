"""Checkouts come from any clone that git can work in, and an error of git is said in words."""

import pytest
import repos

from pipebench.compare import checkouts
from pipebench.errors import PipebenchError, UsageError

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"


@pytest.fixture
def origin(tmp_path):
    """A repository whose second commit changes a file, and a branch `other` that is not below its HEAD."""
    folder = tmp_path / "origin"
    folder.mkdir()
    repos.git(folder, "init", "--quiet", "--initial-branch=main")
    repos.git(folder, "config", "uploadpack.allowFilter", "true")
    for text in ("one", "two"):
        (folder / "mine.py").write_text(f"{text!r}\n")
        repos.commit(folder, text)
    repos.git(folder, "checkout", "--quiet", "-b", "other")
    (folder / "mine.py").write_text("'other'\n")
    repos.commit(folder, "other")
    repos.git(folder, "checkout", "--quiet", "main")
    return folder


def cloned(origin, *options):
    """A clone that asks the origin as it would ask a server."""
    folder = origin.parent / "clone"
    repos.git(origin, "clone", "--quiet", *options, origin.as_uri(), str(folder))
    return folder


def text_of(repo, name):
    return (checkouts.checked_out(repo, name).folder / "mine.py").read_text()


def test_a_shallow_clone_gives_what_was_fetched_besides_its_branch(origin):
    repo = cloned(origin, "--depth", "1")
    repos.git(repo, "fetch", "--quiet", "--depth", "1", "origin", "other")
    assert (text_of(repo, "HEAD"), text_of(repo, "FETCH_HEAD")) == ("'two'\n", "'other'\n")


@pytest.mark.parametrize("kind", ["blob:none", "tree:0"])
def test_a_partial_clone_fetches_what_a_commit_lacks(kind, origin):
    repo = cloned(origin, f"--filter={kind}")
    assert (text_of(repo, "HEAD~1"), text_of(repo, "HEAD")) == ("'one'\n", "'two'\n")


def test_a_partial_clone_that_cannot_fetch_says_what_to_do(origin):
    repo = cloned(origin, "--filter=blob:none")
    repos.git(repo, "remote", "set-url", "origin", (origin.parent / "gone").as_uri())
    with pytest.raises(PipebenchError, match="is not whole in this partial clone") as raised:
        checkouts.checked_out(repo, "HEAD~1")
    assert "git fetch --refetch --no-filter" in raised.value.remedy


def test_a_name_that_means_two_commits_is_refused(origin):
    repos.git(origin, "tag", "same", "main")
    repos.git(origin, "branch", "same", "other")
    with pytest.raises(UsageError, match="refs/heads/same and refs/tags/same, which differ"):
        checkouts.resolve(origin, "same")
    assert checkouts.resolve(origin, "refs/heads/same") == repos.git(origin, "rev-parse", "other")
    repos.git(origin, "tag", "main", "main")  # the same commit
    assert checkouts.resolve(origin, "main") == repos.git(origin, "rev-parse", "HEAD")


def test_a_folder_may_end_with_a_space(origin):
    folder = origin.rename(origin.parent / "origin ")
    assert checkouts.repository(folder) == folder
    assert text_of(folder, "HEAD~1") == "'one'\n"


def test_a_repository_without_a_working_tree_is_not_called_none(origin):
    repo = cloned(origin, "--bare")
    with pytest.raises(PipebenchError, match="clone has no working tree"):
        checkouts.repository(repo)


def test_what_git_refuses_is_an_error_and_no_traceback(origin):
    (origin / ".git" / "index").write_bytes(b"spoilt")
    with pytest.raises(PipebenchError, match=r"`git status` in .* ended with status 128: .*index"):
        checkouts.is_dirty(origin)


def test_pointers_of_lfs_are_named_until_a_filter_can_fill_them(origin):
    """The filter stands for git-lfs: what it writes is no pointer."""
    (origin / ".gitattributes").write_text("*.bin filter=lfs -text\n")
    for name in ("one.bin", "two.bin", "text.md"):
        (origin / name).write_text(POINTER)
    repos.commit(origin, "data")

    def said():
        commit = checkouts.checked_out(origin, "HEAD")
        return commit, [note for note, _ in checkouts.notes(origin, "HEAD", "HEAD", [commit], True)]

    commit, notes = said()
    assert notes == [f"{commit.label}: one.bin (and 1 more) is a pointer of Git LFS, without the contents"]
    repos.git(origin, "config", "filter.lfs.smudge", "echo contents")
    commit, notes = said()
    assert notes == [] and (commit.folder / "two.bin").read_text() == "contents\n"
