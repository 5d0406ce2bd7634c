"""Changes the costs of a loop as a question asks: a faster stage, another consumer. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from pipebench.errors import UsageError
from pipebench.predict.loader import step_cores
from pipebench.results.costs import LoopCosts, Passport, StageShare
from pipebench.results.plan import Asked
from pipebench.units import printable

STEP = "step"  # the name of the loop's own work
_SERIALISE = "serialise"
# What handing a batch over takes if nothing is known: 1.1 to 1.5 ms for a few bytes, 2.0 to 2.8 for an image of 0.6 MB
# (docs/figures/watch.md).
USUAL_HAND_OFF_S = 0.002


def changed(passport: Passport, asked: Asked) -> list[LoopCosts]:
    """The costs that are asked for. Two, if the CPU time of a stage is not known: the least and the most of it.

    Raises UsageError if no stage, or more than one, has the name that `asked` gives, or if it asks for two steps.
    """
    if asked.consumer is not None and any(name == STEP for name, _ in asked.faster):
        remedy = "leave out one of them: a consumer takes the place of the step"
        raise UsageError(f"--consumer and --faster {STEP}=... exclude each other", remedy)
    found = [handed_over(passport.costs)]
    for name, factor in asked.faster:
        found = [after for before in found for after in _faster(before, passport.stages, name, factor)]
    if asked.consumer is not None:
        found = [_consumed(one, asked.consumer) for one in found]
    return list(dict.fromkeys(found))


def handed_over(costs: LoopCosts) -> LoopCosts:
    """Without workers, no hand-off was seen. It is assumed: half of it is work of the loop, and half of a worker."""
    half = hand_off_s(costs) / 2
    return costs if costs.workers else replace(costs, receive_s=half, feeder_cpu_s=half)


def beside_workers(costs: LoopCosts, workers: int, cores: float) -> LoopCosts:
    """The same, where training has the cores that so many workers leave.

    It is set to as many threads: threads that want a core which a worker uses would wait for one another, for longer
    than the work takes (docs/figures/watch.md). What threads spin while they wait is in the CPU time of training, so
    small models need less than this.
    """
    if not crowds(costs, workers, cores):
        return handed_over(costs)
    return handed_over(
        replace(costs, step_s=_scaled(costs.step_s, step_cores(costs) / cores_beside(costs, workers, cores)))
    )


def at_best_beside(costs: LoopCosts, workers: int, cores: float) -> LoopCosts:
    """The same, if threads of training only spin on the cores that workers would use: then it takes as long as now."""
    if not crowds(costs, workers, cores):
        return handed_over(costs)
    needed = fmean(costs.step_s) * cores_beside(costs, workers, cores)
    return handed_over(replace(costs, step_cpu_s=min(costs.step_cpu_s, needed)))


def crowds(costs: LoopCosts, workers: int, cores: float) -> bool:
    """Whether training uses cores that so many first workers need."""
    first = not costs.workers and workers > 0 and not costs.device_s
    return first and step_cores(costs) > cores_beside(costs, workers, cores)


def cores_beside(costs: LoopCosts, workers: int, cores: float) -> float:
    """The cores that so many workers leave to training: one at least. What blocks needs none."""
    cpu, blocked = fmean(costs.cpu_s), fmean(costs.blocked_s)
    return max(1.0, cores - workers * (cpu / (cpu + blocked) if cpu else 0.0))


def hand_off_s(costs: LoopCosts) -> float:
    """The seconds that handing a batch over is assumed to take, if the loader has no workers."""
    return USUAL_HAND_OFF_S if costs.hand_over_s is None else costs.hand_over_s


def _consumed(costs: LoopCosts, samples_per_s: float) -> LoopCosts:
    """A device consumes so many samples per second, works while the loop takes the next batch, and needs no core."""
    received = costs.receive_s if costs.pin_s is None else 0.0
    rest = max(0.0, costs.samples / samples_per_s - costs.own_s - costs.send_s - received)
    return replace(costs, step_s=(rest,), step_cpu_s=0.0, device_s=0.0)


def _faster(costs: LoopCosts, stages: Sequence[StageShare], name: str, factor: float) -> Iterable[LoopCosts]:
    if name == STEP:
        less = 1 / factor
        step_s, on_device = _scaled(costs.step_s, less), costs.device_s * less
        return [replace(costs, step_s=step_s, step_cpu_s=costs.step_cpu_s * less, device_s=on_device)]
    stage = _stage(stages, name)
    if stage.kind == _SERIALISE:
        spent = costs.feeder_cpu_s / factor, costs.feeder_blocked_s / factor
        return [replace(costs, feeder_cpu_s=spent[0], feeder_blocked_s=spent[1])]
    saved = stage.share * costs.made_s * (1 - 1 / factor)
    cpu, blocked = fmean(costs.cpu_s), fmean(costs.blocked_s)
    of_cpu = {min(saved, cpu), max(0.0, saved - blocked)}
    return [_without(costs, one, saved - one) for one in sorted(of_cpu)]


def _stage(stages: Sequence[StageShare], name: str) -> StageShare:
    """The stage with this name or kind, or whose name alone contains it."""
    ways = (
        [one for one in stages if name == one.name],
        [one for one in stages if name == one.kind],
        [one for one in stages if name in one.name],
    )
    found = next((one for one in ways if one), [])
    if len(found) == 1:
        return found[0]
    known = ", ".join(printable(one.name) for one in found or stages) or "none"
    several = f"{len(found)} stages are called {name}" if found else f"no stage is called {name}"
    raise UsageError(printable(several), f"name one of: {known}, {STEP} (the loop's own work)")


def _without(costs: LoopCosts, cpu: float, blocked: float) -> LoopCosts:
    """Batches that take so much less: each in proportion, with the waits for a core of what is left."""
    less = _left(fmean(costs.cpu_s), cpu)
    return replace(
        costs,
        cpu_s=_scaled(costs.cpu_s, less),
        core_wait_s=costs.core_wait_s * less,
        blocked_s=_scaled(costs.blocked_s, _left(fmean(costs.blocked_s), blocked)),
    )


def _left(mean: float, less: float) -> float:
    return max(0.0, 1 - less / mean) if mean else 1.0


def _scaled(seconds: Sequence[float], factor: float) -> tuple[float, ...]:
    return tuple(one * factor for one in seconds)
