"""Where the series of a run can go: one module each, with a class `Sink`. Adding a sink adds one file.

`--log NAME:PLACE` opens the sink of the module NAME. In a module, `PLACE` says what stands there ("FILE", "DIR"; "":
nothing does). A sink runs in a process of its own, so it may import anything, and may fail or hang. `library()`, where
there is one, imports what it needs, and raises UsageError if that is missing. An exception of `write` ends the sink.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pipebench.errors import UsageError, did_you_mean
from pipebench.units import printable


@dataclass(frozen=True)
class Point:
    """The figures of some iterations by the names of their series. docs/commands/watch.md says what each means.

    `at_s` is when they ended, in seconds since 1970. `iteration` counts those of the loop so far. `program` tells the
    programs of a command apart ("": the only one, or the first).
    """

    at_s: float
    iteration: int
    values: dict[str, float]
    program: str = ""

    def named(self) -> dict[str, float]:
        """The figures by the names that they have beside those of a script."""
        place = f"pipebench/{self.program}/" if self.program else "pipebench/"
        return {place + name: value for name, value in self.values.items()}


class Open(Protocol):
    """A sink that was opened."""

    def write(self, point: Point) -> None:
        """Writes a point, so that who looks sees it now."""

    def close(self) -> None:
        """Writes what is left."""


class Destination(NamedTuple):
    """One `--log`: the kind of the sink, and its place."""

    kind: str
    place: str

    @property
    def is_file(self) -> bool:
        return kinds()[self.kind] == f"{self.kind}:FILE"

    def __str__(self) -> str:
        return ":".join(filter(None, self))


def kinds() -> dict[str, str]:
    """What may stand after `--log`, by the name of the sink: `csv` is `csv:FILE`."""
    names = [one.name for one in pkgutil.iter_modules(__path__)]
    return {one: ":".join(filter(None, (one, importlib.import_module(f"{__name__}.{one}").PLACE))) for one in names}


def destinations(asked: Sequence[str]) -> list[Destination]:
    """What was asked for by `--log`. Raises UsageError for what there is not."""
    known, found = kinds(), []
    for text in asked:
        kind, _, place = text.partition(":")
        if kind not in known:
            near = did_you_mean(kind, known)
            raise UsageError(
                f"nothing is logged to {printable(text)}", f"{near}--log takes {', '.join(known.values())}"
            )
        if bool(place) != (":" in known[kind]):
            raise UsageError(f"--log {printable(text)} is not complete, or too long", f"write --log {known[kind]}")
        found.append(Destination(kind, os.path.expanduser(place)))  # a shell leaves `csv:~/series.csv` as it is
    return found


def opened(asked: Sequence[Destination]) -> dict[str, Open]:
    """Opens the sinks, once the libraries of all are there: else none is opened, so that no file is left behind."""
    modules = [importlib.import_module(f"{__name__}.{one.kind}") for one in asked]
    for module in modules:
        if hasattr(module, "library"):
            module.library()
    return {str(one): module.Sink(one.place) for one, module in zip(asked, modules, strict=True)}
