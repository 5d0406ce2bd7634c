"""The lines of `--bound`: its plan, its windows, and how it ended."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from pipebench.watch.record.line import line


class Reason(NamedTuple):
    """Why a bound was not measured, or not as asked: the code and the values of a note of the report."""

    code: str
    values: dict[str, str | int | float]


@line
class BoundPlan:
    """The plan of `--bound`, written before the first window. `window` and `steps` count iterations.

    `given` is how many batches the script had before. `swept` says that a cache is cleared before each replay.
    """

    loader: int | None
    steps: int
    window: int
    rounds: int
    given: int
    batch_bytes: int
    last_level_cache_bytes: int
    swept: bool
    notes: list[Reason] = field(default_factory=list)


class CountedIteration(NamedTuple):
    """A counted iteration: its number within its window, its seconds, its samples, and how long it waited for them."""

    number: int
    seconds: float
    samples: int
    waited_s: float = 0.0


@line
class BoundWindow:
    """One window of `--bound`. Written after the window.

    `kind` is one of the kinds in `bound.schedule`. `first` is the window's first iteration in the schedule. It lasted
    from `begin` to `end` by a clock that all processes of the machine share; `each` are the iterations that count. A
    replay from the device `stayed_on_host` where no tensor was seen to be copied there. It is then none. Else,
    `on_host` is the share of the batches' bytes that stayed there.
    """

    round: int
    kind: str
    seconds: float
    samples: int
    iterations: int
    first: int = 0
    begin: float = 0.0
    end: float = 0.0
    each: list[CountedIteration] = field(default_factory=list)
    stayed_on_host: bool = False
    on_host: float = 0.0


@line
class BoundRoundVoid:
    """Says that a round of `--bound` does not count: the script changed its batches, and this was found too late."""

    round: int


@line
class BoundEnded:
    """The end of `--bound`. Written before the process ends. `problem` is None if the plan was carried out."""

    problem: Reason | None
