"""Chooses the one next move that the figures of a watched run support. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pipebench.predict.asked import USUAL_HAND_OFF_S, cores_beside, crowds, hand_off_s
from pipebench.predict.loader import short_pass
from pipebench.predict.more_workers import more_workers
from pipebench.predict.passports import foreign_known, passport_of
from pipebench.predict.planning import foreseen
from pipebench.predict.room import PREFETCH_FACTOR, Room
from pipebench.results.costs import Passport
from pipebench.results.hand_off import HandOff
from pipebench.results.host_use import HostUse
from pipebench.results.next_move import Lacking, NextMove
from pipebench.results.watched import LoaderResult, StageResult, WatchResult, WorkerResult
from pipebench.stats import Speedup
from pipebench.watch.read.hand_off import asks_for_each, explained_s, one_by_one
from pipebench.watch.read.known_move import with_known_line
from pipebench.watch.read.makers import makers
from pipebench.watch.record.media import kind_of_stage

BUSY = 0.90
REST = 0.5  # the busy share below which workers mostly rest: then nothing waits for them
_AT_WORK = 0.5  # of the time in which a batch is received, at least: CPU time of a process that is at work on it
_BUSY_ASLEEP = 0.8  # of workers that mostly wait: as in the causes
FEW = 8  # batches and iterations: fewer do not show how they scatter
_WORTH = 1.05  # a predicted speed-up that is worth naming
_OF_OTHERS = 0.5  # of a core, used by others: then what a change brings depends on them
_BESIDE_OTHERS = 1.1  # what it must bring without them then
_MOSTLY = 0.5  # of its time, a worker neither computes nor wants a core
USED_UP = 0.9  # of the usable cores
# To fork a worker and to end it, in each pass: 60 passes of 4 batches took 64 ms longer each with one worker, on two
# cores (1 December 2026).
_START_S, _FIRST = 0.05, (1, 2, 4, 8)
LEAST_CORES = 0.1  # of a core: what another worker needs at least, however much it sleeps


def largest_stage(result: WatchResult, main: LoaderResult) -> StageResult | None:
    return next((one for one in result.stages if one.loader == main.loader and one.kind != "serialise"), None)


def comparable_workers(result: WatchResult, main: LoaderResult) -> list[WorkerResult]:
    """The workers of the loader. The list is empty with `--bound`: there, workers are idle and busy in turns."""
    return [] if result.bound is not None else [one for one in result.workers if one.loader == main.loader]


def busy(workers: Sequence[WorkerResult]) -> float:
    return sum(one.busy_share for one in workers) / len(workers) if workers else 0.0


def longest_hand_off_s(found: HandOff) -> float:
    """The seconds of receiving and unpickling that a batch of this size explains.

    A batch that takes longer waits for a core, or for the lock of an interpreter that computes: that of its worker,
    which sends the descriptors of tensors from a thread.
    """
    return explained_s(found.pipe_bytes_per_batch, found.tensors_per_batch or 0.0)


def late_s(result: WatchResult) -> float:
    """The seconds of an iteration for which receiving a batch takes longer than its size explains."""
    received = sum(one.s_per_iteration for one in result.wait_parts if one.part in ("receive", "unpickle"))
    return max(0.0, received - longest_hand_off_s(result.hand_off)) if result.hand_off is not None else 0.0


def receives_late(result: WatchResult, main: LoaderResult, workers: Sequence[WorkerResult]) -> bool:
    """Whether receiving a batch waits for a worker that computes: the script's process uses too little CPU time for it.

    A worker sends the descriptors of tensors from a thread, which waits for the lock of its interpreter.
    """
    if main.script_cores is None or busy(workers) < REST or _rest(workers) >= _MOSTLY:
        return False
    return main.script_cores * (main.s_per_iteration or 0.0) < _AT_WORK * late_s(result)


def slow_hand_off(result: WatchResult, main: LoaderResult) -> tuple[float, float] | None:
    """Seconds that a feeder thread pickles a batch and that its worker makes one; None if making takes longer.

    Both run beside each other in each worker, so the longer one limits it. While one of them holds the interpreter's
    lock, the other waits: pickling must take longer in wall time and in CPU time.
    """
    feeder = next((one for one in result.stages if one.loader == main.loader and one.kind == "serialise"), None)
    workers = [one for one in result.workers if one.loader == main.loader]
    batches, made_s = sum(one.batches for one in workers), sum(one.busy_s for one in workers)
    if feeder is None or result.hand_off is None or not batches:
        return None
    pickled_s = feeder.exclusive_s_per_sample * feeder.samples
    cpu_s = pickled_s * _on_cpu(result.hand_off)
    if pickled_s <= made_s or cpu_s <= sum(one.cpu_s for one in workers):
        return None
    return pickled_s / batches, made_s / batches


def _on_cpu(found: HandOff) -> float:
    return found.serialise_cpu_s_per_batch / found.serialise_s_per_batch if found.serialise_s_per_batch else 0.0


def next_move(result: WatchResult, main: LoaderResult) -> NextMove | None:
    """What to change where the workers, or the lack of them, are the limit. None: no figure supports a change."""
    stage, workers = largest_stage(result, main), makers(main, comparable_workers(result, main))
    if stage is None:
        return None
    if not main.workers:
        return _first_workers(result, main, stage)
    if (slow := slow_hand_off(result, main)) is not None:
        return _cheaper_hand_off(result, main, *slow)
    enough = _BUSY_ASLEEP if _rest(workers) >= _MOSTLY else BUSY
    if busy(workers) < enough and not receives_late(result, main, workers):
        return None
    return _of_busy_workers(result, main, stage, workers)


def _of_busy_workers(
    result: WatchResult, main: LoaderResult, stage: StageResult, workers: Sequence[WorkerResult]
) -> NextMove:
    """More workers if they are certain to gain, or if a core is free and they are likely to; else a cheaper stage."""
    on_cpu = sum(map(cores_of, workers))
    taken, idle = result.taken_cores, idle_cores(result, workers, main.script_cores)
    siblings = min(taken, result.host.sibling_cores if result.host is not None else 0.0)
    foreign = taken - siblings
    free = idle >= max(LEAST_CORES, on_cpu / len(workers))
    used = NextMove(
        "make-stage-cheaper", result.usable_cores, main.workers, on_cpu, script_cores=main.script_cores,
        sibling_cores=siblings, wanted_cores=waited_for(workers), lacks=lacking(result, main),
        workers_busy=busy(workers),
    )  # fmt: skip
    if used.lacks is not None:
        return _of_stage(used, main, stage, foreign)
    if foreign_known(result) or not _kept_waiting(result, main, workers):
        used = _with_prediction(used, result, main, foreign)
    if used.lacks is not None:
        return _of_stage(used, main, stage, foreign)
    if used.predicted is not None:
        of_ranks = _of_all_ranks(used.predicted, result.host, on_cpu + _of_script(main.script_cores))
        used = replace(used, predicted=of_ranks)
    fair, alone = used.fair, used.alone
    likely = free and (fair is None or fair.speedup >= (_WORTH if alone is None else _BESIDE_OTHERS))
    # Where other processes hold the loop up, a cheaper stage does not help workers that wait either.
    held_up = alone is not None and alone.speedup >= _WORTH and _rest(workers) >= _MOSTLY
    if _gains(fair) or likely or held_up:
        return replace(used, action="raise-num-workers", foreign_cores=foreign)
    return _of_stage(used, main, stage, foreign)


def _of_all_ranks(one: Speedup, host: HostUse | None, own_cores: float) -> Speedup:
    """The same for a rank that shares cores with others of its job: if it gets faster, so do they, and need more."""
    if host is None or host.shared_cores is None:
        return one
    elsewhere = max(0.0, (host.machine_cores or host.shared_cores) - host.shared_cores)
    left = host.shared_cores - max(0.0, (host.foreign_cores or 0.0) - elsewhere)
    most = max(1.0, left / (own_cores + host.sibling_cores)) if own_cores else math.inf
    return replace(one, speedup=min(one.speedup, most), low=min(one.low, most), high=min(one.high, most))


def _with_prediction(move: NextMove, result: WatchResult, main: LoaderResult, foreign: float) -> NextMove:
    """The move with the number of workers that is predicted to bring most, if enough was recorded for a prediction.

    Beside others that use `foreign` cores, more workers also get more of what these use. So the machine without them
    judges the number.
    """
    passport = _passport(result, main)
    if passport is None:
        return move
    many = (foreign if foreign_known(result) else passport.others) >= _OF_OTHERS
    start_s = start_of_one_s(main, result.usable_cores)
    found = more_workers(passport, room_of(result, main), beside_others=not many, start_s=start_s)
    if found is None:
        return replace(move, lacks="starts") if start_s and move.lacks is None else move
    costs, (workers, predicted) = passport.costs, found
    ahead = costs.prefetch_factor
    beside, alone = (foreseen(passport, workers, ahead), predicted) if many else (predicted, None)
    in_passes, on_device = short_pass(costs, workers, ahead), costs.device_s > 0
    return replace(move, to_workers=workers, predicted=beside, alone=alone, pass_batches=in_passes, on_device=on_device)


def start_of_one_s(main: LoaderResult, cores: float) -> float:
    """How long a core works to start one worker that is not forked, in each pass: it imports the script's modules."""
    took_s = main.startup_s if main.later_startup_s is None else main.later_startup_s
    if main.start_method == "fork" or not main.workers or took_s is None:
        return 0.0
    return took_s * min(cores, main.workers) / main.workers


