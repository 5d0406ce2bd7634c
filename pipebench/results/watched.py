"""What watching found, as plain values in base units."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pipebench.results.windows import Throughput
from pipebench.stats import Speedup


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
class QueuePoint:
    """Finished batches that lay ready, on average over `batches` requests around `at_s` seconds from the first one."""

    at_s: float
    ready: float
    batches: int


@dataclass(frozen=True)
class HandOff:
    """From a worker to the script, per batch: what its feeder thread spent on pickling, and the bytes in the pipe.

    Tensors cross in shared memory: high `pipe_bytes_per_batch` means that a batch holds a lot that is not a tensor.
    The rest is from the batches that were followed one by one (`followed`: the first 1,024 of a pass, then ever fewer).

    `latency_s` is the median time from a worker's end of a batch to its receipt in the script's process, of batches
    that the loop was already waiting for: high means that the hand-off itself is slow. `pin_s` is the median time from
    there until the batch lies in pinned memory (None: the loader does not pin).

    `tensors_per_batch` counts tensors, `shared_bytes_per_batch` the shared memory that they lie in, once where several
    share it: more than the tensors need means that views cross with all that they were cut from. `arrays_per_batch`
    and `array_bytes_per_batch` are NumPy's arrays, which are copied through the pipe, unlike tensors.

    `ready` is how many finished batches lay waiting, on average, when the loop asked for one: near 0, workers are the
    limit; near `most_ready` (the prefetch of all workers), the loop is. `ready_over_time` is the same over the run.
    `out_of_order` is the share of waits in which another batch came before the one that was due, and
    `out_of_order_s_per_batch` the time spent waiting with that other one already there: high means that batches
    differ a lot in cost, and that order is paid for.
    """

    serialise_s_per_batch: float
    serialise_cpu_s_per_batch: float
    pipe_bytes_per_batch: float
    batches: int
    followed: int = 0
    latency_s: float | None = None
    pin_s: float | None = None
    tensors_per_batch: float | None = None
    shared_bytes_per_batch: float | None = None
    arrays_per_batch: float | None = None
    array_bytes_per_batch: float | None = None
    ready: float | None = None
    most_ready: int | None = None
    ready_over_time: tuple[QueuePoint, ...] = ()
    out_of_order: float | None = None
    out_of_order_s_per_batch: float | None = None


@dataclass(frozen=True)
class WorkerResult:
    """The N-th worker of a loader: one process, or one for each pass.

    `busy_share` is the part of its time, from its first batch to its last, in which it made batches. Near 1: the loop
    could use batches faster than this worker makes them. `cpu_s` well under `busy_s`: it was blocked, or other
    processes had its core. `ended` is false where it was killed or left without saying so.

    `process_cpu_s` is the CPU time of all its threads since it was started: well over `cpu_s` means threads that some
    library started, or work before the first batch. Memory, descriptors and threads are the highest that were seen
    from outside (None: it was gone before anybody looked). `pss_bytes` divides each shared page among those that share
    it, so that workers add up; `rss_bytes` counts it in each.
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
    process_cpu_s: float | None = None
    pss_bytes: int | None = None
    rss_bytes: int | None = None
    descriptors: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class LoaderResult:
    """One loader that was iterated, in the order of first use, from 1.

    `training` says that a backward or an optimiser's step ran inside its iterations. `startup_s` is from the start of
    the iterator's construction to its first batch, in its first pass; `later_startup_s` the same on average over the
    later ones, of which `later_first_batch_s` is the wait itself. `pass_end_s` is the last `next()` of a pass, which
    brings no batch and ends the workers. `sample_*` are of single samples, inclusive.
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
    later_startup_s: float | None
    pass_end_s: float | None
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
class ThreadPool:
    """How many threads a library may use in one process, and the call or variable that sets it.

    `where` is "script" or "workers". High is no fault by itself: a pool that nobody uses costs nothing.
    """

    where: str
    name: str
    threads: int
    set_with: str


@dataclass(frozen=True)
class HostUse:
    """What the run took of the machine besides time, at its highest, looked up from outside (None: never seen).

    `pss_bytes` is of the script and its workers together, shared pages counted once; `script_*` are of the script's own
    process. `shared_memory_bytes` is the use of /dev/shm by everybody, `shared_memory_before_bytes` that at the start:
    near `shared_memory_size_bytes` the next batch ends in a bus error. With `sharing_strategy` "file_descriptor" each
    tensor on its way holds one descriptor. `worker_native_threads` is the most threads of a worker, besides Python's
    own, that used at least 20 ms and 1 % of its CPU time: 0 means that no library's pool did any work in it.
    """

    pss_bytes: int | None
    script_pss_bytes: int | None
    script_rss_bytes: int | None
    script_threads: int | None
    script_descriptors: int | None
    descriptor_limit: int | None
    shared_memory_bytes: int | None
    shared_memory_before_bytes: int | None
    shared_memory_size_bytes: int | None
    sharing_strategy: str | None
    worker_native_threads: int | None
    pools: tuple[ThreadPool, ...]


@dataclass(frozen=True)
class DeviceIdle:
    """How long the device lay idle per wait, from its own events: what waiting really costs where work is queued."""

    s_per_iteration: float
    share: float
    waits: int


@dataclass(frozen=True)
class Verdict:
    """What limits the training loop, and the figures that say so.

    `limit` is "data" where waiting for batches takes 5 % of an iteration or more, else "training"; "nothing-watched"
    and "no-iteration" say that there is nothing to judge. `waits` is who waits: the "device", where its idle time was
    measured, else the "loop". `loader` is the loader that the loop spends most time with; `workers_busy` is the mean
    `busy_share` of its workers (None: no workers, or not comparable), `stage` the largest stage inside it, and
    `stage_share` that stage's part of the time in which workers were busy (0 to 1). `phase` is the largest phase of the
    loop.
    """

    limit: Literal["data", "training", "nothing-watched", "no-iteration"]
    waits: Literal["loop", "device"] = "loop"
    wait_share: float = 0.0
    wait_s: float = 0.0
    iteration_s: float = 0.0
    phase: str | None = None
    phase_share: float | None = None
    loader: int | None = None
    workers: int = 0
    inside_watched: bool = True
    workers_busy: float | None = None
    stage: str | None = None
    stage_kind: str | None = None
    stage_includes_read: bool = False
    stage_share: float | None = None


@dataclass(frozen=True)
class NextMove:
    """One change that the figures support.

    `workers` is the present number of workers, `cores_used` how many cores they keep busy. `stage` is what should
    become cheaper: it takes `stage_s` of the `sample_s` seconds of a sample.
    """

    action: Literal["set-num-workers", "raise-num-workers", "make-stage-cheaper"]
    usable_cores: float
    workers: int = 0
    cores_used: float | None = None
    stage: str | None = None
    stage_kind: str | None = None
    stage_s: float | None = None
    sample_s: float | None = None


@dataclass(frozen=True)
class Note:
    """What a reader must know besides the figures: a stable `code`, and its numbers (base units) and names.

    `render.watch_notes` has the sentence of each code.
    """

    code: str
    values: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchResult:
    """Where the time of a training script went. `wait_share` is the loop's waiting over its time, first batches apart.

    `loaders_in_loop` are those whose iterations the loop table shows. `notes` say what was not seen, and why. In older
    reports `verdict`, `next_move` and `notes` are sentences.
    """

    verdict: Verdict | str
    next_move: NextMove | str | None
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
    wait_p50_s: float | None
    wait_p95_s: float | None
    wait_p99_s: float | None
    iteration_p50_s: float | None
    iteration_p95_s: float | None
    iteration_p99_s: float | None
    device_idle: DeviceIdle | None
    usable_cores: float
    status: int
    complete: bool
    notes: tuple[Note | str, ...]
    bound: BoundResult | None = None
    host: HostUse | None = None


@dataclass(frozen=True)
class BoundResult:
    """Training live, and with its batches already there: by turns in one run, the same batches beside one another.

    `bound` is with the workers idle, `bound_busy` with workers that a thread keeps as busy as live (None: there are
    none), `bound_device` with the batches in the device's memory. Each `..._over_live` is the speed-up of a bound over
    live training, window beside window: 2 says that training would be twice as fast, 1 that no data work is worth
    removing.
    `swept` says that a window's batches (`window_bytes`) were fewer than the last-level cache holds, so that as much
    other memory was written before each replay. `complete` is false where the run ended before its plan did.
    """

    loader: int | None = None
    rounds: int = 0
    window: int = 0
    live: Throughput | None = None
    bound: Throughput | None = None
    bound_busy: Throughput | None = None
    bound_device: Throughput | None = None
    bound_over_live: Speedup | None = None
    busy_over_live: Speedup | None = None
    device_over_live: Speedup | None = None
    window_bytes: int = 0
    last_level_cache_bytes: int = 0
    swept: bool = False
    complete: bool = False
    notes: tuple[Note | str, ...] = ()
