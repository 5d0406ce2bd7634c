"""What watching found, as plain values in base units."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pipebench.watch.boundresult import BoundResult

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class StageResult:
    """One stage inside the workers of one loader (or in the script's own process, where it has none).

    `exclusive_s_per_sample` is wall time in which this stage ran and nothing inside it; `samples` is what it is
    divided by: all samples of the loader, so that the rows of a loader add up. `cpu_s_per_sample` is less than that
    where the thread was blocked or not scheduled (None: not measured for this stage). `worker_share` is its part of
    the time in which workers were busy. `includes_read` says that reading the file cannot be told from decoding it.
    `least_s_per_sample` and `most_s_per_sample` are those of the workers with the least and the most.
    """

    name: str
    kind: str
    loader: int
    samples: int
    exclusive_s_per_sample: float
    cpu_s_per_sample: float | None
    worker_share: float
    includes_read: bool = False
    least_s_per_sample: float | None = None
    most_s_per_sample: float | None = None


@dataclass(frozen=True)
class PhaseResult:
    """One phase of the loop. High `wait`: the loop has to wait for its batches."""

    phase: str
    s_per_iteration: float
    share: float


@dataclass(frozen=True)
class HandOff:
    """From a worker to the script, per batch: what its feeder thread spent on pickling, and the bytes in the pipe.

    Tensors cross in shared memory: high `pipe_bytes_per_batch` means that a batch holds a lot that is not a tensor.
    The rest is from the batches that could be followed one by one (`followed`: the first 256, then every 50th).
    `latency_s` is the median time from a worker's end of a batch to its arrival, of batches that the loop was already
    waiting for: high means that the hand-off itself is slow. `ready` is how many finished batches lay waiting, on
    average, when the loop asked for one: near 0, workers are the limit; near the prefetch, the loop is.
    `out_of_order` is the share of waits in which another batch came before the one that was due: high means that
    batches differ a lot in cost.
    """

    serialise_s_per_batch: float
    serialise_cpu_s_per_batch: float
    pipe_bytes_per_batch: float
    batches: int
    followed: int = 0
    latency_s: float | None = None
    ready: float | None = None
    out_of_order: float | None = None


@dataclass(frozen=True)
class WorkerResult:
    """The N-th worker of a loader: one process, or one for each pass.

    `busy_share` is the part of its time, from its first batch to its last, in which it made batches. Near 1: the loop
    could use batches faster than this worker makes them. `cpu_s` well under `busy_s`: it was blocked, or other
    processes had its core. `ended` is false where it was killed or left without saying so.
    """

    loader: int
    worker: int
    pids: tuple[int, ...]
    batches: int
    samples: int
    failed_batches: int
    busy_s: float
    cpu_s: float
    busy_share: float
    gc_s: float
    gc_collections: int
    ended: bool


@dataclass(frozen=True)
class LoaderResult:
    """One loader that was iterated, in the order of first use, from 1.

    `training` says that a backward or an optimiser's step ran inside its iterations. `startup_s` is from the start of
    the iterator's construction to its first batch, in its first pass. `sample_*` are of single samples, inclusive.
    `watched` is false where the inside of its workers could not be seen.
    """

    loader: int
    dataset: str
    workers: int
    batch_size: int | None
    start_method: str
    watched: bool
    training: bool
    passes: int
    iterations: int
    s_per_iteration: float | None
    wait_s_per_iteration: float | None
    startup_s: float | None
    first_batch_s: float | None
    later_first_batch_s: float | None
    samples: int
    sample_s: float | None
    sample_cpu_s: float | None
    sample_p50_s: float | None
    sample_p95_s: float | None
    sample_p99_s: float | None
    failed_batches: int


@dataclass(frozen=True)
class SlowSample:
    """One of the slowest samples, by path or key where one was seen, else by index."""

    name: str
    loader: int
    worker: int | None
    s: float


@dataclass(frozen=True)
class DeviceIdle:
    """How long the device lay idle per wait, from its own events: what waiting really costs where work is queued."""

    s_per_iteration: float
    share: float
    waits: int


@dataclass(frozen=True)
class WatchResult:
    """Where the time of a training script went. `wait_share` is the loop's waiting over its time, first batches apart.

    `loaders_in_loop` are those whose iterations the loop table shows. `notes` say what was not seen, and why.
    """

    verdict: str
    next_move: str | None
    stages: tuple[StageResult, ...]
    loop: tuple[PhaseResult, ...]
    iterations: int
    wait_share: float | None
    hand_off: HandOff | None
    workers: tuple[WorkerResult, ...]
    startup_s: float | None
    start_method: str | None
    slowest: tuple[SlowSample, ...]
    loaders: tuple[LoaderResult, ...]
    loaders_in_loop: tuple[int, ...]
    iteration_p50_s: float | None
    iteration_p95_s: float | None
    iteration_p99_s: float | None
    device_idle: DeviceIdle | None
    usable_cores: float
    status: int
    complete: bool
    notes: tuple[str, ...]
    bound: BoundResult | None = None


def result_as_dict(result: WatchResult) -> dict[str, Any]:
    """The JSON document of one watched run."""
    return {"schema_version": SCHEMA_VERSION, "watch": asdict(result)}
