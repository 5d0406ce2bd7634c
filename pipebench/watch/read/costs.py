"""Reads the costs of each loader and its loop from the records: the input of predictions. Pure."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipebench.results.costs import KEPT, LoopCosts
from pipebench.watch.read.device_idle import in_waits
from pipebench.watch.read.gather import Process, Run
from pipebench.watch.read.hand_off import FollowedBatch, assumed_s, explained_s, matched, pin_s, received_s
from pipebench.watch.read.script_cpu import stretches, without_spinning
from pipebench.watch.read.settled import step_ns
from pipebench.watch.record.lines import FetchSums, LoaderFound, LoopSums, PassEnded
from pipebench.watch.record.record_file import (
    AFTER,
    PIN,
    RECEIVE,
    SAMPLER,
    SEND,
    TRANSFER,
    UNPICKLE,
    WAIT,
    WAIT_PARTS,
)
from pipebench.watch.record.worker_lines import OneBatch, ToHandOver

_NS = 1e-9
_SETTLING = 2  # batches of each worker, and iterations of each pass: libraries set themselves up in them
_MOST_BETWEEN_S = 0.0005  # between two batches, a worker does no more than to put one and to take its next indices
_COMPUTES = 0.5  # of a core, by a worker's thread: then it may keep the interpreter's lock while a batch is sent
_REST = WAIT_PARTS.index("rest")
Item = TypeVar("Item")


def loop_costs(run: Run, found: LoaderFound, cores: float = math.inf) -> LoopCosts | None:
    """The costs of one loader, and of the loop over it. None if too little of it was seen, also of its device.

    `cores` is how many there are: see `without_spinning`.
    """
    turns = [one for lines in _passes(run.turns(found.loader)) for one in _settled(lines)]
    lines = [_without_first(lines) for lines in _by_process(run.sums(found.loader)).values()]
    fetches = sorted((one for each in lines for one in each if one.batches), key=lambda one: one.begin)
    if not turns or not fetches or _on_unseen_device(turns):
        return None
    followed, _ = matched(run.processes, found.loader, run.shown)
    pickled = [one.pickled for one in fetches]
    count = max(1, sum(one.batches for one in pickled))
    pipe_bytes = sum(one.pipe_bytes for one in pickled) / count
    taking = _taking(turns, found, followed, _most_received_s(lines, pipe_bytes, followed))
    made, loop = _made(fetches), _loop(turns, run, found, fetches, taking)
    cpu_s = sum(one.cpu_ns for one in pickled) * _NS / count
    held = ToHandOver._make(map(sum, zip(*(one.held for _, one in run.sums(found.loader)), strict=True)))
    return LoopCosts(
        loader=found.loader,
        workers=found.workers,
        prefetch_factor=found.prefetch_factor or 2,
        samples=sum(one.samples - one.unused for one in fetches) / sum(one.batches for one in fetches),
        iteration_s=loop.iteration_s,
        cpu_s=tuple(cpu for cpu, _ in made),
        blocked_s=tuple(blocked for _, blocked in made),
        step_s=loop.step_s,
        step_cpu_s=loop.step_cpu_s
        if found.workers
        else without_spinning(loop.step_cpu_s, cores * statistics.fmean(loop.step_s)),
        own_s=loop.own_s,
        send_s=loop.send_s,
        receive_s=loop.receive_s,
        late_s=taking.late_ns * _NS,
        between_s=_between_s(followed),
        feeder_cpu_s=cpu_s,
        feeder_blocked_s=max(0.0, sum(one.wall_ns for one in pickled) * _NS / count - cpu_s),
        pin_s=loop.pin_s,
        threads=_threads(run, found.loader, lines),
        core_wait_s=sum(one.core_wait_ns for one in fetches) * _NS / sum(one.batches for one in fetches),
        read_bytes=_read_bytes(lines),
        pipe_bytes=pipe_bytes if found.workers else None,
        tensors=held.tensors / held.batches if held.batches else None,
        hand_over_s=assumed_s(held) if held.batches else None,
        shared_bytes=statistics.fmean(one.made.shared_bytes for one in followed) if followed else None,
        device_s=_device_s(turns, loop.iteration_s),
        turns=_turns_of_pass(run, found.loader),
    )


def _on_unseen_device(turns: Sequence[LoopSums]) -> bool:
    """Whether batches were copied to a CUDA device whose idle time is not known: then nobody knows what it does."""
    return any(one.phases_ns[TRANSFER] for one in turns) and in_waits(turns) is None


def _device_s(turns: Sequence[LoopSums], iteration_s: float) -> float:
    """Seconds of an iteration without those in which the device was idle in the wait; 0 if there is no device."""
    idle = in_waits(turns)
    return max(0.0, iteration_s - idle.s) if idle is not None else 0.0


def _turns_of_pass(run: Run, loader: int) -> int | None:
    """The iterations of a pass: the median of those that ended, or were left for another one. None: there is none."""
    found: list[int] = []
    for process in run.of_script():
        turns, ends = Counter[int](), [one.how for one in process.of(PassEnded) if one.loader == loader]
        for one in process.of(LoopSums):
            if one.loader == loader:
                turns[one.number_of_pass] += one.turns
        last = max(turns, default=0)
        over = len(ends) == last + 1 and ends[-1] == "exhausted"
        found += [count for number, count in turns.items() if count and (number != last or over)]
    return statistics.median_low(found) if found else None


def _passes(turns: Sequence[LoopSums]) -> Iterable[list[LoopSums]]:
    return (list(lines) for _, lines in itertools.groupby(turns, key=lambda one: one.number_of_pass))


def _by_process(sums: Sequence[tuple[Process, FetchSums]]) -> dict[int, list[FetchSums]]:
    found: dict[int, list[FetchSums]] = {}
    for process, one in sums:
        found.setdefault(process.pid, []).append(one)
    return found


def _settled(lines: Sequence[Item]) -> list[Item]:
    """The lines without the first ones, if enough remain."""
    return list(lines[_SETTLING:] if len(lines) > 2 * _SETTLING else lines[1:] or lines)


def _without_first(lines: Sequence[FetchSums]) -> list[FetchSums]:
    """The lines without those of the worker's first batches, if enough batches remain."""
    later = lines[_SETTLING:]
    return list(later if sum(one.batches for one in later) > _SETTLING else lines[1:] or lines)


