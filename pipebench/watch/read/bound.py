"""Computes the result of a run with `--bound`: replayed windows compared with live ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from pipebench.results.watched import BoundResult, Note
from pipebench.results.windows import LoopWindow, throughput
from pipebench.stats import Speedup, compare
from pipebench.watch.bound.schedule import BUSY, DEVICE, IDLE, LIVE
from pipebench.watch.record.bound_lines import BoundEnded, BoundPlan, BoundRoundVoid, BoundWindow, Reason
from pipebench.watch.record.lines import Line

_SOME = 0.01  # of a batch's bytes: less is lengths and labels
Kind = TypeVar("Kind", BoundPlan, BoundWindow, BoundRoundVoid, BoundEnded)


def bound_result(lines: Sequence[Line]) -> BoundResult:
    """The result of one run, from its lines."""
    plan, end = next(iter(_of(lines, BoundPlan)), None), next(iter(_of(lines, BoundEnded)), None)
    if plan is None:
        return BoundResult(notes=(_note(end.problem) if end and end.problem else Note("no-training-loop"),))
    windows = _windows(lines)
    live, pairs = windows.get(LIVE, {}), {kind: _pairs(windows, kind) for kind in (IDLE, BUSY, DEVICE)}
    rates = {kind: throughput([mine for mine, _ in found]) if found else None for kind, found in pairs.items()}
    return BoundResult(
        loader=plan.loader,
        rounds=len(pairs[IDLE]),
        window=plan.window,
        live=throughput(list(live.values())) if live else None,
        bound=rates[IDLE],
        bound_busy=rates[BUSY],
        bound_device=rates[DEVICE],
        bound_over_live=_over_live(pairs[IDLE]),
        busy_over_live=_over_live(pairs[BUSY]),
        device_over_live=_over_live(pairs[DEVICE]),
        window_bytes=plan.batch_bytes * plan.window,
        last_level_cache_bytes=plan.last_level_cache_bytes,
        swept=plan.swept,
        complete=end is not None and end.problem is None,
        notes=tuple(_notes(plan, end, lines, len(pairs[IDLE]))),
    )


def _of(lines: Sequence[Line], kind: type[Kind]) -> list[Kind]:
    return [one for one in lines if isinstance(one, kind)]


def _windows(lines: Sequence[Line]) -> dict[str, dict[int, LoopWindow]]:
    """Kind -> round -> window. Windows that do not count are left out: of void rounds, empty, or no replay."""
    void = {one.round for one in _of(lines, BoundRoundVoid)}
    found: dict[str, dict[int, LoopWindow]] = {}
    for one in _of(lines, BoundWindow):
        if one.round not in void and one.samples and one.seconds > 0 and not one.stayed_on_host:
            window = LoopWindow(elapsed_s=one.seconds, samples=one.samples, iterations=one.iterations)
            found.setdefault(one.kind, {})[one.round] = window
    return found


def _pairs(windows: dict[str, dict[int, LoopWindow]], kind: str) -> list[tuple[LoopWindow, LoopWindow]]:
    """The windows of `kind`, each with the live window that it replayed."""
    live = windows.get(LIVE, {})
    return [(one, live[turn]) for turn, one in sorted(windows.get(kind, {}).items()) if turn in live]


def _over_live(pairs: Sequence[tuple[LoopWindow, LoopWindow]]) -> Speedup | None:
    if not pairs:
        return None
    return compare([_cost(mine) for mine, _ in pairs], [_cost(live) for _, live in pairs])


def _cost(window: LoopWindow) -> float:
    return window.elapsed_s / window.samples


def _note(reason: Reason) -> Note:
    return Note(reason.code, reason.values)


def _notes(plan: BoundPlan, end: BoundEnded | None, lines: Sequence[Line], rounds: int) -> Iterable[Note]:
    yield from map(_note, plan.notes)
    if not rounds and any(one.kind != LIVE for one in _of(lines, BoundWindow)):
        yield Note("passes-too-short")
    if end is None:
        done = {"rounds": rounds, "planned": plan.rounds} if _of(lines, BoundWindow) else {}
        yield Note("ended-early", {**done, "steps": plan.steps})
    elif end.problem:
        yield _note(end.problem)
    if _of(lines, BoundRoundVoid):
        yield Note("round-void")
    yield from _on_host(_of(lines, BoundWindow))
    if plan.swept:
        window_bytes = plan.batch_bytes * plan.window
        yield Note("cache-swept", {"window_bytes": window_bytes, "cache_bytes": plan.last_level_cache_bytes})
    elif not plan.last_level_cache_bytes:
        yield Note("cache-unknown")


def _on_host(windows: Sequence[BoundWindow]) -> Iterable[Note]:
    """What a replay from the device did not have there."""
    if any(one.stayed_on_host for one in windows):
        yield Note("bound-stayed-on-host")
    left = [one.on_host for one in windows if one.kind == DEVICE and not one.stayed_on_host]
    if left and fmean(left) >= _SOME:
        yield Note("bound-partly-on-host", {"share": fmean(left)})
