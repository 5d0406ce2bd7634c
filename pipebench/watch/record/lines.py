"""What processes write about themselves while they are watched: one class for each kind of line in a record file.

A line is a JSON list of two items: the name of its class, and its fields. What occurs many times inside a line is a
named tuple, which JSON writes as a list. The process of the script writes these with nothing but the standard library;
`watch.read.decoding` turns them back into the same classes.

Every moment (`at`, `begin`, `asked`, ...) is in nanoseconds of the monotonic clock, which all processes of a machine
share. Every field that ends in `_ns` is a duration in nanoseconds, every field that ends in `_bytes` a size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

Buckets: TypeAlias = dict[int, int]
"""How many durations fell into each logarithmic bucket: see `record_file.bucket`."""


class StageName(NamedTuple):
    """What a stage is called. `includes_read` says that reading the file is part of it."""

    kind: str
    name: str
    includes_read: bool = False


class LongSample(NamedTuple):
    """One of the slowest samples so far. `name` is its file, or its index or key."""

    spent_ns: int
    name: str


class Collected(NamedTuple):
    """Garbage collections and the time that they took."""

    spent_ns: int = 0
    collections: int = 0


class Pickled(NamedTuple):
    """What the feeder thread of a worker's queue spent on batches, and the bytes that crossed the pipe."""

    wall_ns: int = 0
    cpu_ns: int = 0
    batches: int = 0
    pipe_bytes: int = 0


class HandedOver(NamedTuple):
    """A followed batch, as its worker knows it.

    `nth` counts the batches of this worker in the pass, from 0. `began` and `done` are the moments of its fetch; from
    `pickling` to `sent` the feeder thread (`feeder`, the system's number) turned it into bytes. `shared_bytes` are
    those of its tensors' storages, each counted once; `array_bytes` are those of its NumPy arrays, which are copied
    through the pipe.
    """

    task: int
    number_of_pass: int
    nth: int
    began: int
    done: int
    pickling: int
    sent: int
    feeder: int
    pipe_bytes: int
    tensors: int
    shared_bytes: int
    arrays: int
    array_bytes: int


class Arrival(NamedTuple):
    """A followed batch, as the script's process knows it.

    `asked` is the call of `next()`, `taken` its return, `left` the next call. `came` is when the batch left the queue:
    before `asked` where it came while the loop waited for another batch. `received` and `pinned` are moments of the
    pin-memory thread (`pin_thread`), all three 0 where there is none.
    """

    task: int
    thread: int
    asked: int
    came: int
    taken: int
    received: int
    pinned: int
    pin_thread: int
    left: int = 0


class DeviceWait(NamedTuple):
    """One wait on a CUDA device. `host` is the moment of its end; `busy_ns` is from the wait before (-1: unknown)."""

    turn: int
    host: int
    idle_ns: int
    busy_ns: int


class DeviceIdleTime(NamedTuple):
    """How long a CUDA device lay idle in so many waits."""

    idle_ns: int
    waits: int


class Pool(NamedTuple):
    """How many threads a loaded library may use, and what sets that."""

    library: str
    threads: int
    set_with: str


@dataclass
class ProcessStarted:
    """The first line of every file. `loader`, `worker` and `start_method` are None for the script's own process."""

    pid: int
    role: Literal["script", "worker", "fork"]
    at: int
    loader: int | None = None
    worker: int | None = None
    start_method: str | None = None


@dataclass
class NewStage:
    """Before the first line of a process that uses the stage's number."""

    number: int
    stage: StageName


@dataclass
class FetchSums:
    """What one process's fetcher did since its last such line: after each of its first batches, later at intervals.

    `begin` and `end` bound the fetches. `busy_ns` and `cpu_ns` are the time inside fetches, `sample_cpu_ns` the CPU
    time inside `__getitem__`; `process_cpu_ns` is that of the whole process since its start. `stages_ns` is
    the exclusive time by the stage's number, `stages_cpu_ns` the CPU time of those for which it is measured. `lengths`
    are those of single samples. Batches that failed with an exception
    are in `failed`, not in `batches`.
    """

    loader: int
    begin: int
    end: int
    batches: int = 0
    samples: int = 0
    failed: int = 0
    busy_ns: int = 0
    cpu_ns: int = 0
    sample_cpu_ns: int = 0
    process_cpu_ns: int = 0
    stages_ns: dict[int, int] = field(default_factory=dict)
    stages_cpu_ns: dict[int, int] = field(default_factory=dict)
    lengths: Buckets = field(default_factory=dict)
    slow: list[LongSample] = field(default_factory=list)
    gc: Collected = field(default_factory=Collected)
    pickled: Pickled = field(default_factory=Pickled)
    handed: list[HandedOver] = field(default_factory=list)


