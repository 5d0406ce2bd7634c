"""What a run with --bound found: live beside replayed windows, as plain values and as one line of the report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from pipebench.results.watched import BoundResult
from pipebench.results.windows import LoopWindow, throughput
from pipebench.stats import Speedup, compare
from pipebench.units import size
from pipebench.watch.bound.schedule import BUSY, DEVICE, IDLE, LIVE
from pipebench.watch.record.lines import BoundEnded, BoundPlan, BoundRoundVoid, BoundWindow, Line

Kind = TypeVar("Kind", BoundPlan, BoundWindow, BoundRoundVoid, BoundEnded)


def bound_result(lines: Sequence[Line]) -> BoundResult:
    """The result of the lines of one run."""
    plan, end = next(iter(_of(lines, BoundPlan)), None), next(iter(_of(lines, BoundEnded)), None)
    if plan is None:
        why = end.problem if end and end.problem else "no loop over a DataLoader was seen to train"
        return BoundResult(notes=(why,))
    windows = _windows(lines)
    live, pairs = windows.get(LIVE, {}), {kind: _pairs(windows, kind) for kind in (IDLE, BUSY, DEVICE)}
    return BoundResult(
        loader=plan.loader,
        rounds=len(pairs[IDLE]),
        window=plan.window,
        live=throughput(list(live.values())) if live else None,
        **{kind: throughput([mine for mine, _ in found]) for kind, found in pairs.items() if found},
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
    """Kind -> round -> window, of those in which anything was counted and that are not void."""
    void = {one.round for one in _of(lines, BoundRoundVoid)}
    found: dict[str, dict[int, LoopWindow]] = {}
    for one in _of(lines, BoundWindow):
        if one.round not in void and one.samples and one.seconds > 0:
            window = LoopWindow(elapsed_s=one.seconds, samples=one.samples, iterations=one.iterations)
            found.setdefault(one.kind, {})[one.round] = window
    return found


def _pairs(windows: dict[str, dict[int, LoopWindow]], kind: str) -> list[tuple[LoopWindow, LoopWindow]]:
    """The windows of `kind`, each with the live one that it replayed."""
    live = windows.get(LIVE, {})
    return [(one, live[turn]) for turn, one in sorted(windows.get(kind, {}).items()) if turn in live]


def _over_live(pairs: Sequence[tuple[LoopWindow, LoopWindow]]) -> Speedup | None:
    if not pairs:
        return None
    return compare([_cost(mine) for mine, _ in pairs], [_cost(live) for _, live in pairs])


def _cost(window: LoopWindow) -> float:
    return window.elapsed_s / window.samples


def _notes(plan: BoundPlan, end: BoundEnded | None, lines: Sequence[Line], rounds: int) -> Iterable[str]:
    yield from plan.notes
    if not rounds and any(one.kind != LIVE for one in _of(lines, BoundWindow)):
        yield "no window had an iteration that could be counted: passes are so short that all of them is start-up"
    if end is None:
        where = (
            f"after {rounds} of {plan.rounds} rounds"
            if _of(lines, BoundWindow)
            else "before its first window was complete"
        )
        yield f"the script ended {where}: it takes {plan.steps} iterations"
    elif end.problem:
        yield end.problem
    if _of(lines, BoundRoundVoid):
        yield "a round is left out: the script changes its batches in place, and copies of them were too late"
    if plan.swept:
        yield (
            f"a window's batches ({size(plan.batch_bytes * plan.window)}) do not exceed 1.2 times the last-level "
            f"cache ({size(plan.last_level_cache_bytes)}): as much other memory was written before each replay"
        )
    elif not plan.last_level_cache_bytes:
        yield "the size of the last-level cache is not known: replayed batches may have been found in it"
