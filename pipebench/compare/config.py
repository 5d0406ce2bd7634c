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
    startup: tuple[int, ...] = ()  # the start-up of so many workers is a row of its own
    image: str | int | None = None  # `[sample] image`: the entry of a sample that is its image

    @property
    def benchmarks(self) -> list[str]:
        """The identities of all benchmarks."""
        steps = [f"transform/own/{name}" for name in (*self.transforms, WHOLE)] if self.transform else []
        return ["read/own/sample", *steps, "collate/own/batch", *self._loaders]

    @property
    def _loaders(self) -> list[str]:
        passes = [f"loader/own/workers-{n}" for n in self.workers]
        return [*passes, *(f"loader/own/startup-{n}" for n in self.startup)]


def load(path: Path) -> Own:
    """Reads `pipebench.toml`. Raises `PipebenchError`, which says what is wrong with it."""
    known = {one.name for one in fields(Own)} - {"image"}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        sample = _sample(found.pop("sample", {}))
        lists: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
        if set(found) - known:
            raise ValueError(f"unknown keys: {', '.join(sorted(set(found) - known))}")
        return Own(**lists, **sample)
    except (OSError, ValueError, TypeError) as error:
        problem = f"{printable(path)} cannot be used: {printable(str(error))}"
        raise PipebenchError(problem, "write it again with `pipebench init --force`") from error


def _sample(table: Any) -> dict[str, Any]:
    """The table `[sample]`: its `image` is the key, field or position of the image in a sample."""
    if not isinstance(table, dict) or set(table) - {"image"} or not isinstance(table.get("image", ""), str | int):
        raise ValueError('[sample] has one key: image = "name", or the position of the image')
    return table
