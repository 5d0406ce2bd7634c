"""`pipebench.toml`: what `ab` and asv measure of a project that is not pipebench."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.units import printable

CONFIG = "pipebench.toml"
WHOLE = "all"  # all transforms, one after the other


@dataclass(frozen=True)
class Own:
    """The contents of `pipebench.toml`: the names of the two functions, and the lasting names of the benchmarks."""

    loader: str
    transform: str | None = None
    transforms: tuple[str, ...] = ()  # in order; n/a in a commit that lacks the name
    workers: tuple[int, ...] = (0, 2)
    roots: tuple[str, ...] = ()  # the folders of its packages, where they cannot be found by themselves
    samples: int = 64  # how many samples one call reads or transforms at most; the same in all runs

    @property
    def benchmarks(self) -> list[str]:
        """The identities of all benchmarks."""
        steps = [f"transform/own/{name}" for name in (*self.transforms, WHOLE)] if self.transform else []
        return ["read/own/sample", *steps, "collate/own/batch", *(f"loader/own/workers-{n}" for n in self.workers)]


def load(path: Path) -> Own:
    """Reads `pipebench.toml`. Raises `PipebenchError`, which says what is wrong with it."""
    known = {one.name for one in fields(Own)}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        lists: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
        if set(found) - known:
            raise ValueError(f"unknown keys: {', '.join(sorted(set(found) - known))}")
        return Own(**lists)
    except (OSError, ValueError, TypeError) as error:
        problem = f"{printable(path)} cannot be used: {printable(str(error))}"
        raise PipebenchError(problem, "write it again with `pipebench init --force`") from error