def lacking(result: WatchResult, main: LoaderResult) -> Lacking | None:
    """What one more worker would have too little of. None: nothing is known to be lacking."""
    return room_of(result, main).lacks(main.workers + 1)


def room_of(result: WatchResult, main: LoaderResult) -> Room:
    """What there is for more workers, as far as it was recorded."""
    host, costs = result.host, result.costs_of(main.loader)
    ranks = 1 if host is None else host.ranks
    free = None if host is None or host.free_bytes is None else host.free_bytes / ranks
    ahead, batches = (PREFETCH_FACTOR, None) if costs is None else (costs.prefetch_factor, costs.turns)
    return Room(result, main, main.workers, ahead, batches, free, ranks)


def _passport(result: WatchResult, main: LoaderResult) -> Passport | None:
    """None: too little was recorded."""
    found = passport_of(result, loader=main.loader) if result.costs else None
    return found if found is not None and min(len(found.costs.cpu_s), len(found.costs.step_s)) >= FEW else None


def _rest(workers: Sequence[WorkerResult]) -> float:
    """The share of making batches in which workers neither compute nor want a core."""
    made_s = sum(one.busy_s for one in workers)
    return 1 - sum(one.cpu_s + one.core_wait_s for one in workers) / made_s if made_s else 0.0


