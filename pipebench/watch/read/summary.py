"""Turns records into results: pure arithmetic on what the processes wrote."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from pipebench.results.batches import DeviceIdle, SpanResult
from pipebench.results.beginning import beginning, small_beside
from pipebench.results.costs import LoopCosts
from pipebench.results.watched import LoaderResult, PhaseResult, StageResult, Verdict, WatchResult
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.launch.standstill import NEVER, Standstill
from pipebench.watch.read.account import account, made_in_loop
from pipebench.watch.read.agreeing import with_causes
from pipebench.watch.read.bound import bound_result
from pipebench.watch.read.causes import causes
from pipebench.watch.read.costs import loop_costs
from pipebench.watch.read.described import slowest
from pipebench.watch.read.device_idle import in_waits
from pipebench.watch.read.drilled import drilled_rows, drilling_notes
from pipebench.watch.read.each_loader import loader_result, stage_results
from pipebench.watch.read.frozen_modules import with_frozen
from pipebench.watch.read.gather import (
    NO_LOADER,
    Process,
    Run,
    ShownTime,
    added,
    gather,
    in_step,
    loaders_found,
    percentile,
    shown_time,
)
from pipebench.watch.read.growing import grown
from pipebench.watch.read.hand_off import hand_off
from pipebench.watch.read.host_use import busy_shares, host, host_notes, workers
from pipebench.watch.read.known_move import known_of_cause
from pipebench.watch.read.line_runs import with_runs
from pipebench.watch.read.moves import in_its_words
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.needless import needless_calls, needless_elsewhere, with_needless
from pipebench.watch.read.notes import (
    loader_notes,
    lost,
    nested_notes,
    process_notes,
    span_notes,
    standstill_notes,
    stopped_workers,
    tools_left_on,
    unseen,
)
from pipebench.watch.read.pauses import pause_notes
from pipebench.watch.read.prepared import ROW, idle_of, prepared, with_prepared
from pipebench.watch.read.reads import reads
from pipebench.watch.read.series import over_time
from pipebench.watch.read.settled import Settled, count, seen, settled
from pipebench.watch.read.settled import iterations as counted_in
from pipebench.watch.read.slower_steps import with_less_kept
from pipebench.watch.read.small_batches import with_hand_off
from pipebench.watch.read.together import sharing, with_training
from pipebench.watch.read.verdict import diagnose, nothing_watched
from pipebench.watch.read.waiting import wait_parts
from pipebench.watch.read.without_workers import with_one_tensor
from pipebench.watch.record.lines import (
    LoaderFound,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.record_file import PHASES, WAIT, WITHOUT_GRADIENTS, WORKERS

__all__ = ["gather", "summarise"]
_NS = 1e-9
_BEFORE = "before-backward"
_JUDGED = ("data", "training", "no-loader")
# cause that the report begins with -> the note that it makes needless
_SAID = {"left-on": "tools-left-on", "each-gives-all": "undivided", "validation": "unused-graphs"}


def summarise(
    processes: list[Process],
    options: WatchOptions,
    status: int,
    usable_cores: float,
    footprint: Footprint | None = None,
    looks: Looks | None = None,
    lived: tuple[int, int] | None = None,
    stood: Standstill = NEVER,
) -> WatchResult:
    """The tables of one run. `status` is the script's exit status.

    `footprint` and `looks` are what was seen from outside, as is `lived`: when the script's process was started and
    when it had ended, in nanoseconds of the monotonic clock. `stood` is what stood still meanwhile.
    """
    found = _Found(
        processes, options, status, usable_cores, footprint or Footprint(), looks or Looks(), lived, stood,
        shown_time(processes, 0 if options.bound else options.warmup), loaders_found(processes),
    )  # fmt: skip
    result = _tables(found, options.loader)
    whole = options.loader is None or options.bound or not result.loaders
    of_run = _judged(found, result if whole else _tables(found, None))  # --loader limits the tables: the run stays
    said = {(_SAID[one.code], one.loader) for one in beginning(of_run).causes if one.code in _SAID}
    notes = (one for one in result.notes if (one.code, one.values.get("loader")) not in said)
    return dataclasses.replace(
        result, verdict=of_run.verdict, next_move=of_run.next_move, account=of_run.account, notes=tuple(notes)
    )


@dataclass(frozen=True)
class _Found:
    """What `summarise` was given, with the time that is shown and the loaders that were iterated."""

    processes: list[Process]
    options: WatchOptions
    status: int
    usable_cores: float
    footprint: Footprint
    looks: Looks
    lived: tuple[int, int] | None
    stood: Standstill
    shown: ShownTime
    described: dict[int, LoaderFound]

    @cached_property
    def run(self) -> Run:
        return Run(self.processes, self.shown, tuple(sorted(self.described)))

    @cached_property
    def loaders(self) -> tuple[LoaderResult, ...]:
        return tuple(loader_result(self.run, one) for one in self.described.values())

    @cached_property
    def stages(self) -> tuple[StageResult, ...]:
        return tuple(stage for one in self.loaders for stage in stage_results(self.run, one.loader))


def _tables(given: _Found, loader: int | None) -> WatchResult:
    """The tables of one loader, or of all. What is said of the run is still missing."""
    run, options, status, usable_cores = given.run, given.options, given.status, given.usable_cores
    processes, footprint, looks = given.processes, given.footprint, given.looks
    whole_run = dataclasses.replace(run, shown=ShownTime(end=given.shown.end))
    loaders = tuple(one for one in given.loaders if loader in (None, one.loader))
    in_loop = _in_loop(run, loaders)
    stages = tuple(one for one in given.stages if loader in (None, one.loader))
    turns = [one for loader in in_loop for one in run.turns(loader)]
    iterations = counted_in(run, {loader: run.turns(loader) for loader in in_loop})
    steady = settled(run, in_loop)
    loop = _loop(run, in_loop, steady.values())
    idle_in = steady or seen(run, in_loop)  # for the device's idle time: without any, the loop would seem to have none
    whole = turns if not any(map(in_step, run.of_script())) else []  # in step, each loader has a part of an iteration
    lengths, waits = added(one.lengths for one in whole), added(one.waits for one in whole)
    main = next((one for one in loaders if one.loader in in_loop), None)
    spans = _spans(steady.values(), loop)
    numbers = [one.loader for one in loaders]
    calls = {one: needless_calls(run, one, stages) for one in run.loaders}
    drilled = with_runs(with_needless(drilled_rows(run, stages, looks), calls), run)
    used, made = host(run, numbers, footprint), tuple(workers(run, numbers, footprint, in_loop))
    nothing, lines = nothing_watched(processes), [one for process in run.of_script() for one in process.lines]
    return WatchResult(
        verdict=nothing,
        next_move=None,
        stages=stages,
        loop=loop,
        iterations=iterations,
        settled_iterations=counted_in(run, {one: its.lines for one, its in steady.items()}),
        wait_share=loop[WAIT].share if loop else None,
        hand_off=hand_off(run, in_loop),
        workers=made,
        startup_s=main.startup_s if main else None,
        start_method=main.start_method if main else None,
        slowest=slowest(run, numbers),
        loaders=loaders,
        loaders_in_loop=in_loop,
        wait_p50_s=percentile(waits, 0.5),
        wait_p95_s=percentile(waits, 0.95),
        wait_p99_s=percentile(waits, 0.99),
        iteration_p50_s=percentile(lengths, 0.5),
        iteration_p95_s=percentile(lengths, 0.95),
        iteration_p99_s=percentile(lengths, 0.99),
        device_idle=_device_idle(idle_in.values(), loop or _loop(run, in_loop, idle_in.values())),
        usable_cores=usable_cores,
        status=status,
        started=options.started,
        warmup_iterations=counted_in(whole_run, {one: whole_run.turns(one) for one in in_loop}) - iterations,
        complete=not any(one.stopped for one in processes) and not lost(run),
        notes=(
            *loader_notes(run, loaders),
            *process_notes(run, status, footprint),
            *standstill_notes(given.stood, given.lived),
            *tools_left_on(run),
            *stopped_workers(run, footprint),
            *span_notes(run, options.functions, stages),
            *nested_notes(run, stages),
            *unseen(run, footprint),
            *host_notes(run, used, loaders, usable_cores),
            *pause_notes(run, in_loop),
            *drilling_notes(looks),
        ),
        host=used,
        drilled=drilled,
        needless=tuple(needless_elsewhere(calls.values(), drilled)),
        wait_parts=wait_parts(steady.values(), loop[WAIT].s_per_iteration) if loop else (),
        bound=bound_result(lines) if options.bound and not nothing.lacks else None,
        costs=() if options.bound else _costs(run, given.described, in_loop, usable_cores),
        spans=spans,
        reads=reads(run, numbers, footprint),
        over_time=None if options.bound else over_time(run, in_loop, max(1, main.workers) if main else 1, footprint),
    )


def _judged(given: _Found, result: WatchResult) -> WatchResult:
    """The result, with what it says of the run: its account, the verdict and the next move."""
    run, options, loaders = given.run, given.options, result.loaders
    busy, alone = busy_shares(result.workers), made_in_loop(loaders)
    where = None if options.bound else account(run, given.lived, busy, alone, idle_of(result), given.usable_cores)
    grows = grown(run) if where is not None else {}
    where = with_less_kept(with_hand_off(with_one_tensor(where, result), result, run, busy), grows)
    result = dataclasses.replace(result, account=where)
    verdict, next_move = diagnose(result, _by_threads(run))
    if verdict.limit == "not-followed" and (told := prepared(run, NO_LOADER)) is not None and told.rests:
        verdict = dataclasses.replace(verdict, wait_share=sum(one.share for one in result.loop if one.phase == ROW))
    if given.described and not loaders:
        verdict = Verdict("no-such-loader", loader=options.loader, loaders=len(set(given.described) - {NO_LOADER}))
    if where is not None and loaders:
        where = with_causes(with_frozen(dataclasses.replace(where, causes=causes(run, result, where, grows))))
        starts = verdict.single == "left" or verdict.start_iterations  # of these, the start of passes is judged
        of_run = move_of_run(next_move, where.causes, given.usable_cores) or known_of_cause(where.causes, result)
        between = of_run is not None and of_run.action == "do-less-between"
        move = of_run if between or not small_beside(where) else None
        next_move = move if verdict.limit in _JUDGED or starts else None
    next_move = in_its_words(next_move, dataclasses.replace(result, verdict=verdict))
    return dataclasses.replace(result, verdict=verdict, next_move=next_move, account=where)


def _by_threads(run: Run) -> frozenset[int]:
    """The loaders whose loop waits for batches that somebody else makes: a worker, or a thread beside the loop."""
    return frozenset(
        one for one in run.loaders if any(turn.wait_parts_ns and turn.wait_parts_ns[WORKERS] for turn in run.turns(one))
    )


def _costs(
    run: Run, described: dict[int, LoaderFound], in_loop: tuple[int, ...], cores: float
) -> tuple[LoopCosts, ...]:
    """The costs of each loop on so many cores. Of loaders that share a loop there are none: it waits for both."""
    if any(len(one) > 1 for one in sharing(run, described)):
        return ()
    found = (loop_costs(run, described[loader], cores) for loader in in_loop if loader != NO_LOADER)
    return tuple(one for one in found if one is not None)


def _in_loop(run: Run, loaders: tuple[LoaderResult, ...]) -> tuple[int, ...]:
    """The loaders whose iterations are the training loop; all loaders if none of them trains."""
    counts = {one.loader: one.iterations for one in loaders}
    training = with_training(run, {one.loader for one in loaders if one.training}, counts)
    return tuple(sorted(training or counts))


def _loop(run: Run, in_loop: tuple[int, ...], groups: Collection[Settled]) -> tuple[PhaseResult, ...]:
    """Seconds per iteration of each phase, without start-up: also without the wait for the first batch of each pass."""
    if not groups:
        return ()
    per_turn = [0.0] * len(PHASES)
    for lines, weight in groups:
        later = count(lines) - sum(one.first_wait_ns is not None for one in lines)
        for phase in range(len(PHASES)):
            spent = sum(one.phases_ns[phase] for one in lines if phase < len(one.phases_ns)) * _NS
            if phase == WAIT and later:
                spent -= sum(one.first_wait_ns or 0 for one in lines) * _NS
                spent *= count(lines) / later
            per_turn[phase] += spent * weight
    total = sum(per_turn) or 1.0
    names = [_BEFORE if name == "forward" and in_loop == (NO_LOADER,) else name for name in PHASES]
    found = [(name, spent) for name, spent in zip(names, per_turn, strict=True) if spent or name != "spans"]
    return tuple(with_prepared(run, (PhaseResult(name, spent, spent / total) for name, spent in found), in_loop))


def _spans(groups: Iterable[Settled], loop: tuple[PhaseResult, ...]) -> tuple[SpanResult, ...]:
    spent: dict[str, float] = {}
    for lines, weight in groups:
        for one in lines:
            for name, ns in one.spans_ns.items():
                spent[name] = spent.get(name, 0.0) + ns * _NS * weight
    whole = sum(one.s_per_iteration for one in loop)
    # A function that ran in both ways, as in training and in its evaluation, has two rows.
    found = [(name, name.removesuffix(WITHOUT_GRADIENTS), s) for name, s in spent.items()] if whole else []
    rows = [SpanResult(name if plain in spent else plain, s, s / whole) for name, plain, s in found]
    return tuple(sorted(rows, key=lambda one: -one.s_per_iteration))


def _device_idle(groups: Iterable[Settled], loop: tuple[PhaseResult, ...]) -> DeviceIdle | None:
    """The device's idle time in an iteration: the mean of a wait, for each loader that the iteration waits for."""
    waits, idle = 0, 0.0
    for lines, weight in groups:
        if (mean := in_waits(lines)) is not None:
            idle += mean.s * count(lines) * weight
            waits += mean.waits
    if not waits:
        return None
    return DeviceIdle(idle, min(1.0, idle / (sum(one.s_per_iteration for one in loop) or 1.0)), waits)
