"""Says what the large rows of an account come from, with the figures behind it. Pure; nothing is tried.

Each function knows one kind of cause. Where the figures support two causes of the same time, both are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from pipebench.results.account import Account, Cause
from pipebench.results.hand_off import HandOff
from pipebench.results.watched import LoaderResult, WatchResult, WorkerResult
from pipebench.watch.read.after_model import python_loops, spans
from pipebench.watch.read.busy_threads import busy_threads
from pipebench.watch.read.checkpointing import checkpointing
from pipebench.watch.read.computed_again import computed_again
from pipebench.watch.read.cores_taken import cores_taken, held_up
from pipebench.watch.read.few_parts import few_parts, idle_values
from pipebench.watch.read.frozen_modules import frozen_modules, unused_gradients
from pipebench.watch.read.full_collections import full_collections
from pipebench.watch.read.gather import Run, loaders_found
from pipebench.watch.read.given_by_each import given_by_each
from pipebench.watch.read.growing import Grown
from pipebench.watch.read.hand_off import carried_of, one_by_one
from pipebench.watch.read.host_use import unexplained, worker_threads
from pipebench.watch.read.in_vain import HALF, fields_in_vain, not_needed
from pipebench.watch.read.known_move import with_slow_lines
from pipebench.watch.read.locks import shared_lock
from pipebench.watch.read.loop_causes import (
    callbacks,
    compiling,
    ignored_targets,
    in_double,
    left_on,
    optimiser,
    padding,
    preparing,
    training,
)
from pipebench.watch.read.makers import makers
from pipebench.watch.read.moves import (
    LEAST_CORES,
    USED_UP,
    cores_of,
    idle_cores,
    lacking,
    longest_hand_off_s,
    receives_late,
    slow_hand_off,
)
from pipebench.watch.read.moves import busy as busy_of
from pipebench.watch.read.moves_of_run import FIRST
from pipebench.watch.read.of_causes import MATTERS, Seen, stage_values, without_core_s
from pipebench.watch.read.once import once
from pipebench.watch.read.one_worker import one_busy_worker
from pipebench.watch.read.own_lines import in_python
from pipebench.watch.read.pass_causes import dataset_anew, sampler, start_up, timed_out
from pipebench.watch.read.reads import read_values
from pipebench.watch.read.slower_steps import slower_steps
from pipebench.watch.read.small_batches import small_batches
from pipebench.watch.read.small_steps import many_operations
from pipebench.watch.read.stalls import FEWEST, has_reason, period_of, waits_of
from pipebench.watch.read.torch_threads import few_threads, many_threads, other_threads
from pipebench.watch.read.untrained import validation
from pipebench.watch.read.warming import warming
from pipebench.watch.read.without_workers import no_workers

_OF_RUN = 0.02
_OF_LOOPS = 0.1  # waits for a core, which scatter more
_BUSY, _BLOCKED, _ON_CPU = 0.8, 0.5, 0.8
_IDLE_CORES = 0.5
_WANTED = 0.2  # of the time in which workers make batches: then they have too few cores
_BESIDE = 1.4  # times what their own thread uses: then native threads use the rest
_MOST_OF_CORES = 0.5  # of the usable ones: then workers, and not other processes, take them from the script
_HELD_UP = 0.3  # of the waits
_LEAST_TENSORS = 2  # images and labels: a hand-off of no more is not made cheaper
_SOME_OF_WAITS = 0.3  # of the looks at waiting workers; a few looks tell no smaller part
_SOON_S = 24 * 3600.0  # memory that lasts longer is no matter
_FAR = 100  # times as long as the run: what grows may level off long before


def hand_off(seen: Seen) -> Iterable[Cause]:
    found = seen.result.hand_off
    if found is None:
        return
    values: dict[str, str | int | float] = {
        "serialise_s_per_batch": found.serialise_s_per_batch, "pipe_bytes_per_batch": found.pipe_bytes_per_batch,
        "array_bytes_per_batch": found.array_bytes_per_batch or 0.0, **_tensors(found), **carried_of(found),
    }  # fmt: skip
    above = replace(found, tensors_per_batch=max(0.0, (found.tensors_per_batch or 0.0) - _LEAST_TENSORS))
    most = longest_hand_off_s(above) * sum(map(seen.batches, seen.in_loop))
    saved = seen.saved("receive", "unpickle")
    saved = None if saved is None else min(saved, most)
    yield Cause("hand-off", min(seen.s("receive", "unpickle"), most), saved, None, values)


def _tensors(found: HandOff) -> dict[str, float]:
    tensors = one_by_one(found)
    return {} if tensors is None else {"tensors": tensors}


def _crossing(seen: Seen) -> dict[str, float]:
    """What crosses with the tensors of a batch, if it is more than they hold; or their number, if that costs most.

    The hand-off is that of all loaders.
    """
    found = seen.result.hand_off
    if found is None or len(seen.in_loop) > 1:
        return {}
    if not found.views:
        return _tensors(found)
    return {"viewed_bytes": found.viewed_bytes_per_batch or 0.0, "held_bytes": found.held_bytes_per_batch}


def _late(seen: Seen, one: LoaderResult) -> float:
    """The seconds of receiving that the size of batches does not explain: then they wait for busy workers."""
    found = seen.result.hand_off
    if found is None or not found.pipe_bytes_per_batch:
        return 0.0
    spent = seen.s("receive", "unpickle", loader=one.loader)
    return max(0.0, spent - longest_hand_off_s(found) * seen.batches(one))


def _plain(code: str, *rows: str, on_device: bool = False) -> Callable[[Seen], Iterable[Cause]]:
    """A cause that is as large as these rows."""

    def found(seen: Seen) -> Iterable[Cause]:
        yield Cause(code, seen.s(*rows), seen.saved(*rows), on_device=on_device)

    return found


def waiting(seen: Seen) -> Iterable[Cause]:
    """Why no batch was there: the workers never rest, or they rest and the loop waits all the same."""
    vain = {cause.loader: cause.s for cause in fields_in_vain(seen) if _large(seen, cause)}
    for one in seen.in_loop:
        workers = makers(one, seen.workers(one))
        waited = seen.s("wait-for-worker", loader=one.loader)
        saved = seen.saved("wait-for-worker", loader=one.loader)
        busy = busy_of(workers)
        values: dict[str, str | int | float] = {"workers": one.workers, "busy": busy}
        always = busy >= _BUSY or receives_late(seen.result, one, workers)
        if always and (late := _late(seen, one)):
            waited, saved, values["late_s"] = waited + late, (saved or 0.0) + late, late
        if not waited or not any(worker.busy_s for worker in workers) or vain.get(one.loader, 0.0) >= HALF * waited:
            continue  # nothing to tell, or it is told
        whole = Cause("", waited, saved, one.loader, values)
        whole = replace(whole, values={**values, **idle_values(seen, one, workers, whole)})
        if (parts := few_parts(whole)) is not None:
            yield parts
            continue
        if (only := _only(seen, one, workers, whole, always)) is not None:
            yield only
            continue
        found = [*(_busy(seen, one, workers, whole) if always else _resting(seen, one, workers, whole, busy))]
        if not found:
            found = [replace(whole, code="waiting")]
        yield from (replace(cause, unsure=True) for cause in found) if len(found) > 1 else found


def _only(seen: Seen, one: LoaderResult, workers: Sequence[WorkerResult], whole: Cause, always: bool) -> Cause | None:
    """A cause beside which no other one is told: a slow hand-off, few cores, or work that is not needed."""
    if (slow := slow_hand_off(seen.result, one)) is not None:
        told: dict[str, str | int | float] = {**whole.values, "pickle_s": slow[0], "make_s": slow[1], **_crossing(seen)}
        return replace(whole, code="pickling", values=told)
    if (few := _few_cores(seen, one, workers, whole)) is not None:
        return few
    if not always:
        return None
    return not_needed(seen, one, _with_cores(seen, one, whole, sum(map(cores_of, workers))), of=whole.s)


def _few_cores(seen: Seen, one: LoaderResult, workers: Sequence[WorkerResult], whole: Cause) -> Cause | None:
    """Workers that want a core, and may all together use fewer than the script has. None: they are not held up so."""
    allowed = {core for worker in workers for core in worker.allowed_cores}
    usable = min(seen.result.usable_cores, one.workers)
    if not allowed or len(allowed) + _IDLE_CORES > usable or not _want_cores(workers):
        return None
    return replace(whole, code="few-cores", values={**whole.values, "allowed": len(allowed), "usable_cores": usable})


def _want_cores(workers: Sequence[WorkerResult]) -> bool:
    return sum(worker.core_wait_s for worker in workers) >= _WANTED * sum(worker.busy_s for worker in workers)


def _busy(seen: Seen, one: LoaderResult, workers: Sequence[WorkerResult], whole: Cause) -> Iterable[Cause]:
    """Causes of workers that never rest."""
    cores = seen.result.usable_cores
    on_cpu = sum(worker.cpu_s for worker in workers) / sum(worker.busy_s for worker in workers)
    script = seen.script_cores(one)
    used = sum(map(cores_of, workers))
    computes = max(on_cpu, used / sum(worker.busy_share for worker in workers))  # a decoder may have threads of its own
    runnable = computes + sum(worker.core_wait_s for worker in workers) / sum(worker.busy_s for worker in workers)
    host = seen.result.host
    idle = idle_cores(seen.result, workers, script)
    values = {
        **whole.values, "cpu_share": min(1.0, on_cpu), "cores_used": used, "script_cores": script or 0.0,
        "usable_cores": cores,
        **(
            {"idle_cores": idle, "foreign_cores": seen.result.taken_cores}
            if host is not None and host.foreign_cores is not None
            else {}
        ),
        **stage_values(seen, one),
        **({"kept_open": 1} if one.kept_open else {}),
        **({"lacks": lacks} if (lacks := lacking(seen.result, one)) else {}),
    }  # fmt: skip
    cause = replace(whole, values=values)
    if (lock := shared_lock(seen, one, cause)) is not None:
        yield lock
        return
    used_up = script is not None and used + script >= USED_UP * cores
    beside = used >= _BESIDE * on_cpu * sum(worker.busy_share for worker in workers)
    threads, pools = worker_threads(seen.run, one.loader)
    if threads > 1 and one.workers * threads > cores and (used_up or _want_cores(workers)):
        named = {pool.set_with for pool in pools}
        setting = {"setting": min(named)} if len(named) == 1 and not unexplained(threads, pools) else {}
        told = replace(cause, code="threads-over-cores", values={**values, "threads": threads, **setting})
        if used_up and beside:  # these threads use the cores up
            yield _with_cores(seen, one, told, used)
            return
        yield told
    # Workers that only wait for a core leave less of the cores idle than they use, and are not seen asleep.
    elif runnable <= _BLOCKED and (idle >= min(_IDLE_CORES, max(LEAST_CORES, used)) or _asleep(workers) >= _BLOCKED):
        yield from _blocked(seen, one, cause, workers)
    elif runnable >= _ON_CPU or used + (script or 0.0) < USED_UP * cores:
        yield replace(
            _with_cores(seen, one, replace(cause, values={**values, "used_up": int(used_up)}), used), code="stage"
        )
        return
    if used_up:
        yield replace(_with_cores(seen, one, cause, used), code="cores-used-up")


def _with_cores(seen: Seen, one: LoaderResult, cause: Cause, used: float) -> Cause:
    """The cause, with what the loop waited for cores that the workers had: training is slower for it, too."""
    cores, taken = seen.result.usable_cores, seen.result.taken_cores
    waited = without_core_s(seen, one) * used / max(1e-9, used + taken)
    own = used + (seen.script_cores(one) or 0.0)
    if own + taken < USED_UP * cores or not waited:
        return cause
    if own < USED_UP * cores and any(other.loader == one.loader for other in cores_taken(seen)):
        return cause  # that says it
    saved = (cause.recoverable_s or 0.0) + waited
    return replace(cause, s=cause.s + waited, recoverable_s=saved, values={**cause.values, "core_s": waited})


def short_of_cores(seen: Seen) -> Iterable[Cause]:
    """Workers that rest at times, but keep the loop's own thread from a core when they work: a cheaper stage helps.

    Threads of the script and other processes keep it waiting, too.
    """
    cores = seen.result.usable_cores
    for one in seen.in_loop:
        workers, script = seen.workers(one), seen.script_cores(one) or 0.0
        used = sum(map(cores_of, workers))
        busy = busy_of(workers)
        if not used or busy >= _BUSY or one.workers > cores or used + script < USED_UP * cores:
            continue
        rivals = used + seen.result.taken_cores + max(0.0, script - 1.0)
        waited = without_core_s(seen, one) * used / rivals
        if waited >= _OF_LOOPS * seen.loops_s:
            values = {
                "workers": one.workers, "busy": busy, "core_s": waited, "cores_used": used, "script_cores": script,
                "foreign_cores": seen.result.taken_cores, **stage_values(seen, one),
            }  # fmt: skip
            cause = Cause("stage", waited, waited, one.loader, values)
            yield not_needed(seen, one, cause) or cause


def competing(seen: Seen) -> Iterable[Cause]:
    """More workers than cores, which keep the loop's own thread from one."""
    cores = seen.result.usable_cores
    for one in seen.in_loop:
        used = sum(map(cores_of, seen.workers(one)))
        if one.workers > cores and used >= _MOST_OF_CORES * cores and seen.run.turns(one.loader):
            waited = without_core_s(seen, one)
            by_workers = waited * used / max(1e-9, used + seen.result.taken_cores)
            found = {"workers": one.workers, "cores_used": used, "usable_cores": cores}
            yield Cause("workers-compete", waited, by_workers, one.loader, {**found})


