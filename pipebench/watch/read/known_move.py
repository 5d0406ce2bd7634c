"""Puts a line that is known to be slow before a move that its change may make needless. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipebench.results.account import Cause, largest_saving
from pipebench.results.drilled import DrilledLine, known
from pipebench.results.next_move import NextMove
from pipebench.results.watched import WatchResult
from pipebench.watch.read.known_table import KNOWN, MODEL

_OF_STAGE = 0.3  # of the stage that is to become cheaper
_OF_SAMPLES = 0.5  # of the time in which samples are made, beside more workers
_OF_LOADING = ("stage", "cores-used-up")
_UNSURE = frozenset(one.title for one in KNOWN if not one.sure)
_BESIDE = ("set-num-workers", "raise-num-workers", "workers-for-thread", "load-validation-faster")


class _Found(NamedTuple):
    """What is known, its share of the time in which samples are made, and the largest of its lines."""

    title: str
    how: tuple[str, ...]
    share: float
    line: DrilledLine | None


def with_known_line(move: NextMove, result: WatchResult, loader: int | None) -> NextMove:
    """The same move, with the line of this loader's samples that has a large share of what the move is about."""
    if move.action == "make-stage-cheaper" and move.stage is not None:
        found = [
            one for one in _known(result, loader, move.stage) if one.share >= _OF_STAGE * _share(result, loader, move)
        ]
    elif move.action in (*_BESIDE, "make-stage-cheaper"):
        found = [one for one in _known(result, loader, None) if one.share >= _OF_SAMPLES]
    else:
        return move
    largest = max(found, key=lambda one: one.share, default=None)
    if largest is None:
        return move
    move = replace(move, title=largest.title, how=largest.how, line_share=largest.share)
    place = ("", "", 0) if largest.line is None else (largest.line.function, largest.line.file, largest.line.line)
    return replace(move, function=place[0], file=place[1], line=place[2])


def known_of_cause(causes: Sequence[Cause], result: WatchResult) -> NextMove | None:
    """The change of a line where faster loading could save most, though the workers rest at times.

    None: something else could save more, or no line of the samples is known to be slow.
    """
    first = largest_saving(causes)
    if first is None or first.code not in _OF_LOADING:
        return None
    move = with_known_line(
        NextMove("make-stage-cheaper", result.usable_cores, loader=first.loader), result, first.loader
    )
    return move if move.title else None


def _share(result: WatchResult, loader: int | None, move: NextMove) -> float:
    rows = (one for one in result.stages if one.loader == loader and one.name == move.stage)
    return max((one.worker_share for one in rows), default=1.0)


def _known(result: WatchResult, loader: int | None, stage: str | None) -> Iterator[_Found]:
    """What is known of the lines of a loader: of one stage, or of all (None)."""
    lines = (
        (row.worker_share * line.share, line)
        for row in result.drilled
        for line in (row.lines if row.loader == loader and stage in (None, row.stage) else ())
        if line.title not in _UNSURE
    )
    for share, most in known(lines):
        yield _Found(most.title, most.how, share, most)
    parts = [one for one in result.stages if one.loader == loader and one.learned]
    if parts and (stage is None or stage in [one.name for one in parts]):
        yield _Found(MODEL.title, MODEL.how, sum(one.worker_share for one in parts), None)
