"""`pipebench.toml`: what `ab` and asv measure of a project that is not pipebench."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from pipebench.errors import PipebenchError
from pipebench.units import printable

CONFIG = "pipebench.toml"
MOST_BYTES = 1 << 20
MOST_WORKERS = 1024
WHOLE = "all"  # all transforms, one after the other


@dataclass(frozen=True)
class Benchmark:
    """An entry `[[benchmark]]`: a function of the repository's own, under a lasting name.

    `setup` names the function, as module:function, that returns the callable that is timed, or a tuple of the callable
    and its arguments. `samples` is how many samples one call processes. `check` names a function that gets the output
    of a call, and raises or returns False if it is wrong.
    """

    name: str
    setup: str
    samples: int = 1
    check: str | None = None

    def __post_init__(self) -> None:
        """Raises `ValueError` if a value has another form."""
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.-]+", self.name):
            raise ValueError(f"the name of a benchmark has only letters, digits, `_`, `.` and `-`, not {self.name!r}")
        for one in (self.setup, self.check or self.setup):
            if not isinstance(one, str) or not re.fullmatch(r"[\w.]+:[\w.]+", one):
                raise ValueError(f"benchmark {self.name}: {one!r} is not the name of a function, module:function")
        if not isinstance(self.samples, int) or self.samples < 1:
            raise ValueError(f"benchmark {self.name}: samples is {self.samples!r}, not a positive number")


@dataclass(frozen=True)
class Own:
    """The contents of `pipebench.toml`: the names of the functions, and the lasting names of the benchmarks.

    Without a `loader`, only the functions that `benchmark` lists are measured.
    """

    loader: str | None = None
    transform: str | None = None
    transforms: tuple[str, ...] = ()  # in order; n/a in a commit that lacks the name
    workers: tuple[int, ...] = (0, 2)
    roots: tuple[str, ...] = ()  # the folders of its packages, where they cannot be found by themselves
    samples: int = 64  # how many samples one call reads or transforms at most; the same in all runs
    benchmark: tuple[Benchmark, ...] = ()
    startup: tuple[int, ...] = ()  # the start-up of so many workers is a row of its own
    image: str | int | None = None  # `[sample] image`: the entry of a sample that is its image

    def __post_init__(self) -> None:
        """Raises `ValueError` if a number is out of its range. msgspec checks the types."""
        if isinstance(self.samples, int) and self.samples < 1:
            raise ValueError(f"samples is {self.samples}, not a positive number")
        for name in ("workers", "startup"):
            numbers = getattr(self, name)
            if isinstance(numbers, tuple) and any(
                isinstance(one, int) and not 0 <= one <= MOST_WORKERS for one in numbers
            ):
                raise ValueError(f"{name} has numbers from 0 to {MOST_WORKERS}")

    @property
    def benchmarks(self) -> list[str]:
        """The identities of all benchmarks."""
        functions = [f"bench/{one.name}" for one in self.benchmark]
        if self.loader is None:
            return functions
        steps = [f"transform/own/{name}" for name in (*self.transforms, WHOLE)] if self.transform else []
        whole = [f"loader/own/workers-{n}" for n in self.workers] + [f"loader/own/startup-{n}" for n in self.startup]
        return ["read/own/sample", *steps, "collate/own/batch", *whole, *functions]

    @property
    def modules(self) -> frozenset[str]:
        """The top-level modules that the benchmarks name."""
        functions = [self.loader, self.transform, *(name for one in self.benchmark for name in (one.setup, one.check))]
        return frozenset(name.partition(":")[0].partition(".")[0] for name in functions if name)

    def plain(self) -> dict[str, Any]:
        """The settings for a side of a comparison, in which `sources` says what is measured besides a loader.

        What is as usual is left out, because a side may have an older pipebench of its own.
        """
        found = {one.name: getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default}
        functions = [asdict(one) for one in found.pop("benchmark", ())]
        return {**found, "sources": {"bench": functions}} if functions else found


def load(path: Path) -> Own:
    """Reads `pipebench.toml`. Raises `PipebenchError`, which says what is wrong with it."""
    known = {one.name for one in fields(Own)} - {"image"}
    try:
        if not path.is_file():
            raise ValueError("it is not a regular file")  # to read a pipe could take for ever
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES >> 20} MiB")
        found = tomllib.loads(path.read_text(encoding="utf-8"))
        sample = _sample(found.pop("sample", {}))
        lists: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
        if set(found) - known:
            raise ValueError(f"unknown keys: {', '.join(sorted(set(found) - known))}")
        if "loader" not in found and "benchmark" not in found:
            raise ValueError("it has neither a loader nor a [[benchmark]]")
        made = Own(**{**lists, **sample, "benchmark": _functions(found.get("benchmark", []))})
        return msgspec.convert(asdict(made), type=Own, strict=True)  # dataclasses do not look at types
    except (OSError, ValueError, TypeError, RecursionError, msgspec.ValidationError) as error:
        problem = f"{printable(path)} cannot be used: {printable(str(error).removeprefix('Benchmark.__init__() '))}"
        raise PipebenchError(problem, "mend it, or write it again with `pipebench init --force`") from error


def _functions(entries: Any) -> tuple[Benchmark, ...]:
    """The entries `[[benchmark]]`. Raises `ValueError` or `TypeError` for one that cannot be used."""
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise ValueError("benchmark is not a list of tables: write [[benchmark]] with two brackets")
    made = tuple(Benchmark(**one) for one in entries)
    twice = [name for name, count in Counter(one.name for one in made).items() if count > 1]
    if twice:
        raise ValueError(f"two benchmarks have the name {twice[0]}")
    return made


def _sample(table: Any) -> dict[str, Any]:
    """The table `[sample]`: its `image` is the key, field or position of the image in a sample."""
    if not isinstance(table, dict) or set(table) - {"image"} or not isinstance(table.get("image", ""), str | int):
        raise ValueError('[sample] has one key: image = "name", or the position of the image')
    return table