def _asleep(workers: Sequence[WorkerResult]) -> float:
    """The share of the looks from outside in which workers waited, and not for a core."""
    looks = sum(one.looks for one in workers)
    return sum(one.looks_asleep + one.looks_for_storage for one in workers) / looks if looks else 0.0


def _blocked(seen: Seen, one: LoaderResult, cause: Cause, workers: Sequence[WorkerResult]) -> Iterable[Cause]:
    """Storage, or another wait, or both: by the state in which workers were seen from outside."""
    waits = sum(each.looks_asleep + each.looks_for_storage for each in workers)
    storage = sum(each.looks_for_storage for each in workers) / waits if waits else 0.0
    read = [each.storage_bytes_per_s for each in workers if each.storage_bytes_per_s is not None]
    if storage >= _SOME_OF_WAITS:
        values = {**cause.values, "looks_for_storage": storage, **({"bytes_per_s": sum(read)} if read else {})}
        values |= read_values(seen.result, one, storage=True)
        yield replace(cause, code="storage", values=values)
    if storage < 1 - _SOME_OF_WAITS:
        values = {**cause.values, **({"seen": 1} if waits else {}), **read_values(seen.result, one)}
        yield replace(cause, code="workers-blocked", values=values)


def _resting(
    seen: Seen, one: LoaderResult, workers: Sequence[WorkerResult], whole: Cause, mean: float
) -> Iterable[Cause]:
    """Causes of waits that come though workers rest: one worker has most of it or is slow, or batches cost unevenly."""
    found = one_busy_worker(seen, one, workers, whole, mean)
    yield from _uneven_batches(seen, one, whole) if found is None else [found]


