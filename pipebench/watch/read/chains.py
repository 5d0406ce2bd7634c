"""Reads what each stage of a chain of iterators passed on, such as webdataset's, in one worker. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from pipebench.watch.read.gather import Process
from pipebench.watch.record.lines import FetchSums, StageName

MAKES = ("decode", "transform")  # kinds of rows
_UNNAMED = "<lambda>"  # several of them share one count


class Link(NamedTuple):
    """A stage of a chain: how many items came to it from the one before, and how many it gave on.

    `makes` says whether a stage before it decodes or transforms.
    """

    number: int
    stage: StageName
    came: int
    gave: int
    makes: bool


def counts(process: Process) -> Counter[int]:
    """The items that each stage of a worker's chain gave on. Their numbers are in the order of the chain."""
    gave: Counter[int] = Counter()
    for line in process.of(FetchSums):
        gave.update(line.gave)
    return gave


def chain(process: Process) -> list[Link]:
    """The stages of a worker's chain behind the first one. What comes from a stage without a name is not known."""
    gave = counts(process)
    found: list[Link] = []
    makes = False
    for before, number in pairwise(sorted(gave)):
        earlier = process.stage(before)
        makes = makes or earlier.kind in MAKES
        if earlier.name != _UNNAMED:
            found.append(Link(number, process.stage(number), gave[before], gave[number], makes))
    return found
