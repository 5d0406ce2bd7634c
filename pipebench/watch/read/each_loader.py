"""What a loader is and takes, and the stages of its workers. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from pipebench.results.watched import LoaderResult, StageResult
from pipebench.watch.read.described import (
    again,
    called_by,
    content,
    made_by,
    models_of,
    other_data,
    place,
    remade,
    single,
)
from pipebench.watch.read.gather import Process, Run, added, percentile
from pipebench.watch.read.host_use import script_cores
from pipebench.watch.read.series import by_worker
from pipebench.watch.read.settled import count, step_ns, without_first
from pipebench.watch.record.lines import FetchSums, LoaderFound, LoopSums, PassBegun, PassEnded, StageName
from pipebench.watch.record.record_file import WAIT
from pipebench.watch.record.worker_lines import KeptOpen, Shrunk

_NS = 1e-9
_READS_JPEG = "imread"
_NEARLY_ALL, _FEWEST_READ = 0.9, 20  # JPEGs


def loader_result(run: Run, described: LoaderFound) -> LoaderResult:
    """A loader as its script made it, and the means of its passes."""
    number = described.loader
    turns, sums = run.turns(number), [one for _, one in run.sums(number)]
    firsts = [one.first_wait_ns * _NS for one in turns if one.first_wait_ns is not None]
    samples, lengths = sum(one.samples for one in sums), added(one.lengths for one in sums)
    made = count(turns)
    later = made - len(firsts)
    waits = sum(one.phases_ns[WAIT] - (one.first_wait_ns or 0) for one in turns) * _NS
    rest = sum(map(step_ns, turns)) * _NS
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
        passes=len(run.of_loader(PassBegun, number)),
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
        called_by=called_by(described.made),
        again=again(run, number),
        remade=remade(run, number),
        others=len(other_data(run, number)),
        beside=bool(turns) and all(one.beside and not one.trained for one in turns),
        content=content(one.content for one in sums),
        undivided=described.undivided,
        shards=described.shards,
        own_processes=described.own_processes,
        kept_open=any(one.loader == number for process in run.processes for one in process.of(KeptOpen)),
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
    begun = {one.number: one.begin for one in run.of_loader(PassBegun, loader)}
    found = [
        at - begun[one.number_of_pass]
        for one in run.turns(loader)
        if (at := _first_batch(one)) is not None and one.number_of_pass and one.number_of_pass in begun
    ]
    return sum(found) * _NS / len(found) if found else None


def _pass_end(run: Run, loader: int) -> float | None:
    """Mean seconds of the last `next()` of a pass, over the passes that came to their end."""
    found = [one.wait_ns for one in run.of_loader(PassEnded, loader) if one.how == "exhausted"]
    return sum(found) * _NS / len(found) if found else None


def stage_results(run: Run, loader: int) -> list[StageResult]:
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
    learned = models_of(run, loader)
    rows = [
        dataclasses.replace(one, learned=True)
        if one.kind == "transform" and one.name.split(" (")[0] in learned
        else one
        for one in rows
    ]
    shrinks = _shrinks(record.shrunk for _, record in sums)
    rows = [dataclasses.replace(one, shrinks=shrinks) if one.name == _READS_JPEG else one for one in rows]
    return sorted(rows, key=lambda one: -one.exclusive_s_per_sample)


def _shrinks(found: Iterable[Shrunk]) -> int:
    """By how much OpenCV could decode nearly all JPEGs smaller; 0 if it could not, or too few were seen."""
    read, *smaller = (sum(each) for each in zip(Shrunk(), *found, strict=True))
    enough = (by for by, count in zip((8, 4, 2), reversed(smaller), strict=True) if count >= _NEARLY_ALL * read)
    return next(enough, 0) if read >= _FEWEST_READ else 0


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