def _uneven_batches(seen: Seen, one: LoaderResult, whole: Cause) -> Iterable[Cause]:
    waits = waits_of(seen.run, one.loader, max(1, one.workers))
    if len(waits) < FEWEST:
        return
    period = period_of(waits)
    period = period if period is not None and has_reason(period, waits, seen.result.costs_of(one.loader)) else None
    found = seen.result.hand_off
    overtaken = (found.out_of_order_s_per_batch or 0.0) if found is not None and len(seen.in_loop) == 1 else 0.0
    held_up = overtaken * seen.batches(one)
    if found is not None and held_up >= _HELD_UP * whole.s:
        held = min(whole.s, held_up)
        values = {**whole.values, "share": found.out_of_order or 0.0, "s_per_batch": overtaken}
        values |= {"period": period.period} if period is not None else {}
        yield replace(whole, code="head-of-line", s=held, recoverable_s=held, values=values)
    if period is not None:
        values = {**whole.values, "period": period.period, "share": period.share}
        saved = None if whole.recoverable_s is None else whole.recoverable_s * period.share
        yield replace(whole, code="periodic-stalls", s=whole.s * period.share, recoverable_s=saved, values=values)


def _large(seen: Seen, one: Cause) -> bool:
    """Whether a cause in the loops is told: see `causes`."""
    least = max(MATTERS * seen.loops_s, _OF_RUN * (seen.account.wall_s - seen.s("not-recorded")))
    return one.s >= least > 0 and one.recoverable_s != 0.0


