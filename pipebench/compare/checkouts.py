"""Checks commits out into folders and finds the interpreter that runs them, before a comparison starts.

Each commit is checked out into the cache from its own clone, so that the user's repository does not change. Its code is
put first on the import path of an interpreter that has its dependencies: asv's environment if asv has built one, else
this interpreter.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipebench.compare import asv_suites, bounded, submodules
from pipebench.compare.bounded import GitFailed
from pipebench.compare.import_roots import INSTALLED, must_be_built
from pipebench.errors import PipebenchError, UsageError, remedy_of
from pipebench.host import machine, private
from pipebench.units import printable

WORKING_TREE = "."
KEPT_LINES = 8
MADE_BY = 3  # the rules by which a checkout is made: with another number, all are made anew
INSTALL = ("install", "--quiet", "--no-deps", "--target", INSTALLED)
LFS = r"^filter\.lfs\."  # its settings of git
POINTER, LARGEST_POINTER = b"version https://git-lfs.github.com/spec/", 1024  # bytes
STATE = ".git/pipebench-state"  # in a checkout: what its tracked files were when it was made
_GIT = ("git", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "advice.detachedHead=false")
_ELSEWHERE = "set PIPEBENCH_CACHE to a folder on another disk"
_FULL = f"free some space, or {_ELSEWHERE}"


@dataclass(frozen=True)
class Commit:
    """A commit under the name that the user gave, and the folder of its files. `sha` is None for the working tree."""

    name: str
    sha: str | None
    folder: Path

    @property
    def label(self) -> str:
        return "working tree" if self.sha is None else f"{printable(self.name)} ({self.sha[:8]})"


def repository(start: Path) -> Path:
    """The top folder of the repository around `start`."""
    try:
        found = _git("rev-parse", "--show-toplevel", at=start)
    except GitFailed as error:
        place = printable(start.absolute())
        if "safe.directory" in error.said:
            problem = f"git refuses the repository of {place}, because it belongs to another user"
            raise PipebenchError(problem, _last(error.said).rpartition("|")[2].strip()) from error
        if "work tree" in error.said:
            remedy = "run this in a working tree of the repository; git worktree add makes one of a bare repository"
            raise PipebenchError(f"{place} has no working tree", remedy) from error
        problem = f"{place} is not in a git repository"
        raise PipebenchError(problem, "run this in the repository whose commits you compare") from error
    except FileNotFoundError as error:
        raise PipebenchError("git is not installed", "install it: apt-get install git, or dnf install git") from error
    return Path(found)


def is_dirty(repo: Path) -> bool:
    """Whether tracked files differ from the last commit."""
    return bool(_git("status", "--porcelain", "--untracked-files=no", at=repo))


def tree_of(repo: Path, sha: str) -> str:
    """The hash of a commit's files."""
    return _git("rev-parse", f"{sha}^{{tree}}", at=repo)


def resolve(repo: Path, name: str) -> str:
    """The full hash of the commit that `name` means. UsageError if there is none, or if it may be two."""
    refs = [f"refs/{kind}/{name}" for kind in ("tags", "heads", "remotes")]
    there = [one for one in _git("for-each-ref", "--format=%(refname)", *refs, at=repo).splitlines() if one in refs]
    if len({_git("rev-parse", f"{one}^{{}}", at=repo) for one in there}) > 1:
        problem = f"{printable(name)!r} is the name of {' and '.join(map(printable, there))}, which differ"
        raise UsageError(problem, "give one of these instead")
    try:  # by its hash: a suffix would be a part of the text that `:/text` looks for
        found = _git("rev-parse", "--verify", "--quiet", "--end-of-options", name, at=repo)
        return _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{found}^{{commit}}", at=repo)
    except GitFailed as error:
        raise UsageError(*_no_commit(repo, name)) from error


