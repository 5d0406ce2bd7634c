"""Tells other threads of the script that keep the interpreter from its training loop. Pure.

Three things must come together: a thread uses the CPU beside the loop, whoever wants the interpreter has to wait for
it, and the loop waits meanwhile. What computes in C lacks the second, and what mostly sleeps the first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipebench.results.account import Cause
from pipebench.watch.read.moves import cores_of
from pipebench.watch.read.of_causes import MATTERS, Seen
from pipebench.watch.record.trial_lines import ThreadLooks, ThreadsBeside

CODE = "busy-thread"
_FEWEST = 20  # windows
_LARGE = 0.3  # of a core, while the loop does not wait for one: threads that use less are not told
_HELD = 0.2  # of the time in which the loop did not run: less may be by chance
_NOT_ITS_LOOP = ("start-up", "end-of-pass", "validation", "recording")  # rows of a loader, besides its iterations


class Beside(NamedTuple):
    """The share of a loop's time in which threads held it up, and those threads, the one that used the CPU most first.

    Each has the looks at all threads that were seen in its function. They used so many `cores`. `core_share` is the
    share in which the loop waited for a core, whoever had it. All are of `wall_ns`.
    """

    share: float
    core_share: float
    cores: float
    wall_ns: int
    threads: Sequence[Sequence[ThreadLooks]]


def busy_threads(seen: Seen) -> Iterable[Cause]:
    """The threads that hold up each loop. With a device, a loop may wait for that: then nothing is said to be saved."""
    for one in seen.in_loop:
        found = beside(seen.run.of_loader(ThreadsBeside, one.loader))
        if found is not None:
            loop_s = sum(row.s for row in seen.rows(loader=one.loader) if row.code not in _NOT_ITS_LOOP)
            rivals = seen.result.taken_cores + sum(map(cores_of, seen.workers(one)))
            rivals += max(found.cores, (seen.script_cores(one) or 0.0) - 1.0)
            core_s = found.core_share * found.cores / rivals * loop_s
            spent = found.share * loop_s + core_s
            saved = None if seen.on_device else spent
            values = {**_values(found), "core_s": core_s}
            yield Cause(CODE, spent, saved, one.loader, values, unsure=len(found.threads) > 1)


def beside(lines: Sequence[ThreadsBeside]) -> Beside | None:
    """What was seen beside one loop; None if nothing held it up, or too little was seen."""
    windows, off, held = (sum(getattr(one, name) for one in lines) for name in ("windows", "off", "held"))
    ready_ns = sum(one.wall_ns - one.core_wait_ns for one in lines)
    by_function = defaultdict[tuple[str, str], list[ThreadLooks]](list)
    for thread in (thread for one in lines for thread in one.threads):
        by_function[thread.file, thread.function].append(thread)
    threads = sorted((one for one in by_function.values() if _cpu_ns(one) >= _LARGE * ready_ns), key=_cpu_ns)[::-1]
    if windows < _FEWEST or not threads or held < _HELD * off:
        return None
    held_ns = (ready_ns - sum(one.cpu_ns for one in lines)) * held / off
    if held_ns < MATTERS * ready_ns:
        return None
    used_ns, wall_ns = sum(map(_cpu_ns, threads)), sum(one.wall_ns for one in lines)
    share = min(held_ns, used_ns) / wall_ns  # it waits for a thread that runs
    return Beside(share, 1 - ready_ns / wall_ns, used_ns / wall_ns, wall_ns, threads)


def _cpu_ns(threads: Iterable[ThreadLooks]) -> int:
    return sum(one.cpu_ns for one in threads)


def _values(found: Beside) -> dict[str, str | int | float]:
    """The function that used the CPU most: where it was seen most, in which threads, and how many cores they used."""
    first = found.threads[0]
    names, lines = defaultdict[str, int](int), defaultdict[int, int](int)
    for one in first:
        names[one.name] += one.cpu_ns
        lines[one.line] += one.looks
    return {
        "thread": max(names, key=lambda one: names[one]), "threads": len(names),
        "cores": _cpu_ns(first) / found.wall_ns,
        "file": first[0].file, "line": max(lines, key=lambda one: lines[one]), "function": first[0].function,
    }  # fmt: skip
