"""Puts the line that takes most of making samples before a move that its change may make needless. Pure.

Of a line that is known to be slow, it is said what is written in its place, in the cause, too; another one is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipebench.results.account import IN_VAIN, Account, Cause, largest_saving
from pipebench.results.drilled import DrilledLine, known
from pipebench.results.next_move import NextMove
from pipebench.results.watched import StageResult, WatchResult
from pipebench.watch.read.known_files import REDUCED
from pipebench.watch.read.known_table import KNOWN, MODEL
from pipebench.watch.read.needless import needless_line

_OF_STAGE = 0.3  # of the stage that is to become cheaper
_OF_OTHER = 0.6  # of what that stage takes, in lines of other stages, where nothing is known of its own
_OF_SAMPLES = 0.5  # of the time in which samples are made, beside more workers
_UNKNOWN = 0.5  # of the time in which samples are made, of a line of which nothing is known
_SURE = 0.3  # the same, at least, as its looks say
_COMPUTES = 0.4  # of the time; the rest may be waits for a core
_OF_LOADING = ("stage", "cores-used-up")
_IN_LOOP, _UNTRAINED = "no-workers", "validation"
_RESIZES = "cv2.resize"
_UNSURE = frozenset(one.title for one in KNOWN if not one.sure)
_WHERE = {one.title: one.where for one in KNOWN if one.where}
_BESIDE = ("set-num-workers", "raise-num-workers", "workers-for-thread", "load-validation-faster")


class _Found(NamedTuple):
    """What is known, its share of the time in which samples are made, and the largest of its lines."""

    title: str
    how: tuple[str, ...]
    share: float
    line: DrilledLine | None
    alike: bool = False  # other lines are slow by the same


def with_known_line(move: NextMove, result: WatchResult, loader: int | None) -> NextMove:
    """The same move, with the line of this loader's samples that has a large share of what the move is about."""
    if move.action == "make-stage-cheaper" and move.stage is not None:
        stage = _share(result, loader, move)
        found = [one for one in _known(result, loader, move.stage) if one.share >= _OF_STAGE * stage]
        found = found or [one for one in _known(result, loader, None) if one.share >= _OF_OTHER * stage]
    elif move.action in (*_BESIDE, "make-stage-cheaper"):
        found = [one for one in _known(result, loader, None) if one.share >= _OF_SAMPLES]
    else:
        return move
    largest = max(found, key=lambda one: one.share, default=None)
    if largest is None:
        return _with_its_line(move, result, loader)
    move = replace(move, title=largest.title, how=largest.how, line_share=largest.share)
    if (line := largest.line) is None:
        return replace(move, function="", file="", line=0)
    move = replace(move, reread=line.reread, needless=line.needless, alike=largest.alike)
    return _at_line(move, line)


def _with_its_line(move: NextMove, result: WatchResult, loader: int | None) -> NextMove:
    """The same move, with the one line that takes most of making samples; there may be none."""
    if not _computes(result, loader):
        return move
    of = move.stage if move.action == "make-stage-cheaper" else None
    lines = (one for one in _lines(result, loader, of) if one[1].line and one[1].file)
    share, line = max(lines, key=lambda one: one[0] * one[1].share, default=(0.0, None))
    if line is None or share * line.share < _UNKNOWN or share * line.low < _SURE:
        return move
    return _at_line(replace(move, line_share=share * line.share), line)


def _at_line(move: NextMove, line: DrilledLine) -> NextMove:
    line = line.to_change
    return replace(move, function=line.function, file=line.file, line=line.line, runs=line.runs)


def _computes(result: WatchResult, loader: int | None) -> bool:
    """Whether making samples needs a core most of the time: what waits is no cheaper line, but more workers at once."""
    workers = [one for one in result.workers if one.loader == loader]
    busy = sum(one.busy_s for one in workers)
    if busy:
        return sum(one.cpu_s + one.core_wait_s for one in workers) >= _COMPUTES * busy
    own = (one for one in result.loaders if one.loader == loader and one.sample_s and one.sample_cpu_s is not None)
    return any((one.sample_cpu_s or 0.0) >= _COMPUTES * (one.sample_s or 0.0) for one in own)


def with_slow_lines(causes: Iterable[Cause], result: WatchResult, account: Account) -> tuple[Cause, ...]:
    """The causes: those of loading with the line that has a large share of it, and the most that its change could save.

    Where workers make batches, that is its share of the loop, and no more than all faster loading could save.
    """
    return tuple(_with_slow_line(one, result, account) for one in causes)


