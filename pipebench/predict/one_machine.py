"""Where one machine ends: the cores that its devices need, and what other machines would have to send. Pure.

What a worker does can be done elsewhere. What stays with the training loop is its own work: to receive batches, and the
step. A sample is sent as large as it crossed from worker to loop in the watched run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from pipebench.predict.bounds import bounds, core_s
from pipebench.predict.intervals import around
from pipebench.predict.loader import Setting
from pipebench.results.costs import LoopCosts, Passport
from pipebench.results.plan import Asked, Figure, Need, OneMachine


def one_machine(
    passport: Passport, asked: Asked, ways: Sequence[LoopCosts], error: float, devices: float
) -> OneMachine | None:
    """Where it ends for `devices` that share it. `ways` are the possible costs, `error` that of the model.

    Without a consumer, the device is the script's own loop, if it never waited. None: it is nothing but waiting.
    """
    costs, cores = ways[0], asked.cores or passport.all_cores
    device = asked.consumer or _unhindered(costs, cores)
    batches = device / costs.samples
    if not 0 < device < math.inf or not core_s(costs, 1):
        return None
    needed = around([batches * core_s(one, 1) for one in ways], error)
    wanted = device * devices
    stays = around([wanted / one.samples * _stays(one) for one in ways], error)
    return OneMachine(
        device,
        devices,
        Need("cores", _scaled(needed, devices), cores),
        per_device=needed,
        fed=Figure(cores / needed.value, cores / needed.high, cores / needed.low),
        stays=stays,
        lacking=_lacking(needed, devices, cores),
        encoded=_carried(costs.read_bytes, wanted, costs.samples, error, asked.storage, "storage"),
        decoded=_carried(_crossed(costs), wanted, costs.samples, error, asked.network, "network"),
    )


def _unhindered(costs: LoopCosts, cores: float) -> float:
    """Samples per second of a loop whose batches are always ready."""
    return bounds(costs, Setting(1, costs.prefetch_factor, cores))["loop"] * costs.samples


def _stays(costs: LoopCosts) -> float:
    """Core-seconds of a batch that stay on the machine of the device, wherever its samples are made."""
    made = fmean(costs.cpu_s) * costs.threads + costs.between_s + costs.feeder_cpu_s
    return core_s(costs, 1) - made


def _crossed(costs: LoopCosts) -> float | None:
    """Bytes of a batch that crossed from worker to loop; None: not known, as without workers."""
    known = [one for one in (costs.shared_bytes, costs.pipe_bytes) if one is not None]
    return sum(known) if known and costs.workers else None


def _scaled(one: Figure, by: float) -> Figure:
    return Figure(one.value * by, one.low * by, one.high * by)


def _lacking(needed: Figure, devices: float, cores: float) -> Figure:
    """The cores that are not there."""
    return Figure(*(max(0.0, one * devices - cores) for one in (needed.value, needed.low, needed.high)))


def _carried(
    batch_bytes: float | None, wanted: float, samples: float, error: float, have: float | None, path: str
) -> Need | None:
    """The bytes per second of so many samples; None where their size is not known. Such a rate was never checked."""
    if not batch_bytes:
        return None
    rate = around([wanted * batch_bytes / samples], error)
    return Need("storage" if path == "storage" else "network", rate, have, validated=False)
