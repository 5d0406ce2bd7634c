"""Turns records into results: pure arithmetic on what the processes wrote."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable

from pipebench.results.batches import DeviceIdle, SpanResult
from pipebench.results.costs import LoopCosts
from pipebench.results.watched import LoaderResult, PhaseResult, StageResult, Verdict, WatchResult
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.launch.standstill import NEVER, Standstill
from pipebench.watch.read.account import account, made_in_loop
from pipebench.watch.read.bound import bound_result
from pipebench.watch.read.causes import causes
from pipebench.watch.read.costs import loop_costs
from pipebench.watch.read.described import again, content, made_by, place, single, slowest
from pipebench.watch.read.drilled import drilled_rows, drilling_notes
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
from pipebench.watch.read.hand_off import hand_off
from pipebench.watch.read.host_use import busy_shares, host, host_notes, script_cores, workers
from pipebench.watch.read.moves import in_its_words, move_of_run
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
from pipebench.watch.read.prepared import idle_of, with_prepared
from pipebench.watch.read.series import by_worker, over_time
from pipebench.watch.read.settled import Settled, count, seen, settled, without_first
from pipebench.watch.read.settled import iterations as counted_in
from pipebench.watch.read.slower_steps import with_less_kept
from pipebench.watch.read.together import sharing, with_training
from pipebench.watch.read.verdict import diagnose, nothing_watched
from pipebench.watch.read.waiting import wait_parts
from pipebench.watch.read.without_workers import with_one_tensor
from pipebench.watch.record.lines import (
    FetchSums,
    LoaderFound,
    LoopSums,
    PassBegun,
    PassEnded,
    StageName,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.record_file import PHASES, WAIT, WITHOUT_GRADIENTS, WORKERS

__all__ = ["gather", "summarise"]
_NS = 1e-9
_BEFORE = "before-backward"
_JUDGED = ("data", "training")
_OF_RUN = ("verdict", "next_move", "account")


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
    footprint, looks = footprint or Footprint(), looks or Looks()
    shown = shown_time(processes, 0 if options.bound else options.warmup)
    described = loaders_found(processes)
    run = Run(processes, shown, tuple(sorted(described)))
    whole_run = dataclasses.replace(run, shown=ShownTime(end=shown.end))
    loaders = tuple(_loader(run, one) for one in described.values() if options.loader in (None, one.loader))
    in_loop = _in_loop(run, loaders)
    stages = tuple(stage for one in loaders for stage in _stages(run, one.loader))
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
    used, made = host(run, numbers, footprint), tuple(workers(run, numbers, footprint, in_loop))
    nothing, lines = nothing_watched(processes), [one for process in run.of_script() for one in process.lines]
    result = WatchResult(
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
            *standstill_notes(stood, lived),
            *tools_left_on(run),
            *stopped_workers(run, footprint),
            *span_notes(run, options.functions, stages),
            *nested_notes(run, stages),
            *unseen(run, footprint),
            *host_notes(run, used, loaders, usable_cores),
            *drilling_notes(looks),
        ),
        host=used,
        drilled=drilled_rows(run, stages, looks),
        wait_parts=wait_parts(steady.values(), loop[WAIT].s_per_iteration) if loop else (),
        bound=bound_result(lines) if options.bound and not nothing.lacks else None,
        costs=() if options.bound else _costs(run, described, in_loop),
        spans=spans,
        over_time=None if options.bound else over_time(run, in_loop, max(1, main.workers) if main else 1, footprint),
    )
    if options.loader is not None and loaders and not options.bound:  # it limits the tables: the run stays what it was
        of_all = summarise(
            processes, dataclasses.replace(options, loader=None), status, usable_cores, footprint, looks, lived, stood
        )
        return dataclasses.replace(result, **{name: getattr(of_all, name) for name in _OF_RUN})
    given = busy_shares(made), made_in_loop(loaders), idle_of(result), usable_cores
    found = None if options.bound else account(run, lived, *given)
    result = dataclasses.replace(result, account=(where := with_less_kept(with_one_tensor(found, result), run)))
    verdict, next_move = diagnose(result, _by_threads(run))
    if described and not loaders:
        verdict = Verdict("no-such-loader", loader=options.loader, loaders=len(set(described) - {NO_LOADER}))
    if where is not None and loaders:
        where = dataclasses.replace(where, causes=causes(run, result, where))
        starts = verdict.single == "left" or verdict.start_iterations  # of these, the start of passes is judged
        move = move_of_run(next_move, where.causes, usable_cores)
        next_move = move if verdict.limit in _JUDGED or starts else None
    next_move = in_its_words(next_move, dataclasses.replace(result, verdict=verdict))
    return dataclasses.replace(result, verdict=verdict, next_move=next_move, account=where)


def _by_threads(run: Run) -> frozenset[int]:
    """The loaders whose loop waits for batches that somebody else makes: a worker, or a thread beside the loop."""
    return frozenset(
        one for one in run.loaders if any(turn.wait_parts_ns and turn.wait_parts_ns[WORKERS] for turn in run.turns(one))
    )


def _costs(run: Run, described: dict[int, LoaderFound], in_loop: tuple[int, ...]) -> tuple[LoopCosts, ...]:
    """The costs of each loop. Of loaders that share a loop there are none: it waits for both."""
    if any(len(one) > 1 for one in sharing(run, described)):
        return ()
    found = (loop_costs(run, described[loader]) for loader in in_loop if loader != NO_LOADER)
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


def _loader(run: Run, described: LoaderFound) -> LoaderResult:
    number = described.loader
    turns, sums = run.turns(number), [one for _, one in run.sums(number)]
    firsts = [one.first_wait_ns * _NS for one in turns if one.first_wait_ns is not None]
    samples, lengths = sum(one.samples for one in sums), added(one.lengths for one in sums)
    made = count(turns)
    later = made - len(firsts)
    waits = sum(one.phases_ns[WAIT] - (one.first_wait_ns or 0) for one in turns) * _NS
    rest = sum(sum(one.phases_ns) - one.phases_ns[WAIT] for one in turns) * _NS
    workers_seen = any(process.role == "worker" and process.loader == number for process in run.processes)
    inside = sum(spent for one in sums for spent in one.stages_ns.values()) * _NS
    where = place(described.made)
    return LoaderResult(
        loader=number,
        dataset=described.dataset,
        workers=described.workers,
        batch_size=described.batch_size,
        start_method=described.start_method,
        watched=workers_seen or not described.workers,
        training=any(one.trained for one in turns),
        passes=sum(one.loader == number for process in run.of_script() for one in process.of(PassBegun)),
        iterations=made,
        s_per_iteration=waits / later + rest / made if later else None,
        wait_s_per_iteration=waits / later if later else None,
        startup_s=_startup(run, number),
        first_batch_s=firsts[0] if firsts else None,
        later_first_batch_s=sum(firsts[1:]) / len(firsts[1:]) if len(firsts) > 1 else None,
        later_startup_s=_later_startup(run, number),
        pass_end_s=_pass_end(run, number),
        batches=sum(one.batches for one in sums),
        single=single(run, number),
        samples=samples,
        sample_s=inside / samples if samples else None,
        sample_cpu_s=sum(one.cpu_ns for one in sums) * _NS / samples if samples else None,
        sample_p50_s=percentile(lengths, 0.5),
        sample_p95_s=percentile(lengths, 0.95),
        sample_p99_s=percentile(lengths, 0.99),
        failed_batches=sum(one.failed for one in sums),
        script_cores=script_cores(without_first(turns)),
        file=where.file,
        line=where.line,
        made_by=made_by(described.made),
        again=again(run, number),
        beside=bool(turns) and all(one.beside and not one.trained for one in turns),
        content=content(one.content for one in sums),
        undivided=described.undivided,
        shards=described.shards,
    )


def _startup(run: Run, loader: int) -> float | None:
    """Seconds from the start of the first iterator's construction to its first batch, even if that was warm-up.

    None if no second batch of that pass was asked for: then no line tells when the first one came.
    """
    for process in run.of_script():
        begun = [one.begin for one in process.of(PassBegun) if one.loader == loader and one.number == 0]
        turns = (one for one in process.of(LoopSums) if one.loader == loader and one.number_of_pass == 0)
        first = next((at for one in turns if (at := _first_batch(one)) is not None), None)
        if begun and first is not None:
            return (first - begun[0]) * _NS
    return None


def _first_batch(turns: LoopSums) -> int | None:
    """The moment at which the first batch of a pass came; None if it did not come in these iterations."""
    return None if turns.first_wait_ns is None else turns.begin + turns.first_wait_ns


def _later_startup(run: Run, loader: int) -> float | None:
    """The same start-up time, as the mean over the later passes that are shown."""
    begun = {
        one.number: one.begin for process in run.of_script() for one in process.of(PassBegun) if one.loader == loader
    }
    found = [
        at - begun[one.number_of_pass]
        for one in run.turns(loader)
        if (at := _first_batch(one)) is not None and one.number_of_pass and one.number_of_pass in begun
    ]
    return sum(found) * _NS / len(found) if found else None


def _pass_end(run: Run, loader: int) -> float | None:
    """Mean seconds of the last `next()` of a pass, over the passes that came to their end."""
    found = [
        one.wait_ns
        for process in run.of_script()
        for one in process.of(PassEnded)
        if one.loader == loader and one.how == "exhausted"
    ]
    return sum(found) * _NS / len(found) if found else None


def _stages(run: Run, loader: int) -> list[StageResult]:
    """The stages of one loader, the largest first. Each process numbers its own stages; rows are by kind and name."""
    sums = run.sums(loader)
    samples = sum(record.samples for _, record in sums)
    busy = sum(record.busy_ns for _, record in sums) * _NS
    if not samples:
        return []
    wall: dict[StageName, dict[int, float]] = {}
    per_process: dict[int, int] = {}
    for process, record in sums:
        per_process[process.pid] = per_process.get(process.pid, 0) + record.samples
        for number, spent in record.stages_ns.items():
            key = process.stage(number)
            row = wall.setdefault(key, {})
            row[process.pid] = row.get(process.pid, 0.0) + spent * _NS
    if feeder := sum(record.pickled.wall_ns for _, record in sums):
        key = StageName("serialise", "queue feeder thread")
        wall[key] = {0: feeder * _NS}
    each = by_worker(run.processes, loader, per_process)
    whole = _whole_shares(sums, busy)
    rows = [
        dataclasses.replace(
            _stage(key, loader, samples, row, busy, per_process),
            by_worker_s=each(row),
            whole_share=whole.get(key),
            holds=key.holds,
        )
        for key, row in wall.items()
    ]
    return sorted(rows, key=lambda one: -one.exclusive_s_per_sample)


def _whole_shares(sums: list[tuple[Process, FetchSums]], busy: float) -> dict[StageName, float]:
    """The share of the workers' time of each function with the stages inside it. Functions that call each other: 1."""
    spent: Counter[StageName] = Counter()
    for process, record in sums:
        timed = {number: one for number, one in record.whole_ns.items() if number not in process.left}
        spent.update({process.stage(number): one for number, one in timed.items()})
    return {key: min(1.0, one * _NS / busy) for key, one in spent.items()} if busy else {}


def _stage(
    key: StageName, loader: int, samples: int, row: dict[int, float], busy: float, per_process: dict[int, int]
) -> StageResult:
    total = sum(row.values())
    spread = [spent / per_process[pid] for pid, spent in row.items() if per_process.get(pid)]
    least, most = (min(spread), max(spread)) if len(spread) > 1 else (None, None)
    share = total / busy if busy else 0.0
    return StageResult(key.name, key.kind, loader, samples, total / samples, share, key.includes_read, least, most)


def _device_idle(groups: Iterable[Settled], loop: tuple[PhaseResult, ...]) -> DeviceIdle | None:
    """The device's idle time in an iteration: the mean of a wait, for each loader that the iteration waits for."""
    waits, idle = 0, 0.0
    for lines, weight in groups:
        found = [one.idle for one in lines if one.idle]
        measured = sum(one.waits for one in found)
        if measured:
            idle += sum(one.idle_ns for one in found) * _NS / measured * count(lines) * weight
            waits += measured
    if not waits:
        return None
    return DeviceIdle(idle, min(1.0, idle / (sum(one.s_per_iteration for one in loop) or 1.0)), waits)
