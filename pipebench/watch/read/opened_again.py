"""Says which files are opened again and again while samples are made, from looks at the workers. Pure.

A look at a line also sees which files its process has open. One that is open, closed, and open again was opened anew.
What is opened once in each pass, as a shard is, does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pipebench.watch.launch.stacks import Look, Looks
from pipebench.watch.read.gather import Run
from pipebench.watch.record.lines import LoaderFound, PassBegun

_FEWEST = 3  # times, beside one in each pass
_OF_LINE = 0.8  # of the looks at a line


def opened_again(run: Run, looks: Looks) -> dict[int, frozenset[str]]:
    """The files that the processes of each loader opened again and again."""
    times: Counter[tuple[int, str]] = Counter()
    passes: Counter[int] = Counter()
    for who, seen in looks.of.items():
        times.update({(who.loader, file): count for file, count in _again(seen).items()})
        if any(one.persistent or not one.workers for one in run.of_loader(LoaderFound, who.loader)):
            passes[who.loader] += len(run.of_loader(PassBegun, who.loader))
    found: dict[int, set[str]] = {}
    for (loader, file), count in times.items():
        if count >= passes[loader] + _FEWEST:
            found.setdefault(loader, set()).add(file)
    return {who.loader: frozenset(found.get(who.loader, ())) for who in looks.of}


def _again(seen: Iterable[Look]) -> Counter[str]:
    """How often each file was found open after it had been found closed again."""
    times: Counter[str] = Counter()
    before: frozenset[str] = frozenset()
    known: set[str] = set()
    for one in seen:
        if one.files is not None:
            times.update((one.files - before) & known)
            known |= one.files
            before = one.files
    return times


def open_at(looks: Sequence[Look], files: frozenset[str]) -> str:
    """Which of these files is open while a line runs, as these looks at it found; "" if none is at most of them."""
    held = [one.files & files for one in looks if one.files is not None]
    file, count = next(iter(Counter(file for each in held for file in each).most_common(1)), ("", 0))
    return file if held and count >= _OF_LINE * len(held) else ""
