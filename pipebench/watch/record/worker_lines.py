"""How a worker ended too early, which the script writes, and what one batch, sample or function is, or batches hold."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from pipebench.watch.record.line import line
from pipebench.watch.record.read_lines import ReadSums
from pipebench.watch.record.sample_calls import LineRuns, SampleCalls

Holds: TypeAlias = int | Literal["all"] | None
"""How many results the `functools.lru_cache` around a function holds (None: it has none)."""


@line
class WorkerGone:
    """A worker that had ended before its loader told it to.

    `status` is its exit status; that of a worker that was ended by signal n is -n.
    """

    pid: int
    status: int


@line
class TimedOut:
    """The loop waited for a batch of this loader until its `timeout`, so many seconds, and torch raised an error."""

    loader: int
    timeout_s: float


@line
class WorkerInit:
    """What the `worker_init_fn` of the script took in a worker, with its name, file and first line ("" and 0: none)."""

    loader: int
    worker: int
    ns: int
    function: str
    file: str = ""
    line: int = 0


@line
class KeptOpen:
    """A loader whose first batches were read from a file or connection that was open before: see `kept_open.py`."""

    loader: int


class OneBatch(NamedTuple):
    """When a fetch began, and what it took: wall time, the thread's CPU time, and the time in which it had no core.

    All in nanoseconds. `drew`: it used random numbers, as far as that was looked at (see `worker/draws.py`). `holds` is
    the number of what is in the batch (see `worker/fingerprints.py`; 0: not known).
    """

    began: int
    busy: int
    cpu: int
    core_wait: int
    drew: bool = False
    holds: int = 0


class LongSample(NamedTuple):
    """One of the slowest samples so far. `name` is its file, or its index or key."""

    spent_ns: int
    name: str


class Hidden(NamedTuple):
    """Errors that a pipeline's handler hid, and the time that the handler took.

    `name` and `text` are of the first one in this process: its sample or shard ("": not known), and what it said.
    """

    errors: int = 0
    spent_ns: int = 0
    name: str = ""
    text: str = ""


class FieldSums(NamedTuple):
    """What decoding one field of the samples of a stream took, and how many samples a later stage dropped it of.

    `kept` counts those of which it went into a tuple, or another thing that batches are made of.
    """

    spent_ns: int = 0
    kept: int = 0
    dropped: int = 0


class Collected(NamedTuple):
    """The number of garbage collections, and the time that they took."""

    spent_ns: int = 0
    collections: int = 0


class Pickled(NamedTuple):
    """The time that the feeder thread of a worker's queue spent on batches, and the bytes that crossed the pipe."""

    wall_ns: int = 0
    cpu_ns: int = 0
    batches: int = 0
    pipe_bytes: int = 0


class Shrunk(NamedTuple):
    """JPEGs that OpenCV read whole, and how many were then resized at once to a half, a quarter, an eighth, or less."""

    read: int = 0
    twice: int = 0
    fourfold: int = 0
    eightfold: int = 0


@line
class Carried:
    """An attribute of objects in a batch that a worker hands over whole, such as "Scan.cloud": most of its arrays.

    It has `carried_bytes` of the `batch_bytes` of all arrays and tensors. Of one of the first batches.
    """

    loader: int
    attribute: str
    carried_bytes: int
    batch_bytes: int


class ToHandOver(NamedTuple):
    """What some batches of a loader without workers held that a worker would have to hand over."""

    batches: int = 0
    tensors: int = 0
    tensor_bytes: int = 0
    array_bytes: int = 0


class Content(NamedTuple):
    """What some batches held besides samples, as far as they show it.

    `slots` are the places for tokens in batches that say which of them are padding. `seconds` are those of sound. Of
    batches of integers, or of sequences whose lengths they tell, `columns` are the places of a sample, and `unused`
    those at the end that are the same in all. `uneven` are more places at the end of a sample, on average: those that
    only longer samples use. Of `targets` in tables of integers, `ignored` are -100, which a cross entropy leaves out.
    """

    batches: int = 0
    samples: int = 0
    tokens: int = 0
    slots: int = 0
    frames: int = 0
    seconds: float = 0.0
    columns: int = 0
    unused: int = 0
    uneven: float = 0.0
    targets: int = 0
    ignored: int = 0


WorkerLine: TypeAlias = WorkerGone | TimedOut | WorkerInit | KeptOpen | Carried | SampleCalls | LineRuns | ReadSums
