"""A rank whose siblings on its machine were not watched with it: what is not known then, and what is known later. Pure.

Siblings then look like other processes, so workers would be promised cores that all ranks want.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from pipebench.results.watched import ONE_OF_RANKS, Note, WatchResult
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves import among_ranks, next_move
from pipebench.watch.record.program_lines import RankFound

_NEED_CORES = ("set-num-workers", "raise-num-workers", "make-stage-cheaper", "workers-for-thread")


def rank_of(processes: Iterable[Process]) -> RankFound | None:
    """Which rank the script is; None if it trains alone."""
    script = next((one for one in processes if one.role == "script"), Process([]))
    found = next(reversed(script.of(RankFound)), None)
    return found if found is not None and found.of > 1 else None


def one_of_ranks(result: WatchResult, found: RankFound | None) -> WatchResult:
    """The result of a rank (None: it is none) without what depends on the cores that its siblings use."""
    if found is None:
        return result
    move = result.next_move
    withheld = move is not None and move.action in _NEED_CORES and move.hand_off_s is None
    return replace(
        result,
        next_move=None if withheld else move,
        host=None if result.host is None else replace(result.host, foreign_cores=None),
        notes=(Note(ONE_OF_RANKS, {"rank": found.rank, "of": found.of, "withheld": int(withheld)}), *result.notes),
    )


def with_siblings(result: WatchResult, others: Sequence[WatchResult], shared_cores: float) -> WatchResult:
    """The same result when the siblings on its machine are known: `others`, with which it shares so many cores."""
    note = next((one for one in result.notes if one.code == ONE_OF_RANKS), None)
    if note is None:
        return result
    main = next((one for one in result.loaders if one.loader == result.verdict.loader), None)
    move = next_move(result, main) if note.values["withheld"] and main is not None else result.next_move
    known = replace(result, next_move=move, notes=tuple(one for one in result.notes if one is not note))
    return among_ranks(known, others, 0.0, shared_cores)
