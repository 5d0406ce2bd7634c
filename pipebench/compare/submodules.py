"""Fills in the submodules of a checkout from the clones that the user already has. Nothing is fetched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipebench.compare.bounded import GitFailed
from pipebench.errors import PipebenchError
from pipebench.units import printable

GITLINK = "160000"  # the mode of a submodule in a tree
Git = Callable[..., str]


@dataclass(frozen=True)
class _Submodule:
    path: str
    sha: str


def fill(repo: Path, sha: str, target: Path, git: Git) -> None:
    """Checks out every submodule of commit `sha` below `target`, a clone of `repo`, and the submodules of these.

    A submodule that the user has never initialised stays empty, as it is in the working tree. Raises `PipebenchError`
    if one is initialised and lacks the commit that is recorded.
    """
    for one in _submodules(target, sha, git):
        source = _source(repo, one.path, _name(target, sha, one.path, git), git)
        if source is None:
            continue
        place = target / one.path
        try:
            git("clone", "--quiet", "--shared", "--no-checkout", os.fspath(source), os.fspath(place), at=target)
            git("checkout", "--quiet", "--detach", one.sha, at=place)
        except GitFailed as error:
            shallow = git("rev-parse", "--is-shallow-repository", at=source) == "true"
            wanted = "--unshallow (in a workflow: fetch-depth: 0)" if shallow else "--all"
            raise PipebenchError(
                f"submodule {printable(one.path)} lacks commit {one.sha[:8]}, which {sha[:8]} needs",
                f"fetch it: git -C {printable(one.path)} fetch {wanted}",
            ) from error
        fill(source, one.sha, place, git)


def could_be_filled(repo: Path, sha: str, target: Path, git: Git) -> bool:
    """Whether a submodule is empty in the checkout at `target`, and the user has initialised it since."""
    empty = [one for one in _submodules(target, sha, git) if not (target / one.path / ".git").exists()]
    return any(_source(repo, one.path, _name(target, sha, one.path, git), git) is not None for one in empty)


def _submodules(clone: Path, sha: str, git: Git) -> Iterator[_Submodule]:
    for entry in git("ls-tree", "-r", "-z", "--full-tree", sha, at=clone).split("\0"):
        facts, _, path = entry.partition("\t")
        if facts.startswith(GITLINK):
            yield _Submodule(path, facts.split()[2])


def _source(repo: Path, path: str, name: str | None, git: Git) -> Path | None:
    """The user's clone of a submodule: in .git/modules by its name, or in its place in the working tree.

    `repo` has a working tree, or is a folder of .git/modules itself.
    """
    if name is not None:
        kept = repo / "modules" / name
        if (repo / ".git").exists():
            kept = repo / git("rev-parse", "--git-path", f"modules/{name}", at=repo)
        if (kept / "HEAD").exists():  # also of a submodule whose place another one has now
            return kept
    return repo / path if (repo / path / ".git").exists() else None


def _name(clone: Path, sha: str, path: str, git: Git) -> str | None:
    """The name under which .gitmodules of that commit has the submodule at `path`."""
    try:
        found = git("config", "-z", "--blob", f"{sha}:.gitmodules", "--get-regexp", r"^submodule\..*\.path$", at=clone)
    except GitFailed:
        return None
    for entry in found.split("\0"):
        key, _, value = entry.partition("\n")
        if value == path:
            return key.removeprefix("submodule.").removesuffix(".path")
    return None
