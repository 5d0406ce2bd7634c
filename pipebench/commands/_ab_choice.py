"""What `pipebench ab` compares: stages, functions of `pipebench.toml`, benchmarks of an asv suite, or tests."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipebench.errors import UsageError
from pipebench.units import printable

if TYPE_CHECKING:
    from pipebench.compare.config import Own

MAIN = (
    "read/image/open", "decode/rgb/pillow", "crop/resized-224/tensor-first", "transform/flip-normalise/v1-sample",
    "collate/float32/default", "step/small/eager",
)  # fmt: skip


def measures(
    own: Own | None,
    stages: Sequence[str],
    names: Sequence[str],
    asv: str | None,
    tests: Sequence[str],
    repo: Path,
) -> tuple[dict[str, Any] | None, list[str]]:
    """The settings for the sides, and the identities of what is compared.

    The benchmarks of an asv suite and the tests are found by the sides: these names are not known before.
    Tests are named from the current folder, which is in the repository `repo`.
    """
    if asv is None and not tests:
        return own.plain() if own else None, _chosen(own, stages, names)
    if stages or names:
        problem = "--asv and --pytest choose benchmarks by their own names"
        raise UsageError(problem, "leave out --stage and --variant, or --asv and --pytest")
    sources: dict[str, Any] = {"asv": {"wanted": _regex(asv)}} if asv is not None else {}
    within = os.path.relpath(Path.cwd(), repo)
    sources |= {"pytest": {"tests": [_from_here(one, repo) for one in tests], "within": within}} if tests else {}
    return {"sources": sources}, []


def _from_here(test: str, repo: Path) -> str:
    """A test with its file seen from the current folder. Each side has a file of its own, so no path is absolute."""
    path, colons, inner = test.partition("::")
    found = os.path.relpath(os.path.realpath(path)) if os.path.isabs(path) else path
    if not Path(os.path.abspath(found)).is_relative_to(repo):
        raise UsageError(f"{printable(path)} is not in the repository", "name a test of the commits that you compare")
    return f"{found}{colons}{inner}"


def _regex(text: str) -> str:
    try:
        return re.compile(text).pattern
    except re.error as error:
        raise UsageError(f"{text!r} is not a regular expression: {error}", "write it as for asv's --bench") from error


def _chosen(own: Own | None, stages: Sequence[str], names: Sequence[str]) -> list[str]:
    """Identities of what is compared; a usage error where nothing has the wanted stage or name."""
    if own is not None:
        known = own.benchmarks
        kept = [one for one in known if not stages or one.partition("/")[0] in stages]
        kept = [one for one in kept if not names or one.rpartition("/")[2] in names]
        if not kept:
            raise UsageError("no benchmark has this stage and name", f"choose from {', '.join(known)}")
        return kept
    if not stages and not names:
        return list(MAIN)
    from pipebench.lab import whole_run

    return [one.id for one in whole_run.select(stages, names).variants if one.runner is None]
