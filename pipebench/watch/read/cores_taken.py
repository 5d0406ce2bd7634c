"""The cause of workers that take cores from training, though the loop waits little for batches. Pure.

Beside other processes, the script gets few cores, whatever its workers do. Then a wait for a core says little of them.
The CPU time of batches and of training says more: if both need longer on all cores than training needs alone, cheaper
loading makes training faster. Where that holds only of the cores that the other processes leave, it is said so. And
where no cause is found, a loop that waited long for a core has not shown what limits it.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipebench.predict.bounds import on_free_cores_s
from pipebench.results.account import Cause
from pipebench.results.watched import LoaderResult
from pipebench.watch.read.moves import FEW, USED_UP, cores_of, waited_for
from pipebench.watch.read.of_causes import Seen, stage_values, without_core_s

CODE, HELD_UP = "loading-takes-cores", "held-up"
_LARGE_WAIT = 0.1  # of the loops, for a core: less scatters
_LONG_WAIT = 0.2  # of the loops: with so much, figures of the rest do not say that nothing is worth a change
_WORTH = 1.1  # a speed-up: less is within the error of such sums
_LEAST_LEFT = 0.1  # of a core: with less left by others, nothing is to be predicted


def cores_taken(seen: Seen) -> Iterable[Cause]:
    """Loaders whose workers and training need more cores than there are, where others have most of them.

    Where the script itself uses nearly all cores, or where the loop waits longer for batches, other causes say it.
    """
    cores = seen.result.usable_cores
    for one in seen.in_loop:
        workers = seen.workers(one)
        costs = seen.result.costs_of(one.loader)
        used, script, taken = _users(seen, one)
        if costs is None or script is None or min(len(costs.cpu_s), len(costs.step_s)) < FEW or not used:
            continue
        own = used + script
        if own >= USED_UP * cores or own + taken < USED_UP * cores:
            continue
        waited = without_core_s(seen, one)
        if waited < max(_LARGE_WAIT * seen.loops_s, seen.s("wait-for-worker", loader=one.loader)):
            continue
        both_s, alone_s = on_free_cores_s(costs, cores)
        left = cores - taken
        beside = both_s < _WORTH * alone_s and left >= _LEAST_LEFT
        if beside:  # alone, the script has cores enough: its workers take those that others leave
            both_s, alone_s = on_free_cores_s(costs, left)
        if not alone_s or both_s < _WORTH * alone_s:
            continue
        values: dict[str, str | int | float] = {
            "workers": one.workers, "both_s": both_s, "alone_s": alone_s, "cores_used": used, "script_cores": script,
            "usable_cores": cores, "foreign_cores": taken, "wanted_cores": waited_for(workers),
            **({"left_cores": left} if beside else {}), **stage_values(seen, one),
        }  # fmt: skip
        yield Cause(CODE, waited, waited * used / (used + taken), one.loader, values)


def held_up(seen: Seen) -> Iterable[Cause]:
    """Loops that waited long for a core, where no cause is found: what limits them was not to be seen."""
    for one in seen.in_loop:
        waited = without_core_s(seen, one)
        if waited < _LONG_WAIT * seen.loops_s or not waited:
            continue
        used, script, taken = _users(seen, one)
        host = seen.result.host
        values: dict[str, str | int | float] = {
            "workers": one.workers, "cores_used": used, "usable_cores": seen.result.usable_cores,
            **({} if script is None else {"script_cores": script}),
            **({"foreign_cores": taken} if host is not None and host.foreign_cores is not None else {}),
        }  # fmt: skip
        yield Cause(HELD_UP, waited, loader=one.loader, values=values)


def _users(seen: Seen, one: LoaderResult) -> tuple[float, float | None, float]:
    """How many cores the workers of a loader use, the script's own process (None: not known), and other processes."""
    return sum(map(cores_of, seen.workers(one))), seen.script_cores(one), seen.result.taken_cores
