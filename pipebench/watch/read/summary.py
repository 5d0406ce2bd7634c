"""Records to results: pure arithmetic on what the processes wrote."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from pipebench.results.watched import DeviceIdle, LoaderResult, PhaseResult, SlowSample, StageResult, WatchResult
from pipebench.units import seconds
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.bound import bound_result
from pipebench.watch.read.gather import Process, Record, Run, added, gather, percentile, window
from pipebench.watch.read.hand_off import hand_off
from pipebench.watch.read.host_use import host, host_notes, workers
from pipebench.watch.read.verdict import diagnose
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.record_file import PHASES, WAIT

__all__ = ["gather", "summarise"]
_NS = 1e-9
_SLOWEST = 10


def summarise(
    processes: list[Process],
    options: WatchOptions,
    status: int,
    usable_cores: float,
    footprint: Footprint | None = None,
) -> WatchResult:
    """The tables of one run; `status` is the script's own, `footprint` what was seen of its processes from outside."""
    footprint = footprint or Footprint()
    shown = window(processes, 0 if options.bound else options.warmup)
    described = {one["loader"]: one for process in processes for one in process.loaders}
    run = Run(processes, shown, tuple(sorted(described)))
    loaders = tuple(_loader(run, one) for one in described.values() if options.loader in (None, one["loader"]))
    in_loop = _in_loop(run, loaders)
    stages = tuple(stage for one in loaders for stage in _stages(run, one.loader))
    turns = [one for loader in in_loop for one in run.turns(loader)]
    iterations = _together(run, {loader: run.turns(loader) for loader in in_loop})
    loop = _loop(run, in_loop)
    lengths, waits = added(turns, "lengths"), added(turns, "waits")
    main = next((one for one in loaders if one.loader in in_loop), None)
    numbers = [one.loader for one in loaders]
    used = host(run, numbers, footprint)
    result = WatchResult(
        verdict="",
        next_move=None,
        stages=stages,
        loop=loop,
        iterations=iterations,
        wait_share=loop[WAIT].share if loop else None,
        hand_off=hand_off(run, in_loop),
        workers=tuple(workers(run, numbers, footprint)),
        startup_s=main.startup_s if main else None,
        start_method=main.start_method if main else None,
        slowest=_slowest(run, numbers),
        loaders=loaders,
        loaders_in_loop=in_loop,
        wait_p50_s=percentile(waits, 0.5),
        wait_p95_s=percentile(waits, 0.95),
        wait_p99_s=percentile(waits, 0.99),
        iteration_p50_s=percentile(lengths, 0.5),
        iteration_p95_s=percentile(lengths, 0.95),
        iteration_p99_s=percentile(lengths, 0.99),
        device_idle=_device_idle(turns, loop),
        usable_cores=usable_cores,
        status=status,
        complete=not any(one.stopped for one in processes),
        notes=(*_notes(run, loaders, status), *_unseen(run, footprint), *host_notes(used, loaders, usable_cores)),
        host=used,
        bound=bound_result([one for process in run.of_script() for one in process.bound]) if options.bound else None,
    )
    verdict, next_move = diagnose(result)
    return dataclasses.replace(result, verdict=verdict, next_move=next_move)


def _in_loop(run: Run, loaders: tuple[LoaderResult, ...]) -> tuple[int, ...]:
    """The loaders whose iterations are the training loop; where nothing trains, all of them."""
    training = {one.loader for one in loaders if one.training}
    counts = {one.loader: one.iterations for one in loaders}
    for process in run.of_script():
        for first, second in process.together:
            close = min(counts.get(first, 0), counts.get(second, 0)) * 2 > max(counts.get(first, 0), 1)
            if close and {first, second} & training:
                training |= {first, second} & set(counts)
    return tuple(sorted(training or counts))


def _count(turns: Iterable[Record]) -> int:
    return sum(one["turns"] for one in turns)


def _loop(run: Run, in_loop: tuple[int, ...]) -> tuple[PhaseResult, ...]:
    """Seconds per iteration of each phase. The wait for the first batch of a pass is start-up, and not in here.

    Nor is the first iteration of all, where there are others: libraries set themselves up in it.
    """
    per_turn = [0.0] * len(PHASES)
    groups = {loader: _settled(run.turns(loader)) for loader in in_loop}
    turns = _together(run, groups)
    if not turns:
        return ()
    for records in groups.values():
        later = _count(records) - sum("first_wait" in one for one in records)
        for phase in range(len(PHASES)):
            spent = sum(one["phases"][phase] for one in records) * _NS
            if phase == WAIT and later:
                spent -= sum(one.get("first_wait", 0) for one in records) * _NS
                spent *= _count(records) / later
            per_turn[phase] += spent / turns
    total = sum(per_turn) or 1.0
    return tuple(PhaseResult(name, spent, spent / total) for name, spent in zip(PHASES, per_turn, strict=True))