def _kept_waiting(result: WatchResult, main: LoaderResult, workers: Sequence[WorkerResult]) -> bool:
    """Whether workers that compute are as many as the cores, and wait for some that the script does not use."""
    missing = result.usable_cores - sum(map(cores_of, workers)) - _of_script(main.script_cores)
    wanted = min(missing, waited_for(workers))
    return len(workers) >= result.usable_cores and _rest(workers) < _MOSTLY and wanted >= _OF_OTHERS


def _gains(predicted: Speedup | None) -> bool:
    return predicted is not None and predicted.low > 1.0


def _first_workers(result: WatchResult, main: LoaderResult, stage: StageResult) -> NextMove | None:
    """Workers, if a batch takes longer to make than to hand over, and there is a core for them or a certain gain."""
    if main.own_processes:
        return _of_stage(NextMove("make-stage-cheaper", result.usable_cores, lacks="processes"), main, stage)
    parts = {one.part: one.s_per_iteration for one in result.wait_parts}
    made_s = parts.get("make-batch", main.wait_s_per_iteration or 0.0)
    if parts.get("wait-for-worker", 0.0) > parts.get("make-batch", 0.0):  # one thread beside the loop makes them
        return NextMove("workers-for-thread", result.usable_cores, to_workers=2) if result.usable_cores >= 2 else None
    if starts_take_longer(main, made_s * main.iterations):
        return _of_stage(NextMove("make-stage-cheaper", result.usable_cores, lacks="starts"), main, stage)
    passport = passport_of(result, loader=main.loader) if result.costs else None
    handed_s = hand_off_s(passport.costs) if passport is not None else USUAL_HAND_OFF_S
    if made_s <= handed_s:
        cheaper = NextMove("make-stage-cheaper", result.usable_cores, hand_off_s=handed_s, batch_s=made_s)
        return _of_stage(cheaper, main, stage)
    first = NextMove("set-num-workers", result.usable_cores, script_cores=main.script_cores, lives_on=lives_on(main))
    first = _with_prediction(first, result, main, result.taken_cores)
    first = replace(first, torch_threads=threads_beside(result, main, first.to_workers or 1))
    predicted = first.fair
    if result.usable_cores < 2 and not _gains(predicted):
        return None
    if predicted is None:  # then the cores judge
        worth = result.usable_cores >= _WORTH * _of_script(main.script_cores)
    else:
        worth = predicted.speedup >= _WORTH or _gains(predicted)
    if worth:
        return first
    return _of_stage(replace(first, action="make-stage-cheaper"), main, stage)


