"""Says what limits the loop, with the evidence, and suggests one next move if a measurement supports it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from typing import Literal

from pipebench.results.next_move import NextMove
from pipebench.results.own_loop import own_iteration_s
from pipebench.results.watched import LoaderResult, Verdict, WaitPart, WatchResult, WorkerResult
from pipebench.watch.read.gather import NO_LOADER, Process
from pipebench.watch.read.hand_off import one_by_one
from pipebench.watch.read.moves import (
    BUSY,
    LEAST_CORES,
    REST,
    busy,
    comparable_workers,
    largest_stage,
    late_s,
    next_move,
    receives_late,
    slow_hand_off,
    used_up,
    waited_for,
)
from pipebench.watch.record.lines import NotRecognised

# A wait below 5 % of an iteration is smaller than a loop's own scatter; from 10 % on, a fix is worth the effort.
_SMALL = 0.05
_LARGE = 0.10
_NOTHING = Verdict("nothing-watched")
_NO_CORE = "receive-without-core"
_OWN = ("sampler", "send-indices", "receive", "pin", _NO_CORE)


def nothing_watched(processes: Iterable[Process]) -> Verdict:
    """The verdict where no loader was seen, with the reason if pipebench did not recognise this torch."""
    found = [line for one in processes if one.role == "script" for line in one.of(NotRecognised)]
    return Verdict("nothing-watched", torch=found[0].torch, lacks=tuple(found[0].lacks)) if found else _NOTHING


def diagnose(result: WatchResult, beside: Container[int] = ()) -> tuple[Verdict, NextMove | None]:
    """The verdict and the next move (None: no measurement shows what would help).

    `beside` are the loaders whose batches are made beside the loop: by workers, or by a thread.
    """
    if not result.loaders:
        return result.verdict, None
    main = _largest(result, _total)
    if (unseen := _in_other_threads(result, main)) is not None:
        return _named(_shape(Verdict("not-followed", workers=unseen.workers), result), unseen, result), None
    if (anew := next((one for one in _in_loop(result) if one.single == "left"), None)) is not None:
        return _named(_seen(result, anew), anew, result), None  # the iterations of a loop around it say little
    if result.wait_share is None or not any(one.s_per_iteration for one in _in_loop(result)):
        return _named(_seen(result, main), main, result), None
    if main.loader == NO_LOADER:
        return _shape(Verdict("no-loader", loader=NO_LOADER), result), None
    return _judged(result, main, result.wait_share, beside)


def _judged(
    result: WatchResult, main: LoaderResult, share: float, beside: Container[int]
) -> tuple[Verdict, NextMove | None]:
    """The verdict on a loop that waits for a loader for this share of its time."""
    wait_s = result.loop[0].s_per_iteration
    if result.device_idle is not None:
        share, wait_s = result.device_idle.share, result.device_idle.s_per_iteration
    limit: Literal["data", "training"] = "training" if share < _SMALL else "data"
    own_s = None
    if share >= _SMALL:
        main = _largest(result, _waited)
        own_s = own_iteration_s(result, main) if result.device_idle is None else None
    own_share = (main.wait_s_per_iteration or 0.0) / own_s if own_s else 0.0
    if own_s and own_share >= share:  # else the loops together wait more than the one that waits longest
        wait_s, share = main.wait_s_per_iteration or 0.0, own_share
    else:
        own_s = None
    stage = largest_stage(result, main)
    workers = comparable_workers(result, main)
    part = _own_part(result, main, workers) if limit == "data" else None
    slow = slow_hand_off(result, main) if limit == "data" and part is None else None
    verdict = Verdict(
        limit=limit,
        waits="loop" if result.device_idle is None else "device",
        wait_share=share,
        wait_s=wait_s,
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
        by_thread=not main.workers and main.loader in beside,
        trains=any(one.training for one in result.loaders),
        of_all=own_s is None and limit == "data" and len(_in_loop(result)) > 1,
    )
    verdict = _named(_shape(verdict, result), main, result)
    if own_s:
        verdict = replace(verdict, iteration_s=own_s)
    if share < _LARGE:
        return verdict, None
    if part is not None:
        if part.part == _NO_CORE:
            return verdict, None
        return verdict, _shorter(result, part)
    return verdict, next_move(result, main)


def _shorter(result: WatchResult, part: WaitPart) -> NextMove:
    """A shorter part of the wait; of receiving, with what makes it long."""
    move = NextMove("shorten-wait-part", result.usable_cores, wait_part=part.part, wait_part_s=part.s_per_iteration)
    found = result.hand_off if part.part == "receive" else None
    return move if found is None else replace(move, tensors=one_by_one(found), carried=found.carried)


def _in_other_threads(result: WatchResult, main: LoaderResult) -> LoaderResult | None:
    """A loader that other threads iterate, if nothing says how its batches reach the loop that trains."""
    if main.loader != NO_LOADER and not main.beside:
        return None
    return next((one for one in result.loaders if one.beside), None)


def _in_loop(result: WatchResult) -> list[LoaderResult]:
    return [one for one in result.loaders if one.loader in result.loaders_in_loop]


def _largest(result: WatchResult, key: Callable[[LoaderResult], float]) -> LoaderResult:
    return max(_in_loop(result), key=key)


def _seen(result: WatchResult, main: LoaderResult) -> Verdict:
    """The verdict where no iteration has settled: there is only start-up."""
    stage = largest_stage(result, main)
    rows = result.account.rows if result.account is not None else ()
    spent = sum(one.s for one in rows if one.loader == main.loader and one.code == "start-up") / max(1, main.passes)
    return Verdict(
        "no-iteration",
        workers=main.workers,
        batches=main.batches or main.iterations,
        samples=main.samples,
        warmup_iterations=0 if result.iterations else result.warmup_iterations,
        start_iterations=result.iterations if main.s_per_iteration and not result.loop else 0,
        startup_s=main.startup_s if main.startup_s is not None and not (main.single and spent) else spent or None,
        passes=main.passes,
        single=main.single,
        stage=stage.name if stage else None,
        stage_kind=stage.kind if stage else None,
        stage_includes_read=bool(stage and stage.includes_read),
        stage_share=stage.worker_share if stage else None,
    )


def _shape(verdict: Verdict, result: WatchResult) -> Verdict:
    """The verdict with the length of an iteration and its largest phase."""
    hidden = verdict.waits == "device" and verdict.limit == "training"  # the host waits while the device works
    named = [one for one in result.loop if not (hidden and one.phase == "wait")]
    largest = max(named, key=lambda one: one.s_per_iteration, default=None)
    if largest is None:
        return verdict
    whole = sum(one.s_per_iteration for one in result.loop)
    return replace(verdict, iteration_s=whole, phase=largest.phase, phase_share=largest.share)


def _named(verdict: Verdict, main: LoaderResult, result: WatchResult) -> Verdict:
    """The verdict with the loader that it is about, and how many there are."""
    count = sum(one.loader != NO_LOADER for one in result.loaders)
    return replace(verdict, loader=main.loader, dataset=main.dataset, file=main.file, line=main.line, loaders=count)


def _waited(one: LoaderResult) -> float:
    """The total seconds that the loop waited for a loader."""
    return (one.wait_s_per_iteration or 0.0) * one.iterations


def _own_part(result: WatchResult, main: LoaderResult, workers: Sequence[WorkerResult]) -> WaitPart | None:
    """The largest part of the wait, if the script's own process works in it. Unpickling belongs to receiving.

    While workers never rest or have no core, or hardly a core is idle, or the script's process is not at work either, a
    batch that takes longer to receive than its size explains waits for them; or only for a core, if they mostly rest.
    """
    spent: dict[str, float] = {}
    for one in result.wait_parts:
        name = "receive" if one.part == "unpickle" else one.part
        spent[name] = spent.get(name, 0.0) + one.s_per_iteration
    whole, late = sum(spent.values()), late_s(result)
    no_core = waited_for(workers) >= LEAST_CORES or used_up(result, main, workers)
    if late and (busy(workers) >= BUSY or no_core or receives_late(result, main, workers)):
        spent["receive"] -= late
        name = "wait-for-worker" if busy(workers) >= REST else _NO_CORE
        spent[name] = spent.get(name, 0.0) + late
    largest = max(spent, key=lambda name: spent[name], default=None)
    return WaitPart(largest, spent[largest], spent[largest] / whole) if largest in _OWN and whole else None


def _total(one: LoaderResult) -> float:
    """The total seconds of a loader's iterations."""
    return (one.s_per_iteration or 0.0) * one.iterations
