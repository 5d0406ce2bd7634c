"""The lines of a record file: one class for each kind of line that a watched process writes about itself.

A line is a JSON list of two items: the name of its class, and its fields. Items that occur many times inside a line
are named tuples, which JSON writes as lists. The standard library writes them; `watch.read.decoding` reads them back.

Every moment (`at`, `begin`, `asked`, ...) is in nanoseconds of the monotonic clock, which all processes of a machine
share. A field that ends in `_ns` is a duration in nanoseconds; a field that ends in `_bytes` is a size.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, NamedTuple, TypeAlias

from pipebench.watch.record.bound_lines import BoundEnded, BoundPlan, BoundRoundVoid, BoundWindow
from pipebench.watch.record.device_lines import DeviceIdleTime, DeviceWait
from pipebench.watch.record.line import line
from pipebench.watch.record.program_lines import ProgramLine
from pipebench.watch.record.spent import TimeSpent
from pipebench.watch.record.trial_lines import LoaderMade, LoopLooks, ThreadsBeside, TrialLine
from pipebench.watch.record.worker_lines import (
    Collected,
    Content,
    FieldSums,
    Hidden,
    Holds,
    LongSample,
    OneBatch,
    Pickled,
    Shrunk,
    ToHandOver,
    WorkerLine,
)

Remade: TypeAlias = Literal["same", "alike", "other"]
"""What the datasets are with which one line makes a loader anew: one, some that look the same, or such as do not."""
Buckets: TypeAlias = dict[int, int]
"""The number of durations in each logarithmic bucket: see `record_file.bucket`."""


class StageName(NamedTuple):
    """The kind and name of a stage. `includes_read`: it also reads the file. `own`: a transform in the user's code."""

    kind: str
    name: str
    includes_read: bool = False
    holds: Holds = None
    own: bool = False


class CodePlace(NamedTuple):
    """A line of a source file."""

    file: str
    line: int


class HandedOver(NamedTuple):
    """A followed batch, as its worker sees it.

    `nth` counts the batches of this worker in the pass, from 0. The fetch lasted from `began` to `done`. From
    `pickling` to `sent` the thread `feeder` (the system's number) turned the batch into bytes. Every eighth batch is
    counted: `shared_bytes` are the storages of its tensors, each once, of which `viewed_bytes` are copied but belong to
    no tensor, and `array_bytes` its NumPy arrays, copied through the pipe. `double_bytes` of both are float64. Tensors
    that are views of one memory share one of the `storages`. Before the first batch of a pass, the fetcher was created
    in `created_ns`: that of an iterable calls `iter(dataset)`.
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
    viewed_bytes: int = 0
    double_bytes: int = 0
    storages: int = 0
    created_ns: int = 0


class Arrival(NamedTuple):
    """A followed batch, as the script's process sees it.

    `asked` is the call of `next()`, `taken` its return, and `left` the following call. `came` is when the batch left
    the queue; before `asked` if the batch came while the loop waited for another one. The thread `pin_thread` began to
    receive the batch at `begun`, had it at `received`, and had pinned it at `pinned`. Without it, all four are 0.
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
    begun: int = 0


class Pool(NamedTuple):
    """How many threads a loaded library may use, and the call or variable that limits it to one thread."""

    library: str
    threads: int
    set_with: str


@line
class ProcessStarted:
    """The first line of every file; "unknown" stands for one that is lost. The last three are None but of workers."""

    pid: int
    role: Literal["script", "worker", "fork", "unknown"]
    at: int
    loader: int | None = None
    worker: int | None = None
    start_method: str | None = None


@line
class NewStage:
    """Gives a stage its number. Written before the first line of the process that uses this number."""

    number: int
    stage: StageName