def _no_commit(repo: Path, name: str) -> tuple[str, str]:
    """What a name means that is not the name of a commit, and what to give instead."""
    with contextlib.suppress(GitFailed, KeyError):
        kind = {"tree": "a folder", "blob": "a file"}[_git("cat-file", "-t", "--end-of-options", name, at=repo)]
        return f"{printable(name)!r} is {kind}, not a commit", "give the commit that has it, without the path"
    if ".." in name and not name.startswith(":/"):
        return f"{printable(name)!r} is a range of commits", "give its two ends as two words: pipebench ab BASE HEAD"
    shallow = _git("rev-parse", "--is-shallow-repository", at=repo) == "true"
    remedy = "the clone is shallow: git fetch --unshallow (in a workflow: fetch-depth: 0)"
    problem = f"there is no commit {printable(name)!r} in {printable(repo)}"
    return problem, remedy if shallow else "give a branch, a tag, a hash, or `.` for the working tree"


def checked_out(repo: Path, name: str, build: str | None = None, python: str = sys.executable) -> Commit:
    """The commit's files in the cache, cloned and built once; for `.`, the working tree itself.

    `build` is a command line that is run once in the folder; `python` in it means the argument `python`. Without one, a
    project that must be built is built and installed, by pip or uv, into a folder of its own within the checkout.
    `PipebenchError` names the commit that could not be checked out or built, with the last lines of the output.
    """
    if name == WORKING_TREE:
        return Commit(name, None, repo)
    sha = resolve(repo, name)
    settings = hashlib.sha256(f"{MADE_BY}\0{repo}\0{build}\0{python}".encode()).hexdigest()[:12]
    folder = private.trusted(machine.cache_folder().absolute() / "ab") / f"{sha[:16]}-{settings}"
    if (
        not _is_as_made(folder)
        or submodules.could_be_filled(repo, sha, folder, _git)
        or _could_be_smudged(repo, folder)
    ):
        _sweep(folder.parent)
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, lambda partial: _fill(repo, sha, name, build, python, partial))
        if not _is_as_made(folder):
            problem = f"the checkout of {printable(name)} in {printable(folder)} changes while it is used"
            raise PipebenchError(problem, "remove that folder, and run this again")
    return Commit(name, sha, folder)


def _is_as_made(folder: Path) -> bool:
    """Whether a checkout is there and its tracked files, submodules included, are as they were when it was made."""
    try:
        return (folder / STATE).read_text(encoding="utf-8") == _state(folder)
    except (OSError, GitFailed):
        return False


def _state(folder: Path) -> str:
    """The commit of a checkout and a digest of what differs from it: nothing, or what building has written.

    Of what is installed, the names and sizes of the files.
    """
    changed = _git("diff", "--no-ext-diff", "--no-textconv", "--binary", "--submodule=diff",
                   "--ignore-submodules=untracked", "HEAD", at=folder)  # fmt: skip
    built = sorted(
        f"{one.relative_to(folder)} {one.lstat().st_size}"
        for one in (folder / INSTALLED).rglob("*")
        if one.is_file() and one.suffix != ".pyc"
    )
    digest = hashlib.sha256("\n".join((changed, *built)).encode(errors="surrogateescape")).hexdigest()
    return f"{_git('rev-parse', 'HEAD', at=folder)} {digest}"