def _with_slow_line(one: Cause, result: WatchResult, account: Account) -> Cause:
    if (whole := _loading_s(one, account)) is None:
        return one
    found = [each for each in _known(result, one.loader, None) if each.share >= _OF_SAMPLES and each.line is not None]
    largest = max(found, key=lambda each: each.share, default=None)
    if largest is None or largest.line is None:
        return one
    alone = one.code == _IN_LOOP  # there, what workers could save is no limit
    most_s = one.s if alone else one.at_most_s
    at = largest.line.to_change
    told: dict[str, str | int | float] = {
        "slow_file": at.file, "slow_line": at.line, "slow_title": largest.title,
        "slow_share": largest.share, "slow_s": min(most_s, largest.share * whole), "slow_alike": int(largest.alike),
    }  # fmt: skip
    if (where := _WHERE.get(largest.title)) is not None:
        told["slow_where"] = where
    if alone:
        by_workers_s = 0.0 if IN_VAIN in one.values else one.recoverable_s or 0.0
        told["workers_s"] = by_workers_s
        if "slow_where" not in told:
            one = replace(one, recoverable_s=max(by_workers_s, float(told["slow_s"])))
    return replace(one, values={**one.values, **told})


def _loading_s(one: Cause, account: Account) -> float | None:
    """The time of which a line of the samples has a share, where faster loading helps a cause; None of another one."""
    if one.code == _UNTRAINED and "apart_s" not in one.values:  # else the line of another work is told
        return float(one.values.get("made_s", 0.0)) or None  # None: workers make batches
    if one.code == _IN_LOOP:
        return one.s
    return sum(row.s for row in account.rows if row.loader == one.loader) if one.code in _OF_LOADING else None


def known_of_cause(causes: Sequence[Cause], result: WatchResult) -> NextMove | None:
    """The change of a line where faster loading could save most, though the workers rest at times.

    None: something else could save more, or no line of the samples is known to be slow.
    """
    first = largest_saving(causes)
    if first is None or first.code not in (_IN_LOOP, *_OF_LOADING):
        return None
    move = with_known_line(
        NextMove("make-stage-cheaper", result.usable_cores, loader=first.loader), result, first.loader
    )
    return move if move.title else None


def _share(result: WatchResult, loader: int | None, move: NextMove) -> float:
    rows = (one for one in result.stages if one.loader == loader and one.name == move.stage)
    return max((one.worker_share for one in rows), default=1.0)


def _lines(result: WatchResult, loader: int | None, stage: str | None) -> Iterator[tuple[float, DrilledLine]]:
    """The lines of one stage of a loader, or of all (None), each with its row's share of making samples."""
    for row in result.drilled:
        if row.loader == loader and stage in (None, row.stage):
            yield from (
                (row.of_lines, line)
                for line in row.lines
                if line.title not in _UNSURE or row.worker_share * line.low >= _SURE
            )


def _known(result: WatchResult, loader: int | None, stage: str | None) -> Iterator[_Found]:
    """What is known of the lines of a loader: of one stage, or of all (None)."""
    for share, most, alike in known((row * line.share, line) for row, line in _lines(result, loader, stage)):
        yield _Found(most.title, most.how, share, most, alike)
    for one in result.needless if stage is None else ():
        if one.loader == loader:
            line = needless_line(one)
            yield _Found(line.title, line.how, one.share, line)
    parts = [one for one in result.stages if one.loader == loader and one.learned]
    if parts and (stage is None or stage in [one.name for one in parts]):
        yield _Found(MODEL.title, MODEL.how, sum(one.worker_share for one in parts), None)
    yield from _reduced([one for one in result.stages if one.loader == loader], stage)


def _reduced(stages: Sequence[StageResult], stage: str | None) -> Iterator[_Found]:
    """JPEGs that could be decoded smaller, with the resize that makes them so now."""
    for one in stages:
        if one.shrinks and stage in (None, one.name):
            by = {2: "a half", 4: "a quarter", 8: "an eighth"}[one.shrinks]
            how = tuple(line.format(by=one.shrinks, part=by) for line in REDUCED.how)
            resized = sum(other.worker_share for other in stages if other.name == _RESIZES)
            yield _Found(REDUCED.title, how, one.worker_share + (resized if stage is None else 0.0), None)
