"""Says what limits the loop, with the evidence, and suggests one next move if a measurement supports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipebench.results.watched import LoaderResult, NextMove, Verdict, WaitPart, WatchResult
from pipebench.watch.read.moves import busy, comparable_workers, largest_stage, next_move, slow_hand_off

# A wait below 5 % of an iteration is smaller than a loop's own scatter; from 10 % on, a fix is worth the effort.
_SMALL = 0.05
_LARGE = 0.10
_OWN = ("sampler", "send-indices", "receive", "pin")


def diagnose(result: WatchResult) -> tuple[Verdict, NextMove | None]:
    """The verdict and the next move (None: no measurement shows what would help)."""
    if not result.loaders:
        return Verdict("nothing-watched"), None
    if result.wait_share is None or not result.iterations:
        return Verdict("no-iteration"), None
    main = max((one for one in result.loaders if one.loader in result.loaders_in_loop), key=_total)
    share, wait_s = result.wait_share, result.loop[0].s_per_iteration
    if result.device_idle is not None:
        share, wait_s = result.device_idle.share, result.device_idle.s_per_iteration
    largest = max(result.loop, key=lambda one: one.s_per_iteration)
    stage = largest_stage(result, main)
    workers = comparable_workers(result, main)
    part = _own_part(result.wait_parts) if share >= _SMALL else None
    slow = slow_hand_off(result, main) if share >= _SMALL and part is None else None
    verdict = Verdict(
        limit="training" if share < _SMALL else "data",
        waits="loop" if result.device_idle is None else "device",
        wait_share=share,
        wait_s=wait_s,
        iteration_s=sum(one.s_per_iteration for one in result.loop),
        phase=largest.phase,
        phase_share=largest.share,
        loader=main.loader,
        workers=main.workers,
        inside_watched=main.watched,
        workers_busy=busy(workers) if workers else None,
        stage=stage.name if stage else None,
        stage_kind=stage.kind if stage else None,
        stage_includes_read=bool(stage and stage.includes_read),
        stage_share=stage.worker_share if stage else None,
        wait_part=part.part if part else None,
        wait_part_share=part.share if part else None,
        hand_off_s=slow[0] if slow else None,
        batch_s=slow[1] if slow else None,
    )
    if share < _LARGE:
        return verdict, None
    if part is not None:
        shorter = NextMove("shorten-wait-part", result.usable_cores, wait_part=part.part)
        return verdict, replace(shorter, wait_part_s=part.s_per_iteration)
    return verdict, next_move(result, main)


def _own_part(parts: Sequence[WaitPart]) -> WaitPart | None:
    """The largest part of the wait, if the script's own process works in it. Unpickling belongs to receiving."""
    spent: dict[str, WaitPart] = {}
    for one in parts:
        name = "receive" if one.part == "unpickle" else one.part
        before = spent.get(name, WaitPart(name, 0.0, 0.0))
        spent[name] = WaitPart(name, before.s_per_iteration + one.s_per_iteration, before.share + one.share)
    largest = max(spent.values(), key=lambda one: one.share, default=None)
    return largest if largest is not None and largest.part in _OWN else None


def _total(one: LoaderResult) -> float:
    """The total seconds of a loader's iterations."""
    return (one.s_per_iteration or 0.0) * one.iterations
