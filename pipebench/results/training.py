"""A training loop that was measured: its windows, its throughput, and what it waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipebench.results.loading import Loading
from pipebench.results.measurement import Warning
from pipebench.stats import Interval, Speedup, median_interval


@dataclass(frozen=True)
class Throughput:
    """Samples per second of the training loop over some windows: the median, and where the true median lies.

    `readings_s` are the windows' seconds, `samples` how many samples each of them trained on.
    """

    readings_s: tuple[float, ...]
    samples: tuple[int, ...]
    samples_per_s: float
    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Training:
    """Live training beside its bounds.

    `wait_share` is the part of a live iteration that the loop spends waiting for its batch, 0 to 1: near 0, faster
    loading buys nothing. Each `..._over_live` is the speed-up of a bound over live training: 2 says that training would
    be twice as fast, 1 that no data work is worth removing. No window includes start-up, the draining of the prefetch
    queue or the boundary between epochs.
    """

    consumer: str
    simulated: bool
    batch_size: int
    window: int
    loading: Loading
    start_method: str
    startup_s: float
    live: Throughput
    bound: Throughput
    bound_busy: Throughput
    bound_over_live: Speedup
    busy_over_live: Speedup
    wait_share: float
    phases: dict[str, float] = field(default_factory=dict)
    bound_device: Throughput | None = None
    device_over_live: Speedup | None = None
    drain_s: float | None = None
    epoch_boundary_s: float | None = None
    oversubscribed: bool = False
    samples_failed: int = 0
    warnings: tuple[Warning, ...] = ()


def throughput(windows: Sequence[Window]) -> Throughput:
    rates: Interval = median_interval([one.samples / one.elapsed_s for one in windows])
    return Throughput(
        tuple(one.elapsed_s for one in windows),
        tuple(one.samples for one in windows),
        rates.median,
        rates.low,
        rates.high,
        rates.confidence,
    )


@dataclass
class Window:
    """Some iterations of the loop in a row: how long they took, for how many samples, and where the time went.

    `phases` adds up the host's seconds by phase, `callbacks` those of each callback at each event. A large `wait` says
    that batches were not there when asked for.
    """

    elapsed_s: float = 0.0
    samples: int = 0
    iterations: int = 0
    phases: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    callbacks: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))

    def share(self, phase: str) -> float:
        """The part of the time that a phase took, 0 to 1."""
        return self.phases[phase] / self.elapsed_s if self.elapsed_s > 0 else 0.0