@line
class FetchSums:
    """What the fetcher of one process did since its last line of this kind.

    Written after each of the first two, then at times. Fetches lie from `begin` to `end`. `busy_ns` is the wall time in
    them, `cpu_ns` the thread's CPU time with that of programs it waited for (at most the wall time), and `core_wait_ns`
    the time in which it had no core. `process_cpu_ns` and `read_bytes` are of the process since its start. `stages_ns`
    is the exclusive wall time of each stage, by its number; `whole_ns` includes the stages inside, of functions. `left`
    are stages that are timed no longer, each with the stage that has its time since then. `gave` counts what each stage
    of a chain of iterators gave on. `fields` are those that a decoder in it makes. `lengths` are those of single
    samples. A failed batch counts in `failed` alone. Of `unused` ones of the `samples`, no batch was made. No row was
    timed inside those of `unsplit` batches. `content`: of batches looked at. `single`: of a process's first ones.
    """

    loader: int
    begin: int
    end: int
    batches: int = 0
    samples: int = 0
    unused: int = 0
    failed: int = 0
    busy_ns: int = 0
    cpu_ns: int = 0
    core_wait_ns: int = 0
    process_cpu_ns: int = 0
    read_bytes: int = 0
    stages_ns: dict[int, int] = field(default_factory=dict)
    whole_ns: dict[int, int] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    gave: dict[int, int] = field(default_factory=dict)
    fields: dict[str, FieldSums] = field(default_factory=dict)
    shrunk: Shrunk = field(default_factory=Shrunk)
    lengths: Buckets = field(default_factory=dict)
    slow: list[LongSample] = field(default_factory=list)
    gc: Collected = field(default_factory=Collected)
    pickled: Pickled = field(default_factory=Pickled)
    handed: list[HandedOver] = field(default_factory=list)
    content: Content = field(default_factory=Content)
    held: ToHandOver = field(default_factory=ToHandOver)  # without workers
    hidden: Hidden = field(default_factory=Hidden)
    single: list[OneBatch] = field(default_factory=list)
    unsplit: int = 0


@line
class BatchInFull:
    """One batch in every detail. Written for every N-th batch and for a new slowest sample, while there is room.

    `stages` are the changes of stage: moment, stage's number, moment, stage's number, ...
    """

    loader: int
    number_of_pass: int
    batch: int
    begin: int
    end: int
    stages: list[int] = field(default_factory=list)


@line
class LoaderFound:
    """A loader. Written when it is first iterated; loaders are numbered in that order, from 1.

    `persistent`: workers live from pass to pass; `can_persist`: a setting can let them. `made`: the calls that led to
    its constructor, the nearest first. `sampler` is the `__iter__` of the script's own sampler or batch sampler, and
    `sampler_at` where it is written; of torch's, `sampler` is its class. For others, see `script/`.
    """

    loader: int
    dataset: str
    workers: int
    batch_size: int | None
    start_method: str
    prefetch_factor: int | None
    persistent: bool = False
    can_persist: bool = True
    made: list[CodePlace] = field(default_factory=list)
    undivided: bool = False
    nested: dict[str, int] = field(default_factory=dict)
    shards: int | None = None
    own_processes: bool = False
    sampler: str = ""
    sampler_at: CodePlace | None = None
    models: list[str] = field(default_factory=list)

    @property
    def iterable(self) -> bool:
        """Whether the dataset is: torch begins such a stream anew in each pass, also in workers that live on."""
        return self.shards is not None


@line
class PassBegun:
    """The begin of the `number`-th pass over a loader, from 0. Written after the iterator's construction.

    `begin` is the moment before it. `again` counts how often the loader had been made anew before, `others` of them for
    other data. `twice_ns` is what the sampler took before torch began it again, as where workers are new. `remade` is
    what the rest of its datasets were, and `inside` the class of one in them that was made anew, and looks the same.
    """

    loader: int
    number: int
    begin: int
    again: int = 0
    twice_ns: int = 0
    remade: Remade = "same"
    others: int = 0
    inside: str = ""


@line
class PassEnded:
    """The end of a pass: exhausted, failed with an exception, or left. `wait_ns` is of a `next()` without a batch."""

    loader: int
    how: Literal["exhausted", "failed", "left"]
    wait_ns: int


