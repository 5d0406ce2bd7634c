"""Closed forms beside the simulation: what each resource alone allows, in batches per second. Pure."""

from __future__ import annotations

import math
from statistics import fmean

from pipebench.predict.loader import Setting
from pipebench.results.costs import LoopCosts


def core_s(costs: LoopCosts, workers: int) -> float:
    """The core-seconds of a batch, from the sampler to the end of the iteration."""
    alone = fmean(costs.cpu_s) * costs.threads + costs.own_s + (costs.pin_s or 0.0)
    handed = costs.between_s + costs.feeder_cpu_s + costs.send_s + costs.receive_s
    return alone + (handed if workers else 0.0) + costs.step_cpu_s


def bounds(costs: LoopCosts, setting: Setting) -> dict[str, float]:
    """The most batches per second that each resource allows, if it never waits for another one.

    "loop": the training loop's own thread, with its serial part of `next()`, and its device. "workers": each makes one
    batch after the other. "cores": all CPU time of a batch. "pin": the pin-memory thread. No setting is faster than the
    least of them.
    """
    step_s = max(fmean(costs.step_s), costs.step_cpu_s / setting.cores)
    cores = _per_s(setting.cores, core_s(costs, setting.workers))
    if not setting.workers:
        alone_s = costs.made_s + costs.own_s + (costs.pin_s or 0.0) + step_s
        return {"loop": _per_s(1, max(alone_s, costs.device_s)), "cores": cores}
    received = costs.receive_s if costs.pin_s is None else 0.0
    made_s = max(costs.made_s + costs.between_s, costs.feeder_cpu_s + costs.feeder_blocked_s)
    found = {
        "loop": _per_s(1, max(costs.own_s + costs.send_s + received + step_s, costs.device_s)),
        "workers": _per_s(setting.workers, made_s),
        "cores": cores,
    }
    return found if costs.pin_s is None else found | {"pin": _per_s(1, costs.receive_s + costs.pin_s)}


def on_free_cores_s(costs: LoopCosts, cores: float) -> tuple[float, float]:
    """The least seconds of an iteration on cores that nobody else uses: as it is, and if batches cost nothing to make.

    Training is taken to use one core at a time, because a run beside others does not show whether it could use more. If
    it does, the second is less. `cores` may be a part of one: then training has no more of it.
    """
    received = costs.receive_s if costs.pin_s is None else 0.0
    step_s = max(fmean(costs.step_s), costs.step_cpu_s / min(1.0, cores))
    alone_s = max(costs.own_s + costs.send_s + received + step_s, costs.device_s)
    return max(alone_s, core_s(costs, costs.workers) / cores), alone_s


def _per_s(amount: float, seconds: float) -> float:
    return amount / seconds if seconds > 0 else math.inf