@dataclass
class BatchInFull:
    """One batch in every detail: every N-th one and the one with the slowest sample so far, while there is room.

    `stages` are changes of stage: moment, stage's number, moment, stage's number, ...
    """

    loader: int
    number_of_pass: int
    batch: int
    begin: int
    end: int
    stages: list[int] = field(default_factory=list)


@dataclass
class LoaderFound:
    """When a loader is first iterated. Loaders are numbered from 1, in the order of that."""

    loader: int
    dataset: str
    workers: int
    batch_size: int | None
    start_method: str
    prefetch_factor: int | None


@dataclass
class PassBegun:
    """When an iterator of a loader has been constructed: its `number`-th pass, from 0. `begin` is before that."""

    loader: int
    number: int
    begin: int


@dataclass
class PassEnded:
    """When a pass is over: its iterator was used up, failed with an exception, or was left when recording ended.

    `wait_ns` is the wait of the last `next()`, which gave no batch.
    """

    loader: int
    how: Literal["exhausted", "failed", "left"]
    wait_ns: int


@dataclass
class LoopSums:
    """What a loop did since its last such line: after each of its first iterations, later at intervals.

    `first` is the number of the first of its `turns` iterations in the pass, from 0; `begin` is that one's begin.
    `trained` counts those with a backward or an optimiser's step. `phases_ns` has one entry for each of
    `record_file.PHASES`. `first_wait_ns` is the wait for the first batch of the pass, where that is in here.
    `after_loader_ns` is the part of the waits that a pipeline spends in stages after its DataLoader. `waits` and
    `lengths` are those of single iterations, without the first of the pass.
    """

    loader: int
    number_of_pass: int
    first: int = 0
    begin: int = 0
    turns: int = 0
    trained: int = 0
    phases_ns: list[int] = field(default_factory=list)
    first_wait_ns: int | None = None
    after_loader_ns: int = 0
    waits: Buckets = field(default_factory=dict)
    lengths: Buckets = field(default_factory=dict)
    idle: DeviceIdleTime | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    device: list[DeviceWait] = field(default_factory=list)


@dataclass
class IterationInFull:
    """One iteration in every detail, every N-th one: `phases` are begin, end, phase, begin, end, phase, ..."""

    loader: int
    number_of_pass: int
    turn: int
    begin: int
    end: int
    thread: int
    phases: list[int] = field(default_factory=list)


@dataclass
class LoadersTogether:
    """When two loaders are seen to be iterated in step, as in `zip(first, second)`."""

    first: int
    second: int


@dataclass
class LibraryThreads:
    """When a process ends: the pools of its libraries, and how many native threads did run (None: not known).

    `sharing` is torch's sharing strategy, None where torch is not loaded.
    """

    pools: list[Pool] = field(default_factory=list)
    native_threads: int | None = None
    sharing: str | None = None


@dataclass
class Moment:
    """The end of the warm-up, of the recording after the iterations asked for, or of the process."""

    name: Literal["warm", "stop", "end"]
    at: int


@dataclass
class Fault:
    """A fault of pipebench: where, and its exception. The script went on."""

    where: str
    text: str


@dataclass
class BoundPlan:
    """With --bound, before the first window: what is replayed and how often. Counts are iterations.

    `given` is how many batches the script had before. `swept` says that a cache is cleared before each replay.
    """

    loader: int | None
    steps: int
    begin: int
    lead: int
    window: int
    rounds: int
    replays: list[str]
    given: int
    batch_bytes: int
    pinned: bool
    last_level_cache_bytes: int
    swept: bool
    notes: list[str] = field(default_factory=list)


@dataclass
class BoundWindow:
    """With --bound, after each window. `kind` is one of `schedule`'s, `first` its first iteration in the schedule."""

    round: int
    kind: str
    seconds: float
    samples: int
    iterations: int
    first: int = 0


@dataclass
class BoundRoundVoid:
    """With --bound, where the script changed the batches of a round before that was known."""

    round: int


@dataclass
class BoundEnded:
    """With --bound, before the process is left. `problem` is None where the plan was carried out."""

    problem: str | None


Line: TypeAlias = (
    ProcessStarted | NewStage | FetchSums | BatchInFull | LoaderFound | PassBegun | PassEnded | LoopSums
    | IterationInFull | LoadersTogether | LibraryThreads | Moment | Fault
    | BoundPlan | BoundWindow | BoundRoundVoid | BoundEnded
)  # fmt: skip
BoundLine: TypeAlias = BoundPlan | BoundWindow | BoundRoundVoid | BoundEnded
