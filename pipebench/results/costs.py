"""What batches cost in one watched loop, batch by batch: all that a prediction needs, in base units."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

KEPT = 256  # batches, and iterations
_MOST_WORKERS = 4096
_MOST_AHEAD = 1 << 16  # batches
_MOST_TRIED = 64  # settings: the ladder of workers and that of batches ahead have about ten each
_MOST_TRIED_WORKERS = 2 * _MOST_WORKERS  # in all: each is simulated


def _can_be(workers: int, prefetch_factor: int) -> float:
    """0 for a setting that no loader has: a simulation of it would have no end."""
    return 1.0 if 0 <= workers <= _MOST_WORKERS and 0 <= prefetch_factor <= _MOST_AHEAD else 0.0


@dataclass(frozen=True)
class LoopCosts:
    """The costs of one loader and of its training loop. Each list has at most `KEPT` figures, in the order of batches.

    `cpu_s` is the CPU time in which each batch was made, and `blocked_s` is the time in which its thread was blocked
    (storage, network, sleep, locks). Waiting for a core is in neither. With `threads` above 1, native threads help to
    make a batch: it then takes `cpu_s` seconds on so many cores. `step_s` is the wall time of each iteration besides
    `next()`, and `step_cpu_s` the mean CPU time in it, of all threads.

    Means per batch: `own_s` is what the loop's thread works in `next()` with or without workers (the sampler,
    torch's own code), `send_s` sends indices, `receive_s` receives and unpickles a batch, and `late_s` is how long
    it waits in the middle of a batch for the interpreter's lock of a worker, which computes. `between_s` is what a
    worker does between two batches. `feeder_cpu_s` and `feeder_blocked_s` are of the thread that pickles a batch.
    `pin_s` is of the pin-memory thread (None: nothing is pinned).

    `device_s` is the mean time of an iteration without the idle time of a CUDA device in its wait: an iteration is
    taken to last at least so long (0: there is no such device, or the record is an older one). `turns` are the
    iterations of a pass (None: no pass was seen to its end).

    `iteration_s` is the measured time of an iteration, start-up not included. `core_wait_s` is the mean time in which
    the thread that made a batch was ready to run but had no core. `read_bytes` are the bytes that were read for a batch
    by system calls (memory maps do not count), `pipe_bytes` and `shared_bytes` those that crossed from worker to loop.
    Of a loader without workers: the `tensors` of a batch, and the seconds that it is assumed to take to hand it over.
    None: unknown.
    """

    loader: int
    workers: int
    prefetch_factor: int
    samples: float
    iteration_s: float
    cpu_s: tuple[float, ...]
    blocked_s: tuple[float, ...]
    step_s: tuple[float, ...]
    step_cpu_s: float
    own_s: float = 0.0
    send_s: float = 0.0
    receive_s: float = 0.0
    late_s: float = 0.0
    between_s: float = 0.0
    feeder_cpu_s: float = 0.0
    feeder_blocked_s: float = 0.0
    pin_s: float | None = None
    threads: float = 1.0
    core_wait_s: float = 0.0
    read_bytes: float | None = None
    pipe_bytes: float | None = None
    shared_bytes: float | None = None
    tensors: float | None = None
    hand_over_s: float | None = None
    device_s: float = 0.0
    turns: int | None = None

    def divisors(self) -> Iterator[float]:
        """Figures that are above 0 in every run."""
        yield from (self.samples, self.iteration_s, self.threads, self.prefetch_factor)
        for listed in (self.cpu_s, self.blocked_s, self.step_s):
            yield from (len(listed), 1.0 if min(listed, default=0.0) >= 0 else 0.0)
        yield 1.0 if len(self.cpu_s) == len(self.blocked_s) and min(self.step_cpu_s, self.device_s) >= 0 else 0.0
        yield 1.0 if self.turns is None or self.turns > 0 else 0.0
        yield _can_be(self.workers, self.prefetch_factor)

    @property
    def received_s(self) -> float:
        """The seconds of a thread that receives a batch."""
        return self.receive_s + self.late_s

    @property
    def each_made_s(self) -> tuple[float, ...]:
        """Seconds in which each batch is made by a worker that never waits for a core."""
        return tuple(cpu + blocked for cpu, blocked in zip(self.cpu_s, self.blocked_s, strict=True))

    @property
    def made_s(self) -> float:
        """Mean seconds in which a batch is made by a worker that never waits for a core."""
        return fmean(self.cpu_s) + fmean(self.blocked_s)


@dataclass(frozen=True)
class StageShare:
    """A stage of the workers, and its share of the time in which they make batches (0 to 1).

    Pickling runs beside the others, and can take longer than all of them: its share is then 1.
    """

    name: str
    kind: str
    share: float


@dataclass(frozen=True)
class Tried:
    """One setting that was really tried in the run, and the speed-up of the whole loop over the present setting."""

    workers: int
    prefetch_factor: int
    speedup: float


@dataclass(frozen=True)
class Passport:
    """A loop's costs in a form that can be carried to another machine. It names no file and no sample.

    `cores` are the cores that the run could use. `others` is how many threads of other processes wanted one of them at
    the same time, on average. `tried` are the settings by which a prediction can be checked. Of one of several ranks,
    `cores` is its part of the `shared_cores` (None: it shared them with no other rank).
    """

    costs: LoopCosts
    stages: tuple[StageShare, ...]
    cores: float
    others: float = 0.0
    tried: tuple[Tried, ...] = ()
    shared_cores: float | None = None

    @property
    def all_cores(self) -> float:
        """The cores of the run, those of its other ranks too."""
        return self.shared_cores or self.cores

    @property
    def ranks(self) -> float:
        """How many loops like this one the cores were shared by, itself included."""
        return self.all_cores / self.cores

    def divisors(self) -> Iterator[float]:
        """Figures that are above 0 in every run."""
        yield from self.costs.divisors()
        few = len(self.tried) <= _MOST_TRIED and sum(one.workers for one in self.tried) <= _MOST_TRIED_WORKERS
        yield from (self.cores, 1.0 if few else 0.0, 1.0 if self.others >= 0 else 0.0)
        yield 1.0 if self.shared_cores is None or self.shared_cores >= self.cores else 0.0
        for one in self.tried:
            yield from (one.speedup, _can_be(one.workers, one.prefetch_factor))
