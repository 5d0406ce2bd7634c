"""The proof that a side measured its own code and its own files: where the project's modules and files came from."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipebench.compare import bounded
from pipebench.compare.provenance import INSTALLED
from pipebench.errors import PipebenchError
from pipebench.units import listed, printable

OURS = frozenset(  # read by their paths
    f"pipebench_{name}"
    for name in (
        *("round", "other_commits", "leaves", "one_pass", "one_function", "other_inputs", "provenance"),
        *("ready_clock", "gaps", "heap", "failures"),
        *("functions", "asv_suites", "pytest_side"),
    )
)
MOST_NAMED = 3
PREPARES = "datasets.arrow_dataset"  # Hugging Face's: another package may be called datasets
PREPARED_IN = ("HF_DATASETS_CACHE", "HF_HOME")
SHARED = (
    "both sides use one cache of Hugging Face datasets, which knows a function by its name: the head may read what the "
    "code of the base prepared. To give each side its own: --base-env HF_DATASETS_CACHE=$(mktemp -d) --head-env "
    "HF_DATASETS_CACHE=$(mktemp -d)"
)


@dataclass(frozen=True)
class Project:
    """The project whose commits are compared: its working tree, and its top-level modules in any of the commits.

    `named` are the modules that its benchmarks name. `measures_pipebench` is true if the project is pipebench itself.
    Elsewhere the modules of pipebench are not the project's.
    """

    tree: Path
    names: frozenset[str]
    named: frozenset[str] = frozenset()
    measures_pipebench: bool = False


def foreign(modules: Mapping[str, str], folder: Path, own: frozenset[str], project: Project) -> list[tuple[str, str]]:
    """The project's modules that were not imported from `folder`, with the files that they came from.

    `own` are the top-level modules of the commit in `folder`. An installed module is the project's if it bears the name
    of one of these: a commit may get from a package index what another has in its tree. Any other module is the
    project's if its top-level name is, or if its file lies in the working tree. So the copy in an environment, a
    checkout of asv and the working tree itself are all found.
    """
    found = _of_project(modules, own | project.named, project)
    return sorted((name, file) for name, file in found if not _lies_in(file, folder))


def _of_project(modules: Mapping[str, str], own: frozenset[str], project: Project) -> Iterator[tuple[str, str]]:
    for name, file in modules.items():
        top = name.partition(".")[0]
        if top in OURS or (top == "pipebench" and not project.measures_pipebench):
            continue
        installed = any(part in INSTALLED for part in Path(file).parts)
        if top in own or (not installed and (top in project.names or _lies_in(file, project.tree))):
            yield name, file


def _lies_in(file: str, folder: Path) -> bool:
    return Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder))


def refuse_foreign(label: str, modules: Mapping[str, str], folder: Path, own: frozenset[str], project: Project) -> None:
    """Raises `PipebenchError` if a module of the project was imported from elsewhere than the side's `folder`."""
    found = foreign(modules, folder, own, project)
    if not found:
        return
    shown = ", ".join(f"{printable(name)} from {printable(file)}" for name, file in _outermost(found)[:MOST_NAMED])
    raise PipebenchError(
        f"{label} did not run its own code: it imported {shown}",
        'name the folders of its packages in pipebench.toml (roots = ["src"]); where it must be built, use --build; '
        "or uninstall the copy that is installed",
    )


def _outermost(found: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without the modules whose package is in the list too."""
    names = {name for name, _ in found}
    return [one for one in found if one[0].rpartition(".")[0] not in names]


def refuse_other_files(label: str, opened: Sequence[str], folder: Path, project: Project) -> None:
    """Raises `PipebenchError` if a file that a side opened in the working tree is another in its commit.

    `opened` are relative to the working tree; `folder` has the commit's files. Only tracked files count: data that git
    does not know has no commit, and is the same for both sides.
    """
    tracked = _tracked(project.tree, opened) | _tracked(folder, opened)
    other = [name for name in opened if name in tracked and not _same_file(folder / name, project.tree / name)]
    if not other:
        return
    shown = listed([printable(one) for one in other], most=MOST_NAMED)
    raise PipebenchError(
        f"{label} did not read its own files: it opened {shown} of the working tree, which differs",
        "open tracked files relative to `__file__`: a relative path is seen from the current folder, on both sides",
    )


def _tracked(folder: Path, names: Sequence[str]) -> set[str]:
    """Those of `names` that git tracks in the repository of `folder`, submodules included."""
    if not names:
        return set()
    git = ["git", "-c", "core.fsmonitor=false", "ls-files", "-z", "--recurse-submodules"]
    found = bounded.done(git, folder, bounded.GIT_S, "git ls-files").stdout.split("\0")
    return set(found) & set(names)


def _same_file(one: Path, other: Path) -> bool:
    return one.is_file() and filecmp.cmp(one, other, shallow=False)


def share_prepared_data(modules: Sequence[Mapping[str, str]], environments: Sequence[Mapping[str, str]]) -> bool:
    """Whether both sides use Hugging Face datasets with one cache of prepared data.

    Its key holds the name of a function, or of a module, and not what the function does, so it is no proof of anything.
    """
    places = [[one.get(name) for name in PREPARED_IN] for one in environments]
    return all(PREPARES in one for one in modules) and places[0] == places[1]