def lives_on(main: LoaderResult) -> bool:
    """Whether first workers can live on from one pass to the next: else they start in each."""
    return main.passes > 1 and not main.again


def starts_take_longer(main: LoaderResult, made_s: float) -> bool:
    """Whether first workers that start in each pass take longer for it than they save of `made_s`, of the run.

    One of them works beside the loop's own work, and several beside one another.
    """
    if main.passes < 2 or lives_on(main):
        return False
    own_s = max(0.0, (main.s_per_iteration or 0.0) - (main.wait_s_per_iteration or 0.0)) * main.iterations
    saved = ((n, min(made_s, own_s + made_s * (1 - 1 / n))) for n in _FIRST)
    return all(one < n * _START_S * main.passes for n, one in saved)


def threads_beside(result: WatchResult, main: LoaderResult, workers: int, cores: float | None = None) -> int | None:
    """The threads that training may have beside so many workers, where it uses their cores now. None: it does not.

    With more, its threads would wait for one another, see `torch_threads`. `cores` are those of this rank (None: its
    part of the usable ones).
    """
    costs = result.costs_of(main.loader)
    if costs is None:
        return None
    if cores is None:
        cores = result.usable_cores / (result.host.ranks if result.host is not None else 1)
    fewer = max(1, math.floor(cores_beside(costs, workers, cores) + 0.5))
    return fewer if crowds(costs, workers, cores) and threads_of_torch(result) > fewer else None


def _cheaper_hand_off(result: WatchResult, main: LoaderResult, pickled_s: float, made_s: float) -> NextMove:
    found = result.hand_off
    return NextMove(
        "make-hand-off-cheaper",
        result.usable_cores,
        main.workers,
        hand_off_s=pickled_s,
        batch_s=made_s,
        pipe_bytes=found.pipe_bytes_per_batch if found else None,
        array_bytes=found.array_bytes_per_batch if found else None,
        viewed_bytes=found.viewed_bytes_per_batch if found and found.views else None,
        tensors=one_by_one(found) if found else None,
        carried=found.carried if found else "",
    )


def cores_of(worker: WorkerResult) -> float:
    """The cores that all threads of a worker keep busy; without that figure, those of the thread that makes batches."""
    if worker.cores is not None:
        return worker.cores
    return worker.busy_share * worker.cpu_s / worker.busy_s if worker.busy_s else 0.0


def waited_for(workers: Sequence[WorkerResult]) -> float:
    """The cores that workers wanted and did not get, on average: none of these is idle, whoever has them."""
    return sum(one.busy_share * one.core_wait_s / one.busy_s for one in workers if one.busy_s)