@line
class LoopSums:
    """What a loop did since its last line of this kind. Written after each of the first iterations, later at intervals.

    The line covers `turns` iterations. `first` is the number of the first one in the pass, from 0, and `begin` is its
    begin. `trained` counts the iterations with a backward or an optimiser's step. `phases_ns` are those of
    `record_file.PHASES`. `first_wait_ns` is the wait for the first batch of the pass, if this line covers it.
    `after_loader_ns` is the part of the waits in the stages of a pipeline after its DataLoader. `waits` and `lengths`
    are the waits and durations of single iterations, and `wait_parts_ns` are of `record_file.WAIT_PARTS`; all three are
    without the first iteration of the pass. Since its start, the whole process used `process_cpu_ns`, and this thread
    had no core for `core_wait_ns`. `helper_wait_ns` is the same of one of the process's native threads, the one that
    waited longest, as of those that compute parts of an operation; it is not looked at for each line. `spans_ns`
    divides the phase "spans" by name. `beside`: not in the main thread. `steps` counts the steps of optimisers.
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
    wait_parts_ns: list[int] = field(default_factory=list)
    waits: Buckets = field(default_factory=dict)
    lengths: Buckets = field(default_factory=dict)
    process_cpu_ns: int = 0
    core_wait_ns: int = 0
    idle: DeviceIdleTime | None = None
    arrivals: list[Arrival] = field(default_factory=list)
    device: list[DeviceWait] = field(default_factory=list)
    spans_ns: dict[str, int] = field(default_factory=dict)
    beside: bool = False
    steps: int = 0
    helper_wait_ns: int = 0


@line
class IterationInFull:
    """One iteration in every detail, for every N-th iteration. `phases` is begin, end, phase, begin, end, phase, ..."""

    loader: int
    number_of_pass: int
    turn: int
    begin: int
    end: int
    thread: int
    phases: list[int] = field(default_factory=list)


@line
class LoadersTogether:
    """Says that the loop iterates two loaders in step, as in `zip(first, second)`."""

    first: int
    second: int


@line
class LibraryThreads:
    """The thread pools of a process's libraries. Written when the process ends.

    `native_threads` did more than idle (None: unknown). `sharing` is torch's strategy (None: nothing was shared).
    `variables` of the environment set one thread for all libraries, or for one that torch uses.
    """

    pools: list[Pool] = field(default_factory=list)
    native_threads: int | None = None
    sharing: str | None = None
    variables: list[str] = field(default_factory=list)


@line
class StackPlace:
    """Where the stack of the thread that fetches lies in memory, so that the supervisor can read it from outside.

    Written once, to a file of its own, when a large share of the fetches' time has no name. Fields ending in `_at` are
    offsets in bytes; the process finds them by looking at objects that it knows. `began` is the `at` of the process's
    first line. `thread` is the address of the thread's state. `to_frame` leads from there to the running frame: add the
    first offset, read a word, and so on. Then come the offsets in a frame (`code_at`, `previous_at`, `instruction_at`),
    in a code object, and in a text. `code_type` is the address of the type of code objects. `stage` is the address of
    the word that points to the present stage's number; 0 lies at `zero`, each next number `number_bytes` further.
    """

    pid: int
    began: int
    loader: int
    thread: int
    to_frame: list[int]
    code_at: int
    previous_at: int
    instruction_at: int
    file_at: int
    name_at: int
    lines_at: int
    first_line_at: int
    instructions_at: int
    ascii_at: int
    wide_at: int
    code_type: int
    stage: int
    zero: int
    number_bytes: int


@line
class Moment:
    """The end of the warm-up ("warm"), of the recording ("stop"), or of the process ("end")."""

    name: Literal["warm", "stop", "end"]
    at: int


@line
class SpanNotFound:
    """A `--span` that named no function when the script ended, and what there was not."""

    text: str
    lacks: Literal["module", "function"]


@line
class NotRecognised:
    """A torch whose loaders lack names that recording needs. Nothing is recorded then."""

    torch: str
    lacks: list[str]


@line
class Fault:
    """A fault of pipebench: where it happened, and its exception. The script went on."""

    where: str
    text: str


Line: TypeAlias = (
    ProcessStarted | NewStage | FetchSums | BatchInFull | LoaderFound | PassBegun | PassEnded | LoopSums
    | IterationInFull | LoadersTogether | LibraryThreads | StackPlace | Moment | SpanNotFound | NotRecognised | Fault
    | TimeSpent | BoundPlan | BoundWindow | BoundRoundVoid | BoundEnded | LoaderMade | TrialLine | ProgramLine
    | WorkerLine | LoopLooks | ThreadsBeside
)  # fmt: skip
