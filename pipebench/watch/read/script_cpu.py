"""The CPU time that the script's own process uses in the iterations of a loop. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipebench.watch.record.lines import LoopSums

# For so long, a thread of OpenMP spins for more work (libgomp: 300,000 turns of a loop; 7 to 15 ms were measured).
_SPINS_S = 0.015
_ALONE = 1.1  # from begin to begin, over its own phases: more is another loop inside


class Stretch(NamedTuple):
    """What the process used in some iterations: CPU time, and waits of the loop's thread and of a helper for a core."""

    turns: int
    wall_ns: int
    cpu_ns: int
    waited_ns: int
    helper_ns: int = 0


def without_spinning(cpu_s: float, most_s: float, turns: float = 1.0) -> float:
    """The CPU time of training in so many iterations of a loop without workers, where it can have used `most_s`.

    What is above that may be threads that spin for more work while a batch is made. More than they spin is other work.
    """
    return cpu_s - min(max(0.0, cpu_s - most_s), _SPINS_S * turns)


def stretches(turns: Iterable[LoopSums]) -> Sequence[Stretch]:
    """The iterations of each line of a loop but the first of each pass, in the order in which they were written.

    The CPU time is of the whole process. So iterations with another loop inside, such as a validation, are left out if
    there are others. If there are none, as of loaders in step, the wall time is that of both loops.
    """
    alone, mixed, last = list[Stretch](), list[Stretch](), list[Stretch]()
    for _, lines in itertools.groupby(turns, key=lambda one: one.number_of_pass):
        for before, line, following in _with_neighbours(list(lines)):
            if not before.process_cpu_ns:
                continue
            own = sum(line.phases_ns)
            found = Stretch(
                line.turns, own, line.process_cpu_ns - before.process_cpu_ns, line.core_wait_ns - before.core_wait_ns,
                max(0, line.helper_wait_ns - before.helper_wait_ns),
            )  # fmt: skip
            wall = following.begin - line.begin if following is not None else 0
            if wall > _ALONE * own:
                mixed.append(found._replace(wall_ns=wall))
            else:
                (alone if wall else last).append(found)
    # What follows the last line of a pass is not known: it may have a loop inside, too.
    return alone or mixed or last


def _with_neighbours(lines: Sequence[LoopSums]) -> Iterable[tuple[LoopSums, LoopSums, LoopSums | None]]:
    return zip(lines, lines[1:], [*lines[2:], None], strict=False)
