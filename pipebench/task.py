"""The words of the lab: a task, the variants that do it, the workload they are given and the work they do.

A variant is a function from a `Workload` to the callable that is timed. Register one with `@variant("decode/rgb",
name="my-decoder")` in a module of `pipebench.stages`: the command line lists it, the suite measures it, the tests
hold it against the reference and the report shows it. Nothing else is edited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

STAGES = ("read", "decode", "crop", "transform", "collate", "transfer", "step", "video")
OPEN_FILES = frozenset({"read", "video"})  # stages whose calls open files: of a cold reading, only one call is cold


SkipCode = Literal["no-device", "not-built", "no-compiler", "kernel", "not-installed", "unsupported-cpu", "unfit"]


Call = Callable[[Any], Any]


class Unavailable(Exception):
    """Raised by a variant's outer function where the variant cannot run. The row is skipped with this reason."""

    def __init__(self, code: SkipCode, reason: str) -> None:
        super().__init__(code, reason)
        self.code: SkipCode = code
        self.reason = reason


@dataclass(frozen=True)
class Workload:
    """The settings of a measurement. A variant is an implementation of a task and never a setting."""

    data: str = "photos"
    limit: int | None = None
    batch_size: int = 16
    crop_size: int | None = None  # None: the size in the task's name
    seed: int = 0
    cache: Literal["warm", "cold"] = "warm"
    device: Literal["cpu", "cuda"] = "cpu"
    quick: bool = False


@dataclass(frozen=True)
class Work:
    """The work of one call: every rate is derived from it and from the time."""

    samples: int
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class RunnerSpec:
    """A place to run a variant outside this process: a live child with its own import path and environment.

    `path` is called when the child is needed; it returns the folder to put first on `sys.path` or raises `Unavailable`.
    """

    name: str
    path: Callable[[], Path] | None = None
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Variant:
    """One way to do a task or, if `ceiling` is set, the physical limit that the task's variants are compared with."""

    task: str
    name: str
    build: Callable[[Workload], Call]
    doc: str = ""
    gives_up: str | None = None  # what a shortcut gives up (such as resolution); such a row has no share of the ceiling
    partial: bool = False  # less work than the ceiling, with the same result: no share of the ceiling either
    extra: str | None = None  # the optional dependency group of pipebench that installs its library
    runner: RunnerSpec | None = None
    opencv_threads: int | None = 1  # None: OpenCV's own default
    library: Callable[[], str] | None = None  # the library that does the work, with its version: a note under the table
    ceiling: str | None = None  # the resource, where this is a ceiling
    way: str | None = None  # of several ways to reach the ceiling's resource; the fastest here is the ceiling
    cache: Literal["warm", "cold"] | None = None  # the state of the page cache for which a ceiling is valid; None: both
    unfit: Callable[[Any], str | None] | None = None  # why it is not made for a good input, such as another format

    @property
    def id(self) -> str:
        return f"{self.task}/{self.name}"

    @property
    def stage(self) -> str:
        return self.task.partition("/")[0]

    @property
    def does_all(self) -> bool:
        """Whether the variant does all the work of its task's ceiling, so that a share of the ceiling has a meaning."""
        return not self.gives_up and not self.partial


@dataclass(frozen=True)
class Task:
    """One job within a stage: what it is given, what it must return, and which variant is the reference.

    `groups` lists the keys of a workload's samples; each group is checked as a unit. `inputs` turns keys into the
    arguments of the hot callable (`SampleError` if an input cannot be made). `split` pairs an output with the keys it
    covers, where a group holds several samples; without it, a group has one input and one output. `check` raises
    `SampleError` for an output outside the contract, `agree` for one that differs from the reference's. `lasts` calls
    the hot callable several times and raises `SampleError` if an output changes after it was handed out. `before` runs
    before each reading, outside the timed part, and may return a warning's code.
    """

    id: str
    summary: str
    groups: Callable[[Workload], Sequence[tuple[str, ...]]]
    inputs: Callable[[Workload, Sequence[str]], list[Any]]
    check: Callable[[Any, Any], None]
    agree: Callable[[Any, Any, Variant], None]
    work: Callable[[Any, Any], Work]
    per_call: Callable[[Workload], int]
    split: Callable[[Any, Any], Sequence[tuple[tuple[str, ...], Any]]] | None = None
    lasts: Callable[[Call, Any], None] | None = None
    before: Callable[[Workload, list[Any]], str | None] | None = None
    alive: int = 0  # how many outputs stay alive while the next is made, as in a loader's queue: the oldest goes first
    from_the_start: bool = False  # timed on the first samples: a stream reads all before
    lazy: bool = False  # the hot callable returns an iterator, and draining it is part of the work
    on_device: bool = False  # timed with device events where the workload's device is one
    apart: bool = False  # measured only where it is asked for: it is not of the workload's data
    adapt: Callable[[Workload], Workload] = lambda workload: workload  # e.g. a smaller batch on a CPU

    @property
    def stage(self) -> str:
        return self.id.partition("/")[0]

    def repeatable(self, call: Call) -> Call:
        """The hot callable as it is timed again and again: a lazy output is drained, others are kept as a loader does.

        An iterator is consumed in C, which costs about 0.1 µs. Of other outputs the last `alive` are kept, so that each
        output frees the oldest.
        """
        if self.lazy:
            drain = deque[Any](maxlen=0).extend
            return lambda given: drain(call(given))
        if not self.alive:
            return call
        keep = deque[Any](maxlen=self.alive).append
        return lambda given: keep(call(given))

    def held(self, output: Any) -> Any:
        """The output with all that it holds: what a lazy one iterates is made."""
        return list(output) if self.lazy else output


_tasks: dict[str, Task] = {}


_variants: dict[str, dict[str, Variant]] = {}


_ceilings: dict[str, dict[str, Variant]] = {}


def task(definition: Task) -> Task:
    """Registers a task; the first variant registered for it is its reference."""
    _tasks[definition.id] = definition
    return definition


def variant(*tasks: str, name: str, **facts: Any) -> Callable[[Callable[[Workload], Call]], Callable[[Workload], Call]]:
    """Registers the decorated function as the variant `name` of `tasks`, and returns it unchanged."""
    return _registers(_variants, tasks, name, facts)


def ceiling(
    *tasks: str, resource: str, way: str | None = None, **facts: Any
) -> Callable[[Callable[[Workload], Call]], Callable[[Workload], Call]]:
    """Registers the decorated function as the limit that `resource` sets for `tasks`, timed beside their variants.

    Where a machine can reach the resource in several ways, each `way` is registered; the fastest of them is the limit.
    """
    name = f"{resource}, {way}" if way else resource
    return _registers(_ceilings, tasks, name, {"ceiling": resource, "way": way, **facts})


def _registers(
    registry: dict[str, dict[str, Variant]], tasks: Iterable[str], name: str, facts: dict[str, Any]
) -> Callable[[Callable[[Workload], Call]], Callable[[Workload], Call]]:
    def register(build: Callable[[Workload], Call]) -> Callable[[Workload], Call]:
        doc = (build.__doc__ or "").strip().partition("\n")[0]
        for task_id in tasks:
            registry.setdefault(task_id, {})[name] = Variant(task_id, name, build, doc, **facts)
        return build

    return register