def _made(fetches: Sequence[FetchSums]) -> list[tuple[float, float]]:
    """(CPU seconds, blocked seconds) of single batches in their order, at most `KEPT`.

    Later in a run, a line has only the sums of its batches. So the single ones are scaled to the mean of all batches.
    """
    single = sorted(batch for one in fetches for batch in one.single) or [_mean(one) for one in fetches]
    kept = [(one.cpu * _NS, max(0, one.busy - one.cpu - one.core_wait) * _NS) for one in _thinned(single)]
    batches = sum(one.batches for one in fetches)
    means = (sum(one.cpu_ns for one in fetches) / batches, sum(map(_blocked_ns, fetches)) / batches)
    scales = [
        _share(mean * _NS, statistics.fmean(part)) for mean, part in zip(means, zip(*kept, strict=True), strict=True)
    ]
    return [(cpu * scales[0], blocked * scales[1]) for cpu, blocked in kept]


def _mean(one: FetchSums) -> OneBatch:
    return OneBatch(one.begin, one.busy_ns // one.batches, one.cpu_ns // one.batches, one.core_wait_ns // one.batches)


def _blocked_ns(one: FetchSums) -> int:
    """The wall time of fetches in which the thread neither computed nor waited for a core."""
    return max(0, one.busy_ns - one.cpu_ns - one.core_wait_ns)


def _thinned(lines: Sequence[Item]) -> Sequence[Item]:
    """The last `KEPT` of them: neighbours, so that a pattern of slow batches stays."""
    return lines[-KEPT:]


def _most_received_s(
    lines: Iterable[Sequence[FetchSums]], pipe_bytes: float, followed: Sequence[FollowedBatch]
) -> float:
    """The longest that receiving a batch can have kept the script's process at work.

    While a worker computes, its other threads wait for the interpreter's lock in the middle of a batch. What the size
    of the batch does not explain is then a wait for them, without a core. The time in which a worker had no core, as in
    the pauses of a quota, is not counted.
    """
    spans = [
        (sum(one.cpu_ns for one in each), each[-1].end - each[0].begin - sum(one.core_wait_ns for one in each))
        for each in lines
        if each
    ]
    if not followed or sum(cpu for cpu, _ in spans) < _COMPUTES * sum(span for _, span in spans):
        return math.inf
    return explained_s(pipe_bytes, statistics.fmean(one.made.tensors for one in followed))


@dataclass(frozen=True)
class _Taking:
    """Nanoseconds of a batch: to receive it, to wait meanwhile for its worker, and to pin it.

    `beside` says that the pin-memory thread does all this, so that the loop need not wait for it.
    """

    receive_ns: float
    late_ns: float
    pin_ns: float
    beside: bool


def _taking(
    turns: Sequence[LoopSums], found: LoaderFound, followed: Sequence[FollowedBatch], most_received_s: float
) -> _Taking:
    received, pinned = received_s(followed), pin_s(followed)
    if received is not None and pinned is not None:
        whole_ns, pin_ns = received / _NS, pinned / _NS
    else:
        count = sum(one.turns for one in turns)
        parts = _parts(turns)
        whole_ns = (parts[RECEIVE] + parts[UNPICKLE]) / count
        pin_ns = 0.0 if found.workers else parts[PIN] / count
    receive_ns = min(whole_ns, most_received_s / _NS)
    return _Taking(receive_ns, whole_ns - receive_ns, pin_ns, pinned is not None)


def _parts(turns: Sequence[LoopSums]) -> list[int]:
    """Nanoseconds of each part of all waits."""
    return [sum(one.wait_parts_ns[part] for one in turns if one.wait_parts_ns) for part in range(len(WAIT_PARTS))]


@dataclass(frozen=True)
class _Loop:
    """The loop's part of the costs: means per iteration, in seconds."""

    iteration_s: float
    step_s: tuple[float, ...]
    step_cpu_s: float
    own_s: float
    send_s: float
    receive_s: float
    pin_s: float | None


def _loop(
    turns: Sequence[LoopSums], run: Run, found: LoaderFound, fetches: Sequence[FetchSums], taking: _Taking
) -> _Loop:
    count = sum(one.turns for one in turns)
    steps = sum(step_ns(one) for one in turns)
    waits = sum(one.phases_ns[WAIT] for one in turns)
    parts = _parts(turns)
    own = parts[SAMPLER] + parts[AFTER] + max(0, waits - sum(parts) + parts[_REST]) if any(parts) else 0
    taken = taking.receive_ns + taking.pin_ns
    cpu, waited = _per_iteration(run, found.loader)
    if taking.beside:
        cpu -= taken
    if not found.workers:  # then the fetches are the thread's own work, and have figures of their own
        batches = sum(one.batches for one in fetches)
        cpu -= sum(one.cpu_ns for one in fetches) / batches
        waited -= sum(one.core_wait_ns for one in fetches) / batches
    cpu, waited = max(0.0, cpu), max(0.0, waited)
    had = _share(cpu, cpu + waited) or 1.0  # while the thread was ready to run, it had a core for this share
    step_cpu = max(0.0, cpu - had * ((own + parts[SEND]) / count + (0.0 if taking.beside else taken)))
    lost = waited * _share(step_cpu, cpu)
    single = [one for one in turns if one.turns == 1] or list(turns)
    kept = [step_ns(one) / one.turns for one in _thinned(single)]
    scale = _share(max(0.0, steps / count - lost), statistics.fmean(kept))
    taker_had = 1.0 if taking.beside else had
    return _Loop(
        iteration_s=(steps + waits) / count * _NS,
        step_s=tuple(one * scale * _NS for one in kept),
        step_cpu_s=step_cpu * _NS,
        own_s=had * own / count * _NS,
        send_s=had * parts[SEND] / count * _NS,
        receive_s=taker_had * taking.receive_ns * _NS,
        pin_s=taker_had * taking.pin_ns * _NS if taking.beside or taking.pin_ns else None,
    )


def _per_iteration(run: Run, loader: int) -> tuple[float, float]:
    """Nanoseconds of an iteration: CPU time of the script's process, and the loop's thread's wait for a core."""
    found = stretches(one for lines in _passes(run.turns(loader)) for one in _settled(lines))
    count = sum(one.turns for one in found)
    cpu, waited = sum(one.cpu_ns for one in found), sum(one.waited_ns for one in found)
    return (cpu / count, waited / count) if count else (0.0, 0.0)


def _between_s(followed: Sequence[FollowedBatch]) -> float:
    """Seconds from the end of a batch to the begin of the next one of the same worker, if that did not have to wait.

    A worker that waits takes longer, so this is the smallest decile, and at most `_MOST_BETWEEN_S`.
    """
    gaps = []
    batches = sorted(followed, key=lambda one: (one.pid, one.number_of_pass, one.made.nth))
    for before, one in itertools.pairwise(batches):
        if (
            before.pid == one.pid
            and before.number_of_pass == one.number_of_pass
            and one.made.nth == before.made.nth + 1
        ):
            gaps.append(one.made.began - before.made.done)
    return min(_MOST_BETWEEN_S, max(0.0, statistics.quantiles(gaps, n=10)[0] * _NS)) if len(gaps) > 1 else 0.0


def _threads(run: Run, loader: int, lines: Iterable[Sequence[FetchSums]]) -> float:
    """On how many cores a batch is made: the CPU time of all threads of a worker, over that of the one that fetches.

    1 if no native thread did any work in the workers: what else they do is their feeder thread's, and ours.
    """
    workers = run.workers_of(loader)
    if not any(one.threads.native_threads for one in workers):
        return 1.0
    all_ns = own_ns = 0
    for first, *later in lines:
        if later and first.process_cpu_ns:
            all_ns += later[-1].process_cpu_ns - first.process_cpu_ns - sum(one.pickled.cpu_ns for one in later)
            own_ns += sum(one.cpu_ns for one in later)
    return max(1.0, _share(all_ns, own_ns))


def _read_bytes(lines: Iterable[Sequence[FetchSums]]) -> float | None:
    found = [(each[-1].read_bytes - each[0].read_bytes, sum(one.batches for one in each[1:])) for each in lines]
    batches = sum(count for _, count in found)
    return sum(spent for spent, _ in found) / batches if batches else None


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