def memory(seen: Seen) -> Iterable[Cause]:
    """Memory of workers that grows steadily, if it would end within a day, and within 100 times the run.

    It takes no time until then.

    Workers that end with each pass give it back: then it must end within a pass.
    """
    free = seen.result.host.free_bytes if seen.result.host else None
    described = loaders_found(seen.run.processes)
    for one in seen.result.loaders:
        rate = sum(worker.growth_bytes_per_s or 0.0 for worker in seen.workers(one))
        known = described.get(one.loader)
        if not rate or known is None or not free or free / rate > min(_SOON_S, _FAR * seen.account.wall_s):
            continue
        seen_s = sum(row.s for row in seen.account.rows if row.loader == one.loader)
        length_s = seen_s / max(1, one.passes)
        if known.persistent:  # then the memory was seen between passes, too
            length_s = seen.from_pass_to_pass_s(one) or length_s
        if one.passes > 1 and not known.persistent and rate * length_s < free:
            continue
        whole = {"pass_bytes": rate * length_s} if one.passes > 1 else {}
        values: dict[str, str | int | float] = {
            "workers": one.workers, "bytes_per_s": rate, "free_bytes": free, "lasts_s": free / rate,
            "persistent": int(known.persistent), "seen_s": seen_s, **whole,
        }  # fmt: skip
        yield Cause("memory-growth", 0.0, None, one.loader, values)