def _settled(turns: list[Record]) -> list[Record]:
    later = [one for one in turns if one["pass"] or one["first"]]
    return later if _count(later) else turns


def _together(run: Run, groups: dict[int, list[Record]]) -> int:
    """How many iterations there were: loaders in step share theirs, others add."""
    counts = {loader: _count(records) for loader, records in groups.items()}
    for process in run.of_script():
        for first, second in process.together:
            if first in counts and second in counts and first != second:
                counts[first] = max(counts[first], counts[second])
                counts[second] = 0
    return sum(counts.values())


def _loader(run: Run, described: Record) -> LoaderResult:
    number = described["loader"]
    turns, sums = run.turns(number), [record for _, record in run.sums(number)]
    firsts = [one["first_wait"] * _NS for one in turns if "first_wait" in one]
    samples, lengths = sum(one["samples"] for one in sums), added(sums, "lengths")
    count, later = _count(turns), _count(turns) - len(firsts)
    waits = sum(one["phases"][WAIT] - one.get("first_wait", 0) for one in turns) * _NS
    rest = sum(sum(one["phases"]) - one["phases"][WAIT] for one in turns) * _NS
    seen = any(process.role == "worker" and process.loader == number for process in run.processes)
    inside = sum(sum(one["stages"][key][0] for key in one["stages"]) for one in sums) * _NS
    return LoaderResult(
        loader=number,
        dataset=described["dataset"],
        workers=described["workers"],
        batch_size=described["batch_size"],
        start_method=described["start_method"],
        watched=seen or not described["workers"],
        training=any(one["trained"] for one in turns),
        passes=sum(one["loader"] == number for process in run.of_script() for one in process.passes),
        iterations=count,
        s_per_iteration=waits / later + rest / count if later else None,
        wait_s_per_iteration=waits / later if later else None,
        startup_s=_startup(run, number),
        first_batch_s=firsts[0] if firsts else None,
        later_first_batch_s=sum(firsts[1:]) / len(firsts[1:]) if len(firsts) > 1 else None,
        later_startup_s=_later_startup(run, number),
        pass_end_s=_pass_end(run, number),
        samples=samples,
        sample_s=inside / samples if samples else None,
        sample_cpu_s=sum(one["sample_cpu"] for one in sums) * _NS / samples if samples else None,
        sample_p50_s=percentile(lengths, 0.5),
        sample_p95_s=percentile(lengths, 0.95),
        sample_p99_s=percentile(lengths, 0.99),
        failed_batches=sum(one["failed"] for one in sums),
    )


def _startup(run: Run, loader: int) -> float | None:
    """From the start of the first iterator's construction to its first batch, also where that was warm-up."""
    for process in run.of_script():
        begun = [one["begin"] for one in process.passes if one["loader"] == loader and one["number"] == 0]
        first = [one for one in process.turns if one["loader"] == loader and "first_wait" in one]
        if begun and first:
            return float((first[0]["begin"] + first[0]["first_wait"] - begun[0]) * _NS)
    return None


def _later_startup(run: Run, loader: int) -> float | None:
    """The same on average over the later passes that are shown."""
    begun = {
        one["number"]: one["begin"] for process in run.of_script() for one in process.passes if one["loader"] == loader
    }
    found = [
        one["begin"] + one["first_wait"] - begun[one["pass"]]
        for one in run.turns(loader)
        if "first_wait" in one and one["pass"] and one["pass"] in begun
    ]
    return sum(found) * _NS / len(found) if found else None


def _pass_end(run: Run, loader: int) -> float | None:
    """The last `next()` of a pass, on average over those that came to their end."""
    found = [
        one["wait"]
        for process in run.of_script()
        for one in process.ends
        if one["loader"] == loader and one["event"] == "exhausted" and "wait" in one
    ]
    return sum(found) * _NS / len(found) if found else None