def used_up(result: WatchResult, main: LoaderResult, workers: Sequence[WorkerResult]) -> bool:
    """Whether hardly a core was idle, whoever used them. Then each thread that wakes up waits for one."""
    used = sum(map(cores_of, workers)) + (main.script_cores or 0.0) + result.taken_cores
    return used >= USED_UP * result.usable_cores


def threads_of_torch(result: WatchResult) -> int:
    """How many threads torch has in the script's process; 0 if nobody knows."""
    pools = result.host.pools if result.host is not None else ()
    return next((one.threads for one in pools if one.where == "script" and one.name == "torch"), 0)


def idle_cores(result: WatchResult, workers: Sequence[WorkerResult], script_cores: float | None) -> float:
    """What is left of the usable cores. What workers want and do not get is not idle, whoever has it."""
    used = sum(map(cores_of, workers)) + _of_script(script_cores)
    return result.usable_cores - used - max(result.taken_cores, waited_for(workers))


def _of_script(cores: float | None) -> float:
    """What the script's own process keeps busy: one core, if nobody knows."""
    return 1.0 if cores is None else cores


def _of_stage(move: NextMove, main: LoaderResult, stage: StageResult, foreign: float | None = None) -> NextMove:
    kind = kind_of_stage(stage.name, stage.kind, stage.includes_read)
    move = replace(move, stage=stage.name, stage_kind=kind, stage_s=stage.exclusive_s_per_sample)
    each = asks_for_each(main, stage.name)
    return replace(move, sample_s=main.sample_s or 0.0, foreign_cores=foreign, asks_for_each=each)


_AT_LOADER = ("keep-workers", "load-validation-faster", "validate-in-larger-batches")  # where their loader is made
_BY_CORES = ("raise-num-workers", "make-stage-cheaper", "set-num-workers")


def among_ranks(
    result: WatchResult, others: Sequence[WatchResult], used_cores: float, shared_cores: float
) -> WatchResult:
    """The result of a rank that shares the cores of a machine with others of its job, and a move that knows it.

    `used_cores` are what the others used while it ran, start-up included: so much of what other processes used.
    """
    if result.host is None:
        return result
    foreign = result.host.foreign_cores
    host = replace(
        result.host,
        foreign_cores=None if foreign is None else max(0.0, foreign - used_cores),
        sibling_cores=sum(map(_loop_cores, others)),
        shared_cores=shared_cores,
        ranks=len(others) + 1,
    )
    result, move = replace(result, host=host), result.next_move
    main = next((one for one in result.loaders if one.loader == result.verdict.loader), None)
    if move is None or main is None or move.loader is not None or move.action not in _BY_CORES:
        return result
    return replace(result, next_move=in_its_words(next_move(result, main), result))


def _loop_cores(one: WatchResult) -> float:
    """The cores that a program keeps busy in its loop, with its workers."""
    loaders = [loader for loader in one.loaders if loader.loader in one.loaders_in_loop]
    workers = [worker for worker in one.workers if worker.loader in one.loaders_in_loop]
    return sum(map(cores_of, workers)) + max((loader.script_cores or 0.0 for loader in loaders), default=0.0)


def in_its_words(move: NextMove | None, result: WatchResult) -> NextMove | None:
    """The same move, with the library that made the loader, and with the line that should be changed first."""
    if move is None:
        return None
    first = result.loaders_in_loop[0] if result.loaders_in_loop else None
    main = move.loader or result.verdict.loader or first
    own = next((one for one in result.loaders if one.loader == main), None)
    if own is None:
        return move
    move = replace(move, made_by=own.made_by, called_by=own.called_by, again=own.again, remade=own.remade)
    move = replace(move, others=own.others)
    if move.action in _AT_LOADER:
        move = replace(move, file=own.file, line=own.line)
    move = replace(move, undivided=own.undivided, shards=own.shards, kept_open=own.kept_open)
    if len(result.loaders) > 1:
        move = replace(move, of_loader=own.loader)
    return with_known_line(move, result, own.loader)