KINDS: tuple[Callable[[Seen], Iterable[Cause]], ...] = (
    left_on, given_by_each, timed_out, start_up, dataset_anew, warming, validation, sampler, hand_off,
    _plain("pin", "pin"), _plain("host-to-device", "host-to-device", on_device=True), preparing, padding,
    callbacks, slower_steps, full_collections, compiling, optimiser, frozen_modules, unused_gradients, checkpointing,
    busy_threads, python_loops, in_python, spans, many_operations, computed_again, in_double, ignored_targets,
    small_batches, fields_in_vain, few_threads, no_workers, competing, short_of_cores, cores_taken, waiting,
    many_threads,
)  # fmt: skip


def causes(run: Run, result: WatchResult, account: Account, grown: Mapping[int, Grown]) -> tuple[Cause, ...]:
    """The causes that matter, first the one that could save most; then memory that grows, training, what is done once.

    Tools left on come first, because all figures hold only with them, and then samples that a pass repeats. What may be
    a wait for a device stands behind the others. Where nobody knows what could be saved, it may be all, but of a stream
    that begins anew: there, what is known counts.

    Those of the loops take 5 % of the loops' time and 2 % of the recorded run or more, and something could be saved of
    them as far as is known. Where there is none, and the loop waited long for a core, that comes first.
    """
    seen = Seen(run, result, account, grown)
    found = with_slow_lines((cause for kind in KINDS for cause in kind(seen)), result, account)
    large = [one for one in found if _large(seen, one)]
    large = [replace(one, on_device=one.on_device or seen.on_device) for one in large or held_up(seen)]
    hint = {} if any(one.code == "many-threads" for one in large) else other_threads(seen)
    trained = (replace(one, values={**one.values, **hint}) for one in training(seen))
    return (*sorted(large, key=_place), *memory(seen), *trained, *once(seen))


def _place(one: Cause) -> tuple[int, bool, float, float]:
    return FIRST.index(one.code) if one.code in FIRST else len(FIRST), one.doubtful, -one.ranked_s, -one.s
