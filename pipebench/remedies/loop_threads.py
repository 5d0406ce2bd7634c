"""Fewer threads of torch in the script's own process, where workers or other processes use the cores of some of them.

These threads divide each operation, and spin until the last part of it is done. With one of them without a core, small
operations take up to 100 times as long as with one thread less. Large ones are faster with all threads, also so: what
it brings is only known by trial. Sums are added up in another order then, so that the last digits differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pipebench.remedies.seen import Seen
from pipebench.remedies.source import sources
from pipebench.results.advice import Change, Finding, Rewrite

PLACE = 1
GROUP = "loop-threads"
_SEVERAL = 2
_BUSY = 0.95  # of the cores, used by the script with its workers and by others: with fewer, no thread waits
_MOST = 2.0  # speed-up, for the order of trials: no figure tells how long threads spin, and what that hides
_COST = "other last digits of sums"


def propose(seen: Seen, tried: Sequence[Finding]) -> Change | None:
    """As many threads as the others leave cores, and then half as many, as long as that gains."""
    told = seen.cause("many-threads")
    fewer = int(told.values["to_threads"]) if told is not None else _left(seen, _used(seen) + _taken(seen))
    if tried and (tried[-1].outcome != "gain" or tried[-1].change.loop_threads == 1):
        return None
    threads = tried[-1].change.loop_threads // 2 if tried else fewer
    if not (1 <= threads < threads_of(seen)) or (told is None and not _crowded(seen)):
        return None
    return with_threads(seen, Change("loop_threads", {}, _COST, predicted=_MOST, asked_for=told is not None), threads)


def beside(seen: Seen, workers: int) -> int:
    """The threads that first workers leave to training, if it uses their cores now; 0: it may have all that it has."""
    fewer = _left(seen, workers)
    crowded = (seen.loader.script_cores or 0.0) + workers > seen.cores
    return fewer if crowded and not seen.workers and fewer < threads_of(seen) else 0


def with_threads(seen: Seen, change: Change, threads: int) -> Change:
    """The change, with so many threads of torch besides, and how the user writes that."""
    call = f"torch.set_num_threads({threads})"
    written = _written(seen, call)
    how = change.how if written else (*change.how, f"Before the training loop: {call}")
    return replace(
        change, loop_threads=threads, title=call, rewrites=(*change.rewrites, *written), how=how, group=GROUP,
        at=change.at if written else None, partly=change.partly or not written,
    )  # fmt: skip


def threads_of(seen: Seen) -> int:
    """How many threads torch has in the script's own process; 0: it is not known, or a device does the work."""
    pools = seen.watched.host.pools if seen.watched.host is not None and not seen.device else ()
    found = next((one.threads for one in pools if one.where == "script" and one.name == "torch"), 0)
    return found if found >= _SEVERAL else 0


def _used(seen: Seen) -> float:
    """The cores that its workers use, or would if they were free."""
    wanted = sum(one.busy_share * one.core_wait_s / one.busy_s for one in seen.its_workers if one.busy_s)
    return min(seen.workers, sum(one.cores or 0.0 for one in seen.its_workers) + wanted)


def _taken(seen: Seen) -> float:
    return seen.watched.taken_cores


def _left(seen: Seen, used: float) -> int:
    return max(1, math.floor(seen.cores - used + 0.5))


def _crowded(seen: Seen) -> bool:
    """Whether training, its workers and others use all cores, and threads of training may lack one."""
    used, script = _used(seen), seen.loader.script_cores
    return script is not None and used + _taken(seen) > 0 and script + used + _taken(seen) >= _BUSY * seen.cores


def _written(seen: Seen, call: str) -> tuple[Rewrite, ...]:
    """A line before the statement that makes the loader, if its file imports torch."""
    made = seen.made
    if made is None:
        return ()
    for source in sources(seen):
        found = source.call_at(made) if source.file == made.file and source.imports("torch") else None
        if found is not None:
            return source.line_before(found, call)
    return ()
