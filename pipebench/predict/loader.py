"""A simulated DataLoader and its training loop, driven by the costs of a watched run. Deterministic and pure.

It follows torch's `_MultiProcessingDataLoaderIter`: at the start, `prefetch_factor` batches are asked of each worker.
For each batch that the loop takes, one more is asked for. Batch k goes to worker k modulo the number of workers, and
the loop takes batches in order. Each worker makes one batch after the other, and its feeder thread pickles them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from pipebench.predict.cores import Blocked, Cores, Cpu, Queue, Take, Thread
from pipebench.results.costs import LoopCosts

_SLICES = 4  # a batch blocks and computes in turn, sample by sample: this many turns are told apart
_LONG_S = 10.0  # beside the period of a quota, 0.1 s
_LATE = 8  # parts of a wait for a worker: so often, the wait looks whether the worker still computes
_ROWS = 61  # a prime, so that no worker gets the same rows again and again
_LEAST_TURNS = 4  # of the whole store of batches, in the timed part
_MOST = 4096
_PART = 0.1  # of a pass: with two batches ahead, its begin then takes about 5 % of it
_LEAST_S = 1e-6  # of a loop that costs nothing
_WAKING, _MOST_WAKING = 2.5, 0.06  # chosen by the errors in docs/figures/prediction.md


@dataclass(frozen=True)
class Setting:
    """The setting of a prediction: the loader's knobs, the cores, and those that others keep busy.

    A part of a core is a quota, as a container has it: 1.5 are two cores, and 1.5 core-seconds per second on them.
    `turns` are the iterations of a pass, which begins and ends without a batch (None: the loop is one long pass).
    """

    workers: int
    prefetch_factor: int
    cores: float
    others: float = 0.0
    turns: int | None = None

    @property
    def ahead(self) -> int:
        """Batches that are made ahead. A store that outlasts the simulation is as good as a deeper one."""
        return self.workers * min(self.prefetch_factor, max(2, _MOST // max(1, self.workers)))


def short_pass(costs: LoopCosts, workers: int, prefetch_factor: int) -> int | None:
    """The iterations of a pass, if the batches made ahead are no small part of it: then its begin counts. Else None."""
    short = workers and costs.turns is not None and workers * prefetch_factor >= _PART * costs.turns
    return costs.turns if short else None


@dataclass(frozen=True)
class Simulated:
    """`batches_per_s` is the rate of the loop once it has settled, or that of whole passes.

    `batches` took `seconds`, start-up included.
    """

    batches_per_s: float
    batches: int
    seconds: float


@lru_cache(maxsize=32)  # the same setting is asked for by more than one figure of a report
def simulate(costs: LoopCosts, setting: Setting) -> Simulated:
    """How fast the loop runs in this setting."""
    first, last = _length(costs, setting)
    cores = _cores(costs, setting)
    ends: list[float] = []
    loop = _alone(cores, costs, last, ends) if not setting.workers else _with_workers(cores, costs, setting, last, ends)
    cores.run(loop)
    begun = ends[first - 1] if first else 0.0
    return Simulated((last - first) / max(_LEAST_S, ends[-1] - begun), last, ends[-1])


def _cores(costs: LoopCosts, setting: Setting) -> Cores:
    """The cores, with their quota if it is one. Over many of its periods, a quota is a core of that speed."""
    waits = (costs.own_s, costs.send_s, costs.receive_s, costs.feeder_cpu_s, costs.feeder_blocked_s, costs.pin_s or 0.0)
    computed = max(costs.cpu_s) * max(1.0, costs.threads)
    longest = max(computed, *costs.blocked_s, *costs.step_s, costs.step_cpu_s, *waits, costs.between_s)
    if setting.cores == round(setting.cores) or longest > _LONG_S * setting.cores:
        return Cores(_left(costs, setting.cores), setting.others)
    return Cores(_left(costs, math.ceil(setting.cores)), setting.others, quota=setting.cores)


def _left(costs: LoopCosts, cores: float) -> float:
    """What threads get of several cores when they want all of them: those that wake often displace one another.

    A thread waits for a moment each time it wakes, also on a free core. So the waits tell how often that is.
    """
    cpu_s = fmean(costs.cpu_s)
    waits = min(_MOST_WAKING, costs.core_wait_s / cpu_s) if cpu_s else 0.0
    return cores * (1.0 - _WAKING * waits) if cores > 1 else cores


def _length(costs: LoopCosts, setting: Setting) -> tuple[int, int]:
    """The first timed iteration and the number of iterations.

    The timed part has all batches about equally often, and whole turns of the workers: their batches come in bursts.
    """
    known, turn = max(len(costs.cpu_s), len(costs.step_s)), max(1, setting.workers)
    if setting.turns is not None:
        return 0, -(-known // setting.turns) * setting.turns
    first = 2 * setting.ahead
    timed = known * max(1, -(-_LEAST_TURNS * setting.ahead // known))
    return first, first + -(-min(timed, max(_MOST, setting.ahead)) // turn) * turn


def _alone(cores: Cores, costs: LoopCosts, batches: int, ends: list[float]) -> Thread:
    """The loop of a loader without workers."""
    on_cpu = step_cores(costs)
    for batch in range(batches):
        yield Cpu(costs.own_s)
        yield from _made(costs, batch)
        yield Cpu(costs.pin_s or 0.0)
        yield from _step(cores, costs, on_cpu, ends)


def _with_workers(cores: Cores, costs: LoopCosts, setting: Setting, batches: int, ends: list[float]) -> Thread:
    asked = [Queue() for _ in range(setting.workers)]
    computing = [False] * setting.workers
    sent, pinned = Queue(), Queue()
    on_cpu, late_s = step_cores(costs), _late_s(costs)
    for number, indices in enumerate(asked):
        made = Queue()
        cores.start(_worker(cores, costs, indices, made, computing, number))
        cores.start(_feeder(cores, costs, made, sent))
    if costs.pin_s is not None:
        cores.start(_pinning(cores, costs, sent, pinned, computing, late_s))
    arriving = sent if costs.pin_s is None else pinned
    here: set[int] = set()
    turns = setting.turns or batches + setting.ahead
    for batch in range(batches):
        over = batch - batch % turns + turns  # the first batch of the next pass
        for first in _first_of_pass(batch, turns, setting.ahead):
            cores.put(asked[first % setting.workers], first)
        while batch not in here:
            arrived = yield Take(arriving)
            here.add(arrived)
            if costs.pin_s is None:
                yield from _received(costs, computing, arrived, late_s)
        here.remove(batch)
        yield Cpu(costs.own_s + costs.send_s)
        if batch + setting.ahead < over:
            cores.put(asked[(batch + setting.ahead) % setting.workers], batch + setting.ahead)
        yield from _step(cores, costs, on_cpu, ends)


def _first_of_pass(batch: int, turns: int, ahead: int) -> range:
    """What is asked for before this batch: those made ahead, if it is the first one of a pass, and else none."""
    return range(batch, batch + (0 if batch % turns else min(ahead, turns)))


def _worker(cores: Cores, costs: LoopCosts, indices: Queue, made: Queue, computing: list[bool], number: int) -> Thread:
    while True:
        batch = yield Take(indices)
        for part in _made(costs, batch):
            computing[number] = isinstance(part, Cpu)
            yield part
        computing[number] = False
        cores.put(made, batch)
        yield Cpu(costs.between_s)


def _feeder(cores: Cores, costs: LoopCosts, made: Queue, sent: Queue) -> Thread:
    while True:
        batch = yield Take(made)
        yield Cpu(costs.feeder_cpu_s)
        yield Blocked(costs.feeder_blocked_s)
        cores.put(sent, batch)


def _pinning(
    cores: Cores, costs: LoopCosts, sent: Queue, pinned: Queue, computing: list[bool], late_s: float
) -> Thread:
    while True:
        batch = yield Take(sent)
        yield from _received(costs, computing, batch, late_s)
        yield Cpu(costs.pin_s or 0.0)
        cores.put(pinned, batch)


def _late_s(costs: LoopCosts) -> float:
    """How long receiving waits at most: after a batch, the lock is free; a quota made the wait longer."""
    return min(costs.late_s, fmean(costs.cpu_s))


def _received(costs: LoopCosts, computing: list[bool], batch: int, late_s: float) -> Iterator[Cpu | Blocked]:
    """Receives a batch. While its worker computes, it waits for the interpreter's lock of the worker."""
    yield Cpu(costs.receive_s)
    for _ in range(_LATE if late_s else 0):
        if computing[batch % len(computing)]:
            yield Cpu(late_s / _LATE, threads=0)