def _stages(run: Run, loader: int) -> list[StageResult]:
    """The stages of one loader, the largest first. Names are per process; rows are by kind and name."""
    sums = run.sums(loader)
    samples = sum(record["samples"] for _, record in sums)
    busy = sum(record["busy"] for _, record in sums) * _NS
    if not samples:
        return []
    wall: dict[tuple[str, str, bool], dict[int, float]] = {}
    cpu: dict[tuple[str, str, bool], float] = {}
    per_process: dict[int, int] = {}
    for process, record in sums:
        per_process[process.pid] = per_process.get(process.pid, 0) + record["samples"]
        for number, (spent, on_cpu) in record["stages"].items():
            key = process.stages.get(int(number), ("getitem", f"stage {number}", False))
            row = wall.setdefault(key, {})
            row[process.pid] = row.get(process.pid, 0.0) + spent * _NS
            cpu[key] = cpu.get(key, 0.0) + on_cpu * _NS
    if feeder := sum(record["serialise"][0] for _, record in sums):
        key = ("serialise", "queue feeder thread", False)
        wall[key] = {0: feeder * _NS}
        cpu[key] = sum(record["serialise"][1] for _, record in sums) * _NS
    rows = [
        _stage(key, loader, samples, row, cpu[key] / samples if cpu[key] else None, busy, per_process)
        for key, row in wall.items()
    ]
    return sorted(rows, key=lambda one: -one.exclusive_s_per_sample)


def _stage(
    key: tuple[str, str, bool],
    loader: int,
    samples: int,
    row: dict[int, float],
    cpu: float | None,
    busy: float,
    per_process: dict[int, int],
) -> StageResult:
    total = sum(row.values())
    spread = [spent / per_process[pid] for pid, spent in row.items() if per_process.get(pid)]
    least, most = (min(spread), max(spread)) if len(spread) > 1 else (None, None)
    kind, name, reads = key
    return StageResult(
        name, kind, loader, samples, total / samples, cpu, total / busy if busy else 0.0, reads, least, most
    )


def _slowest(run: Run, loaders: list[int]) -> tuple[SlowSample, ...]:
    found = [
        SlowSample(name, loader, process.worker, spent * _NS)
        for loader in loaders
        for process, record in run.sums(loader)
        for spent, name in record["slow"]
    ]
    return tuple(sorted(found, key=lambda one: -one.s)[:_SLOWEST])


def _device_idle(turns: list[Record], loop: tuple[PhaseResult, ...]) -> DeviceIdle | None:
    found = [one["idle"] for one in turns if one["idle"]]
    waits = sum(count for _, count in found)
    if not waits:
        return None
    idle = sum(spent for spent, _ in found) * _NS / waits
    return DeviceIdle(idle, idle / (sum(one.s_per_iteration for one in loop) or 1.0), waits)


def _loader_notes(run: Run, loaders: tuple[LoaderResult, ...]) -> Iterable[str]:
    for one in loaders:
        if not one.watched:
            yield f"loader {one.loader}: its workers ({one.workers}, {one.start_method}) were not watched"
        if one.failed_batches:
            yield f"loader {one.loader}: batches that failed with an exception: {one.failed_batches}"
        turns = run.turns(one.loader)
        if own := sum(record.get("own", 0) for record in turns):
            spent = seconds(own * _NS / _count(turns))
            yield f"loader {one.loader}: {spent} of each wait are stages after it, in the script's own process"


def _notes(run: Run, loaders: tuple[LoaderResult, ...], status: int) -> Iterable[str]:
    ended_well = status == 0 and all("end" in one.marks for one in run.of_script())
    yield from _loader_notes(run, loaders)
    for process in run.processes:
        who = f"worker {process.worker} of loader {process.loader}"
        who = {"script": "the script", "fork": "a process that was forked"}.get(process.role, who)
        if process.stopped:
            yield f"recording stopped in {who} (process {process.pid}): its records could not be written"
        elif process.role == "worker" and "end" not in process.marks and not ended_well:
            yield f"{who} (process {process.pid}) did not end by itself: its last batches may be missing"
        for fault in process.faults:
            yield f"a fault of pipebench in {who}: {fault}"


def _unseen(run: Run, footprint: Footprint) -> Iterable[str]:
    if not run.of_script():
        yield "the script was not watched: its process left no records, and standard error says why"
    if footprint.fault is not None:
        yield f"a fault of pipebench in looking at memory and descriptors: {footprint.fault}"
