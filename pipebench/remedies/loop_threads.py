"""Other numbers of torch's threads in the script's own process.

Fewer, where workers or other processes use the cores of some of them, and more, where one trains and cores are idle.

These threads divide each operation, and spin until the last part of it is done. With one of them without a core, small
operations take longer than with one thread less (docs/figures/watch.md). Large ones may be faster with all threads,
also so: what it brings is only known by trial. Sums are added up in another order then, so that the last digits differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pipebench.remedies.seen import Seen, without_share
from pipebench.remedies.source import sources
from pipebench.results.advice import Change, Finding, Rewrite
from pipebench.watch.read.moves import threads_beside, threads_of_torch, waited_for

PLACE = 1
GROUP = "loop-threads"
_SEVERAL = 2
_ONE_CORE, _FREE, _MOSTLY = 1.1, 0.5, 0.5  # cores of a script with one thread, cores that idle, and training's time
_BUSY = 0.95  # of the cores, used by the script with its workers and by others: with fewer, no thread waits
_MOST = 2.0  # speed-up, for the order of trials: no figure tells how long threads spin, and what that hides
# The logarithm of the gain. Within minutes, pairs of one setting had 0.13 (docs/figures/watch.md); other load differs.
_VARIES = 0.2
_COST = "other last digits of sums"


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    """As many threads as the others leave cores, and then half as many, as long as that gains. Or all cores for one."""
    if not tried and (more := _more(seen)) is not None:
        return more
    told = seen.cause("many-threads")
    fewer = int(told.values["to_threads"]) if told is not None else _left(seen, _used(seen) + _taken(seen))
    if tried and (tried[-1].outcome != "gain" or tried[-1].change.loop_threads == 1 or not threads_of(seen)):
        return None
    threads = tried[-1].change.loop_threads // 2 if tried else fewer
    if not (1 <= threads < threads_of(seen)) or (told is None and not _crowded(seen)):
        return None
    return with_threads(seen, Change("loop_threads", {}, predicted=_MOST, asked_for=told is not None), threads)


def _more(seen: Seen) -> Change | None:
    """Threads for the idle cores, if torch has one and that trains most of the time."""
    told, script = seen.cause("few-threads"), seen.loader.script_cores
    idle = seen.cores - (script or 0.0) - _used(seen) - _taken(seen)
    trains = 1 - seen.wait_share
    if (
        seen.device
        or threads_of_torch(seen.watched) != 1
        or script is None
        or script > _ONE_CORE
        or idle < _FREE
        or trains < _MOSTLY
    ):
        return None
    threads = 1 + max(1, round(idle))
    most = without_share(trains * (1 - 1 / threads))
    return with_threads(seen, Change("loop_threads", {}, predicted=most, asked_for=told is not None), threads)


def beside(seen: Seen, workers: int) -> int:
    """The threads that so many first workers leave to training, if it uses their cores now; 0: it may have all."""
    fewer = (
        threads_beside(seen.watched, seen.loader, workers, seen.cores) if not seen.workers and not seen.device else None
    )
    return fewer or 0


def with_threads(seen: Seen, change: Change, threads: int) -> Change:
    """The change, with so many threads of torch besides, and how the user writes that."""
    call, cost = f"torch.set_num_threads({threads})", "; ".join(filter(None, (change.cost, _COST)))
    written = _written(seen, call, threads)
    how = change.how if written else (*change.how, f"Before the training loop: {call}")
    return replace(
        change, loop_threads=threads, title=call, rewrites=(*change.rewrites, *written), how=how, group=GROUP,
        cost=cost, at=change.at if written else None, partly=change.partly or not written,
        varies=max(change.varies, _VARIES),
    )  # fmt: skip


def threads_of(seen: Seen) -> int:
    """How many threads torch has in the script's own process; 0: one, it is not known, or a device does the work."""
    found = 0 if seen.device else threads_of_torch(seen.watched)
    return found if found >= _SEVERAL else 0


def _used(seen: Seen) -> float:
    """The cores that its workers use, or would if they were free."""
    return min(seen.workers, sum(one.cores or 0.0 for one in seen.its_workers) + waited_for(seen.its_workers))


def _taken(seen: Seen) -> float:
    """What other processes use of its cores. Of ranks, each has its part of them, and what others use is theirs."""
    return seen.watched.taken_cores if seen.ranks == 1 else 0.0


def _left(seen: Seen, used: float) -> int:
    return max(1, math.floor(seen.cores - used + 0.5))


def _crowded(seen: Seen) -> bool:
    """Whether training, its workers and others use all cores, and threads of training may lack one."""
    used, script = _used(seen), seen.loader.script_cores
    return script is not None and used + _taken(seen) > 0 and script + used + _taken(seen) >= _BUSY * seen.cores


def _written(seen: Seen, call: str, threads: int) -> tuple[Rewrite, ...]:
    """The number in the file's own call that sets it; else a line before the statement that makes the loader.

    Nothing if the file has several such calls, or does not import torch before that statement.
    """
    made = seen.made
    if made is None:
        return ()
    for source in sources(seen):
        found, calls = source.call_at(made) if source.file == made.file else None, source.calls_of("set_num_threads")
        if found is None:
            continue
        if len(calls) == 1 and len(calls[0].args) == 1:
            (number,) = calls[0].args
            return (Rewrite(source.file, source.begin(number), source.end(number), str(threads)),)
        return source.line_before(found, call) if not calls and source.imports("torch", found) else ()
    return ()