def _made(costs: LoopCosts, batch: int) -> Iterator[Cpu | Blocked]:
    """What a thread does to make a batch."""
    cpu_s, blocked_s = costs.cpu_s[batch % len(costs.cpu_s)], costs.blocked_s[batch % len(costs.blocked_s)]
    if not cpu_s or not blocked_s:
        yield Cpu(cpu_s, costs.threads) if cpu_s else Blocked(blocked_s)
        return
    for of_blocked, of_cpu in _UNEVEN[batch % _ROWS]:
        yield Blocked(blocked_s * of_blocked)
        yield Cpu(cpu_s * of_cpu, costs.threads)


def _shares(chance: random.Random) -> list[float]:
    parts = [chance.uniform(0.5, 1.5) for _ in range(_SLICES)]
    return [one / sum(parts) for one in parts]


def _uneven() -> list[list[tuple[float, float]]]:
    """How batches are divided into turns of blocking and computing. Equal turns would keep all workers in step."""
    chance = random.Random(0)
    return [list(zip(_shares(chance), _shares(chance), strict=True)) for _ in range(_ROWS)]


_UNEVEN = _uneven()


def _step(cores: Cores, costs: LoopCosts, on_cpu: float, ends: list[float]) -> Iterator[Cpu | Blocked]:
    """The loop's own work of an iteration, which keeps `on_cpu` cores busy, until the device is done, too."""
    wall, done = costs.step_s[len(ends) % len(costs.step_s)], (ends[-1] if ends else 0.0) + costs.device_s
    if on_cpu:
        yield Cpu(wall * min(1.0, on_cpu), max(1.0, on_cpu))
    if on_cpu < 1:
        yield Blocked(wall * (1.0 - on_cpu))
    if costs.device_s:
        yield Blocked(done - cores.now)
    ends.append(cores.now)


def step_cores(costs: LoopCosts) -> float:
    """The cores that the loop's own work keeps busy."""
    mean = fmean(costs.step_s)
    return costs.step_cpu_s / mean if mean else 0.0
