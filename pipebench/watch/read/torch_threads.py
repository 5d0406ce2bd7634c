"""The causes of torch with too few threads in the script's process, or with more than it has cores for. Pure.

One thread trains on one core, while others idle: a variable of a job script or of torchrun sets it so. What more
threads bring depends on how large the operations are. So no gain is predicted: what is told is the most that idle cores
allow. Where a call in the script sets it, only `advise` says what more of them bring, because it tries them.

Several threads divide each operation, and wait for the last part of it. They spin while they wait. So where workers or
other processes use one of their cores, each operation waits until the kernel gives that core back: beside a busy
process, small models trained more than twice as fast with fewer threads (docs/figures/watch.md). What the kernel counts
as waits for a core is the least that this costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from pipebench.predict.loader import step_cores
from pipebench.results.account import Cause
from pipebench.results.host_use import HostUse
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.moves import cores_of, idle_cores, threads_of_torch, waited_for
from pipebench.watch.read.of_causes import Seen, for_helpers_s, without_core_s
from pipebench.watch.record.program_lines import RankFound

_SEVERAL = 2
_PHASES = ("forward", "backward", "optimiser")
_MOST = 0.5  # of the loops
_FREE = 0.5  # of a core, for each rank of the machine: less is soon taken
_ONE_CORE = 1.1  # with what other threads of the process do: more is a library with threads of its own
_COMPUTES = 0.8  # of its time, training uses a core: else it waits for a device or for other ranks
_LEAST_S = 0.002  # an iteration: shorter ones have operations that threads do not make faster
_HELD_UP = 0.15  # of the loops, for a core: large operations lose up to 0.1 beside a worker, and need their threads
_LACKS = 0.1  # the same, where it is only said that fewer threads may be worth a trial
_OTHERS = 0.1  # of a core, used by workers and other processes: less holds up nobody
_HELPERS = 0.05  # of the loops: helpers that want a core so seldom do hardly any work, as in small operations
_USES = 1.35  # cores for each thread that would be left: a script that uses more may need its threads


def few_threads(seen: Seen) -> Iterable[Cause]:
    """Training that takes most of the loops on one core, because torch has one thread there, beside idle cores."""
    yield from (one for one in _few_threads(seen) if "set_by" in one.values)


def other_threads(seen: Seen) -> dict[str, str | int | float]:
    """What else the number of threads may bring, as values of another cause; none if there is no sign of that.

    A call in the script sets one thread: most who write one have tried it. Or some of several threads wait for a core,
    and only the size of operations, which is not known, says whether fewer are faster.
    """
    found = (one.values for one in _few_threads(seen) if "set_by" not in one.values)
    lacking = (one.values for one in _many_threads(seen, _LACKS) if "uses" in one.values)
    names = ("threads", "to_threads", "idle_cores", "usable_cores", "core_s")
    return next(({one: values[one] for one in names if one in values} for values in (*found, *lacking)), {})


def _few_threads(seen: Seen) -> Iterable[Cause]:
    spent = {one.loader: seen.s(*_PHASES, loader=one.loader) for one in seen.in_loop if one.training}
    whole, host, here = sum(spent.values()), seen.result.host, _ranks_here(seen)
    if whole < _MOST * seen.loops_s or not whole or host is None or here is None or _on_device(seen):
        return
    one = max((each for each in seen.in_loop if each.loader in spent), key=lambda each: spent[each.loader])
    script, batches = seen.script_cores(one), seen.batches(one)
    if threads_of_torch(seen.result) != 1 or host.foreign_cores is None or script is None or not batches:
        return
    own_s = sum(row.s for row in seen.rows(loader=one.loader))
    if not _COMPUTES * spent[one.loader] <= script * own_s <= _ONE_CORE * own_s:
        return
    idle = _idle(seen, script)
    if idle < _FREE * here or _of_others(seen, host) >= _FREE or spent[one.loader] < _LEAST_S * batches:
        return
    threads = 1 + max(1, round(idle / here))
    values: dict[str, str | int | float] = {
        "threads": 1, "to_threads": threads, "idle_cores": idle, "usable_cores": seen.result.usable_cores,
        "ranks": here, **_set_by(seen),
    }  # fmt: skip
    yield Cause("few-threads", whole, whole * (1 - 1 / min(threads, 1 + idle / here)), one.loader, values)


def many_threads(seen: Seen) -> Iterable[Cause]:
    """Training whose threads wait for one another, because others use their cores or they are more than the cores."""
    yield from (one for one in _many_threads(seen, _HELD_UP) if "uses" not in one.values)


def _many_threads(seen: Seen, held_up: float) -> Iterable[Cause]:
    """Where threads without a core hold training up for this share of the loops. `uses`: it may need them all."""
    threads, here = threads_of_torch(seen.result), _ranks_here(seen)
    one = max((each for each in seen.in_loop if each.training), key=lambda each: each.iterations, default=None)
    if threads < _SEVERAL or here is None or one is None or _on_device(seen):
        return
    cores, script = seen.result.usable_cores, seen.script_cores(one)
    waited = without_core_s(seen, one) if script is not None else 0.0
    helpers = min(waited, for_helpers_s(seen, one))
    if script is None or not waited or waited < held_up * seen.loops_s or helpers < _HELPERS * seen.loops_s:
        return
    workers = seen.workers(one)
    used, taken = sum(map(cores_of, workers)), seen.result.taken_cores
    left = (cores - _of_strangers(seen, here)) / here - min(len(workers), used + waited_for(workers))
    fewer = min(threads - 1, max(1, floor(left + 0.5)))
    if used + taken < _OTHERS and threads <= cores:
        return
    values: dict[str, str | int | float] = {
        "threads": threads, "to_threads": fewer, "workers": one.workers, "cores_used": used, "script_cores": script,
        "foreign_cores": taken, "usable_cores": cores, "ranks": here, "core_s": waited,
    }  # fmt: skip
    if waited < _HELD_UP * seen.loops_s or _trains_on(seen, one, script) > _USES * fewer:
        values["uses"] = 1
    yield Cause("many-threads", waited, helpers, one.loader, values)


def _of_strangers(seen: Seen, here: int) -> float:
    """The cores that processes outside of the job use. What is not known to be of its other ranks may be."""
    taken, host = seen.result.taken_cores, seen.result.host
    siblings = host.sibling_cores if host is not None else 0.0
    if here == 1:
        return taken
    return max(0.0, taken - siblings) if siblings else 0.0


def _trains_on(seen: Seen, one: LoaderResult, script: float) -> float:
    """The cores that training uses. Workers go on meanwhile: beside them, it is those of the script in its loop."""
    costs = seen.result.costs_of(one.loader)
    return script if one.workers or costs is None else step_cores(costs)


def _idle(seen: Seen, script: float) -> float:
    loaders: list[LoaderResult] = seen.in_loop
    return idle_cores(seen.result, [worker for one in loaders for worker in seen.workers(one)], script)


def _of_others(seen: Seen, host: HostUse) -> float:
    """The cores that further processes of the script may have used in its loops, as actors that play games.

    Our own processes are among them, so little of that is no sign.
    """
    used = (host.own_cores or 0.0) * seen.account.wall_s - (seen.account.script_cpu_s or 0.0)
    made = sum(one.process_cpu_s or one.cpu_s for one in seen.result.workers)
    return max(0.0, used - made) / seen.loops_s


def _on_device(seen: Seen) -> bool:
    return seen.on_device or seen.s("host-to-device") > 0


def _ranks_here(seen: Seen) -> int | None:
    """How many ranks of the job share the machine: each may want as many threads. None: not known."""
    found = [line for process in seen.run.of_script() for line in process.of(RankFound)]
    return found[-1].here if found and found[-1].of > 1 else 1


def _set_by(seen: Seen) -> dict[str, str]:
    """The variable that sets one thread, if the script's process had one when it ended."""
    found = [one for process in seen.run.of_script() for one in process.threads.variables]
    return {"set_by": found[0]} if found else {}