def _make(folder: Path, fill: Callable[[Path], None]) -> None:
    """Fills a temporary folder and renames it, so that an interrupted checkout is never used."""
    partial = None
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=".making-", dir=folder.parent))
        fill(partial)
        with contextlib.suppress(OSError):  # another process was faster
            partial.rename(folder)
        if not folder.exists():
            raise PipebenchError(f"{printable(folder)} cannot be written", _FULL)
    except OSError as error:
        problem = f"{printable(folder)} cannot be written: {error.strerror or error}"
        raise PipebenchError(problem, remedy_of(error, _ELSEWHERE)) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _sweep(parent: Path) -> None:
    for left in parent.glob(".making-*"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < parent.stat().st_mtime - 86_400:
                shutil.rmtree(left, ignore_errors=True)


def _fill(repo: Path, sha: str, name: str, build: str | None, python: str, partial: Path) -> None:
    what = f"commit {printable(name)} ({sha[:8]})"
    try:
        _git("clone", "--quiet", "--shared", "--no-checkout", os.fspath(repo), os.fspath(partial), at=repo)
        if _git("rev-parse", "--is-shallow-repository", at=repo) == "true":
            _share_shallow(repo, partial)
        for setting in _settings(repo, LFS):  # `git lfs install --local`, as in a workflow
            _git("config", *setting, at=partial)
        _fetch_the_rest(repo, sha, what)
        _git("checkout", "--quiet", "--detach", sha, at=partial)
        submodules.fill(repo, sha, partial, _git)
    except GitFailed as error:
        said = printable(_last(error.said))
        remedy = _FULL if "No space left" in said else "mend what git reports"
        raise PipebenchError(f"{what} cannot be checked out: {said}", remedy) from error
    if build is not None:
        _build(what, shlex.split(build), python, partial)
    elif must_be_built(partial):
        _install(what, python, partial)
    (partial / STATE).write_text(_state(partial), encoding="utf-8")


def _share_shallow(repo: Path, partial: Path) -> None:
    """Shares all objects of a shallow clone: git copies only those of its branches, not what was fetched besides."""
    objects, shallow = (repo / _git("rev-parse", "--git-path", one, at=repo) for one in ("objects", "shallow"))
    (partial / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n", encoding="utf-8")
    shutil.copyfile(shallow, partial / ".git" / "shallow")


def _fetch_the_rest(repo: Path, sha: str, what: str) -> None:
    """Fetches what a partial clone (`--filter`) lacks of a commit, all at once: a clone of it knows no place for that.

    As git does whenever it needs such a file, it adds objects to the user's clone and changes nothing else.
    """
    if not _settings(repo, r"^remote\..*\.promisor$"):
        return
    empty = _git("hash-object", "-t", "tree", "--stdin", at=repo)
    try:
        _git("diff", "--shortstat", "--no-ext-diff", "--no-textconv", "--no-renames", empty, sha, at=repo)
    except GitFailed as error:
        said = printable(_last(error.said))
        problem = f"{what} is not whole in this partial clone, and git cannot fetch the rest: {said}"
        remedy = "fetch all: git fetch --refetch --no-filter (in a workflow: leave out `filter`)"
        raise PipebenchError(problem, remedy) from error


def _settings(repo: Path, names: str) -> list[tuple[str, str]]:
    try:
        lines = _git("config", "--get-regexp", names, at=repo).splitlines()
    except GitFailed:  # its status where there is none
        return []
    return [(name, value) for name, _, value in (one.partition(" ") for one in lines)]


def _install(what: str, python: str, partial: Path) -> None:
    """Builds a project and installs it into a folder within its checkout, with pip or, where that is missing, with uv.

    It builds in an environment of its own. If that fails, it builds in that of `python`: an extension of torch needs
    the torch that is installed.
    """
    pip = [python, "-m", "pip", *INSTALL, "--disable-pip-version-check"]
    if shutil.which("uv") and not _has(python, ["pip"]):
        pip = ["uv", "pip", *INSTALL, "--python", python]
    try:
        _build(what, [*pip, "."], python, partial)
    except PipebenchError:
        try:
            _build(what, [*pip, "--no-build-isolation", "."], python, partial)
        except PipebenchError as error:
            remedy = "build it your way with --build COMMAND; --build true, if its Python files suffice"
            raise PipebenchError(error.problem, remedy) from error


def _build(what: str, command: list[str], python: str, partial: Path) -> None:
    beside = f"{Path(python).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        done = bounded.done(command, partial, bounded.BUILD_S, shlex.join(command), {**os.environ, "PATH": beside})
    except FileNotFoundError as error:
        raise PipebenchError(f"{what} does not build: there is no {command[0]}", "name it by its path") from error
    if done.returncode != 0:
        heard = f"{done.stdout}\n{done.stderr}"
        said = f"`{shlex.join(command)}` ended with status {done.returncode}: {printable(_last(heard))}"
        remedy = _FULL if "No space left" in heard else "compare commits that build"
        raise PipebenchError(f"{what} does not build: {said}", remedy)


def _last(text: str | None) -> str:
    return " | ".join([one for one in (text or "").splitlines() if one.strip()][-KEPT_LINES:]).strip()


def _git(*arguments: str, at: Path) -> str:
    done = bounded.done([*_GIT, *arguments], at, bounded.GIT_S, f"git {arguments[0]}")
    if done.returncode != 0:
        problem = f"`git {arguments[0]}` in {printable(at)} ended with status {done.returncode}"
        raise GitFailed(f"{problem}: {printable(_last(done.stderr))}", done.stderr)
    return done.stdout.removesuffix("\n")  # a name may end with a space


def interpreter(repo: Path, needs: Sequence[str]) -> str:
    """The Python of an environment that asv built for this repository and that has `needs`; else this Python."""
    return next((python for python in _asv_pythons(repo) if _has(python, needs)), sys.executable)


def _has(python: str, needs: Sequence[str]) -> bool:
    """Whether an interpreter runs and finds these modules."""
    code = "import importlib.util as u, sys; sys.exit(any(u.find_spec(name) is None for name in sys.argv[1:]))"
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run([python, "-c", code, *needs], capture_output=True, timeout=60).returncode == 0
    return False


def python_version(python: str) -> str | None:
    """The version of an interpreter; None if it does not run."""
    if python == sys.executable:
        return platform.python_version()
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        code = "import platform; print(platform.python_version())"
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()
    return None


def dependencies_differ(repo: Path, base: str, head: str) -> list[str]:
    """One line for each file that lists dependencies (such as requirements.txt) and differs between the two sides."""
    names = ["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "environment.yml"]
    shas = [resolve(repo, name) for name in (base, head) if name != WORKING_TREE]  # one: against the working tree
    changed = _git("diff", "--name-only", *shas, "--", *names, at=repo) if shas else ""
    return [
        f"{name} differs between the two commits, but both run with the same packages" for name in changed.splitlines()
    ]


def notes(repo: Path, base: str, head: str, commits: Sequence[Commit], same: bool) -> Iterator[tuple[str, str]]:
    """What a user should know of the two checkouts, with what to do. `same`: one interpreter runs both."""
    for note in dependencies_differ(repo, base, head) if same else ():
        yield note, "give --base-python or --head-python if the difference matters"
    pointers = [(one, count, name) for one in commits for count, name in _pointers(one.folder)]
    for one, count, name in pointers:
        more = f" (and {count - 1} more)" if count > 1 else ""
        problem = f"{one.label}: {printable(name)}{more} is a pointer of Git LFS, without the contents"
        yield problem, "install git-lfs, fetch them (git lfs fetch --all; in a workflow: lfs: true), and run this again"


def _pointers(folder: Path) -> list[tuple[int, str]]:
    """How many files of a checkout are pointers of Git LFS, and the first of them; empty if none is."""
    named = _git("ls-files", "-z", "--", ":(attr:filter=lfs)", at=folder).split("\0")
    found = [one for one in named if one and _is_pointer(folder / one)]
    return [(len(found), found[0])] if found else []


def _could_be_smudged(repo: Path, folder: Path) -> bool:
    """Whether a checkout has pointers of Git LFS, and git has a filter for them: there was none, or it lacked them."""
    return bool(_settings(repo, LFS) and _pointers(folder))


def _is_pointer(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return path.is_file() and path.stat().st_size < LARGEST_POINTER and path.read_bytes().startswith(POINTER)
    return False


def _asv_pythons(repo: Path) -> list[str]:
    """The interpreters of asv's environments, found through `env_dir` in asv.conf.json."""
    place, settings = asv_suites.configuration(repo)
    folder = place / str(settings.get("env_dir", "env"))
    return [os.fspath(found.parent / "bin" / "python") for found in sorted(folder.glob("*/asv-env-info.json"))]
