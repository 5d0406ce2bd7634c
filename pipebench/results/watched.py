"""The results of watching, as plain values in base units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from pipebench.results.account import Account
from pipebench.results.batches import BatchContent, DeviceIdle, SlowSample, SpanResult
from pipebench.results.costs import LoopCosts
from pipebench.results.drilled import DrilledRow, NeedlessCall
from pipebench.results.hand_off import HandOff
from pipebench.results.host_use import HostUse
from pipebench.results.next_move import NextMove
from pipebench.results.over_time import OverTime, Timeline
from pipebench.results.reads import ReadPlace
from pipebench.results.windows import RankBound, Throughput
from pipebench.stats import Speedup


@dataclass(frozen=True)
class StageResult:
    """One stage inside the workers of one loader, or in the script's own process if the loader has no workers.

    `exclusive_s_per_sample` is the wall time of this stage without the stages inside it. It is divided by `samples`,
    all samples of the loader, so that the rows of a loader add up. `worker_share` is the stage's share of the time in
    which workers were busy. `whole_share` is that share with the stages inside it (None: this is no function that the
    dataset calls). `holds` is how many results the `functools.lru_cache` around a function keeps in each process: the
    time is that of its misses (None: it has none). `includes_read` says that reading the file and decoding it could not
    be separated. `learned` says that the stage is a part of a neural network that the dataset runs for each sample.
    `shrinks`: it decodes JPEGs, of which nearly all are made smaller at once, by 8, 4 or 2 at least (0: not so).
    `least_s_per_sample` and `most_s_per_sample` are the times in the workers with the least and the most. `by_worker_s`
    has the time in each worker, per sample of that worker, in the order of their numbers (empty: unknown, or over 64).

    A stage has no CPU time: the clock that gives it is a system call, which would disturb the stages of a busy machine.
    CPU time is known of whole batches: `LoaderResult.sample_cpu_s` and `WorkerResult.cpu_s`.
    """

    name: str
    kind: str
    loader: int
    samples: int
    exclusive_s_per_sample: float
    worker_share: float
    includes_read: bool = False
    least_s_per_sample: float | None = None
    most_s_per_sample: float | None = None
    by_worker_s: tuple[float, ...] = ()
    whole_share: float | None = None
    holds: int | Literal["all"] | None = None
    learned: bool = False
    shrinks: int = 0


@dataclass(frozen=True)
class PhaseResult:
    """One phase of the loop: its seconds per iteration and its share. A high `wait`: the loop waits for batches.

    "spans" are functions of `--span`. "prepare" is work on the batch before the model, as far as looks at the loop's
    stack tell it from forward. Without a loader, "before-backward" is the making of a batch, and forward.
    """

    phase: str
    s_per_iteration: float
    share: float


def as_clocked(phases: Iterable[PhaseResult]) -> tuple[PhaseResult, ...]:
    """The phases as the clock alone tells them: what looks find to be "prepare" is forward there."""
    known = {one.phase: one for one in phases}
    prepare = known.pop("prepare", PhaseResult("prepare", 0.0, 0.0))
    return tuple(
        one
        if one.phase not in ("forward", "before-backward")
        else PhaseResult(one.phase, one.s_per_iteration + prepare.s_per_iteration, one.share + prepare.share)
        for one in known.values()
    )


@dataclass(frozen=True)
class WaitPart:
    """One part of the wait of the loop: its seconds per iteration, and its share of the wait.

    `part` is "sampler" (samplers and batch samplers run in the script's process), "send-indices" (to the workers),
    "wait-for-worker" (no batch was there), "receive" (the bytes of a batch), "unpickle", "pin", "make-batch" (of a
    loader without workers), "after-loader" (stages after a DataLoader) or "rest". With a pin-memory thread, its work
    counts while the loop waits for it. The parts add up to the wait.
    """

    part: str
    s_per_iteration: float
    share: float


@dataclass(frozen=True)
class WorkerResult:
    """The N-th worker of a loader: one process, or one for each pass.

    `busy_share` is the time in which it made batches, as a share of the time that the loops over its loader took while
    it lived (without records of them: from its first batch to its last), and at most 1. Near 1, the loop
    could use batches faster than this worker makes them. If `cpu_s` is far below `busy_s`, the worker was blocked, or
    other processes used its core. `ended` is false if it was killed or left without a last record.

    `process_cpu_s` is the CPU time of all its threads since its start. If it is far above `cpu_s`, a library started
    threads, or the worker did work before its first batch. Memory, descriptors and threads are the highest values that
    were seen from outside; None means that the process was gone before the first look. `pss_bytes` divides each shared
    page among the processes that share it, so the figures of workers add up. `rss_bytes` counts the page in each.
    `cores` is how many cores all its threads kept busy on average, start-up not included (None: too few records).
    `core_wait_s` is the part of `busy_s` in which its thread wanted a core and had none (0 also where Linux does not
    say).

    `allowed_cores` are the numbers of the cores on which it may run (none: not known).

    `growth_bytes_per_s` is how fast the memory that is its own grows: 0 if it does not grow steadily. Storage gave it
    `storage_bytes_per_s`; what the page cache gave is not in it. Of `looks` from outside, its main thread was asleep in
    `looks_asleep` (a timer, a pipe, a network, a lock), and waited for storage in `looks_for_storage`, also for a file
    that a network or a program of the system serves (NFS, FUSE); in the others it was on a core or waited for one.
    None: not known.
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
    cores: float | None = None
    core_wait_s: float = 0.0
    growth_bytes_per_s: float | None = None
    storage_bytes_per_s: float | None = None
    allowed_cores: tuple[int, ...] = ()
    looks: int = 0
    looks_asleep: int = 0
    looks_for_storage: int = 0


@dataclass(frozen=True)
class LoaderResult:
    """One loader that the script iterated. Loaders are numbered from 1, in the order of first use.

    Number 0 is no loader: it is a loop that trains without one. `file` and `line` say where the loader was made ("":
    not seen), `made_by` which library made it from settings of its own ("": none), `called_by` which library called the
    user's function that made it ("": none), and `again` how often it was made anew at the same place: with the "same"
    dataset, with some that look "alike", or mostly with "other" ones, as `others` of the times. `beside`: only threads
    that are not the main one iterate it, and do not train. `content`: what its batches hold. `undivided`: nothing in
    the code of an iterable dataset asks for the worker. `shards`: so many workers get samples of its stream (0: it
    does not say; None: it is no stream). `single`: as in Verdict. `kept_open`: its samples are read from a file or
    connection that forks would share. `own_processes`: it has no workers, and its dataset starts processes itself.

    `training` says that a backward pass or an optimiser's step ran inside its iterations. `startup_s` is the time in
    the first pass from the start of the iterator's construction to the first batch. `later_startup_s` is the mean of
    the same time over later passes. `first_batch_s` and `later_first_batch_s` are only the waits for the first batch.
    `pass_end_s` is the mean time of the last `next()` of a pass, which brings no batch and ends the workers. `sample_s`
    is the mean wall time of a sample, its part of collate included, and `sample_cpu_s` is the CPU time of the same.
    Both are sums over batches, divided by samples. If `sample_cpu_s` is far below `sample_s`, the thread was blocked or
    waited for a core. The percentiles are of single samples without collate. `watched` is false if the inside of its
    workers could not be seen. `script_cores` is how many cores all threads of the script's own process kept busy on
    average during the iterations (None: too few records).
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
    script_cores: float | None = None
    file: str = ""
    line: int = 0
    made_by: str = ""
    called_by: str = ""
    again: int = 0
    beside: bool = False
    content: BatchContent | None = None
    undivided: bool = False
    batches: int = 0
    single: Literal["left", "whole"] | None = None
    shards: int | None = None
    remade: Literal["same", "alike", "other"] = "same"
    others: int = 0
    kept_open: bool = False
    own_processes: bool = False

    @property
    def wait_share(self) -> float:
        """The share of its iterations, settled or not, in which the loop waits: without the first wait of each pass."""
        return (self.wait_s_per_iteration or 0.0) / (self.s_per_iteration or 1.0)


@dataclass(frozen=True)
class Verdict:
    """What limits the training loop, and the figures that show it.

    `limit` is "data" if waiting for batches takes 5 % of an iteration or more, and "training" otherwise.
    "nothing-watched", "no-iteration" and "no-such-loader" say that there is nothing to judge; with the last,
    `loaders` is how many loaders the script iterated. "no-loader" says that the loop trains without one.
    "not-followed" says that another thread iterates the loader, and that its way to the training loop was not seen.
    Then `wait_share` is what the loop waits before the model, whatever for (0: not known).
    With "no-iteration", `batches` and `samples` were made in so many `passes`, the first one after `startup_s` (the
    mean of the passes). Or `warmup_iterations` were all that there were, or `start_iterations` were: workers had made
    the batches of these as they started. `single`: each pass had one batch, with
    which it was "left", or which was the "whole" pass. `waits` is the part that waits: the "device" if its idle
    time was measured, else the "loop". `loader` is the loader whose iterations take the most time. `workers_busy`
    is the mean `busy_share` of its workers (None: no workers, or not comparable). `stage` is the largest stage
    inside it, and `stage_share` its share of the time in which workers were busy. `loaders` counts all that the
    script iterated. `dataset`, `file` and `line` are those of `loader`. `phase` is the largest phase of the loop.
    `wait_part` is the largest part of the wait, if it is one that the script's own process works in: "sampler",
    "send-indices", "receive" (with unpickling), "receive-without-core" (longer than the size of batches explains, while
    hardly a core is idle and workers mostly rest) or "pin". `wait_part_share` is its share of the wait. More workers
    do not change it.

    `hand_off_s` and `batch_s` are set if workers take longer to hand a batch over than to make it: the seconds per
    batch that the feeder thread of a worker pickles, and that the worker makes the batch. `by_thread`: the loader has
    no workers, and a thread beside the loop iterates it. `elsewhere`: nothing was watched in a block, because its
    process was watched already. `torch` and `lacks` are set if nothing was watched because this version of torch lacks
    these names. `trains`: a loop of the script trains. `of_all`: the iteration and its wait are the means of several
    loaders' loops, and `loader` is the one that is waited for longest.
    """

    limit: Literal["data", "training", "nothing-watched", "no-iteration", "no-such-loader", "no-loader", "not-followed"]
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
    loaders: int = 0
    wait_part: str | None = None
    wait_part_share: float | None = None
    hand_off_s: float | None = None
    batch_s: float | None = None
    dataset: str = ""
    file: str = ""
    line: int = 0
    batches: int = 0
    samples: int = 0
    startup_s: float | None = None
    passes: int = 0
    single: Literal["left", "whole"] | None = None
    by_thread: bool = False
    elsewhere: bool = False
    torch: str = ""
    lacks: tuple[str, ...] = ()
    warmup_iterations: int = 0
    start_iterations: int = 0
    trains: bool = True
    of_all: bool = False


ONE_OF_RANKS = "one-of-ranks"
"""The note that this is one rank of several, and that those on its machine were not watched with it."""


@dataclass(frozen=True)
class Note:
    """A fact that a reader must know besides the figures: a stable `code`, with its numbers (base units) and names."""

    code: str
    values: dict[str, str | int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class WatchResult:
    """Where the time of a training script went.

    `wait_share` is the share of the loop's time in which it waits for batches. The wait for the first batch of a
    pass is left out. `wait_parts` divide it. `loaders_in_loop` are the loaders whose iterations the loop table
    shows, without the first `warmup_iterations`. Its figures are of the `settled_iterations` among the
    `iterations`: without the very first one, and without those whose batches workers made as they started.
    `account` divides the whole run, from its first second to its last (None with `--bound`). `verdict`, `next_move`
    and `account` are of all loaders, also where `--loader` limits the tables to one. `notes` say what was not seen,
    and why. `started` is what was watched, as words for the shell behind the options of `pipebench watch`:
    `train.py --epochs 3`, `-m mypackage.train`, `-- torchrun train.py` ("": a block).
    """

    verdict: Verdict
    next_move: NextMove | None
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
    notes: tuple[Note, ...]
    bound: BoundResult | None = None
    host: HostUse | None = None
    drilled: tuple[DrilledRow, ...] = ()
    needless: tuple[NeedlessCall, ...] = ()
    wait_parts: tuple[WaitPart, ...] = ()
    account: Account | None = None
    costs: tuple[LoopCosts, ...] = ()
    spans: tuple[SpanResult, ...] = ()
    over_time: OverTime | None = None
    timeline: Timeline | None = None
    started: str = ""
    warmup_iterations: int = 0
    settled_iterations: int | None = None
    reads: tuple[ReadPlace, ...] = ()

    def costs_of(self, loader: int) -> LoopCosts | None:
        """The costs of a loader's loop (None: too little of it was recorded)."""
        return next((one for one in self.costs if one.loader == loader), None)

    @property
    def taken_cores(self) -> float:
        """The usable cores that others use. They use other cores first: processes those of the machine, and ranks those
        that they share with this one."""
        if (host := self.host) is None:
            return 0.0
        shared = max(host.shared_cores or 0.0, self.usable_cores)
        foreign = max(0.0, (host.foreign_cores or 0.0) - max(0.0, (host.machine_cores or shared) - shared))
        return max(0.0, foreign + host.sibling_cores - (shared - self.usable_cores))


@dataclass(frozen=True)
class BoundResult:
    """The throughput of live training, and of training whose batches are ready (replayed).

    Both alternate in one run, window by window, with the same batches. `bound` is the throughput of replays with idle
    workers. `bound_busy` is with workers that a thread keeps as busy as in live training (None: there are no workers).
    `bound_device` is with the batches in the device's memory. Each `..._over_live` is the speed-up of a bound over
    live training, from neighbouring windows. 2 says that training would be twice as fast. 1 says that removing data
    work gains nothing.

    `swept` says that the batches of a window (`window_bytes`) were smaller than 1.2 times the last-level cache.
    Therefore other memory of that size (1.2 times the cache) was written before replays, to empty the cache.
    `complete` is false if the run ended before its planned rounds were done.

    Of several ranks, all of this is of the whole job: the samples of all ranks in the windows in which they were in
    step. `ranks` has a row for each.
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
    notes: tuple[Note, ...] = ()
    ranks: tuple[RankBound, ...] = ()
