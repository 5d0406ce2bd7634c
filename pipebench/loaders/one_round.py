"""A fresh process that runs one loader: it prepares its copy of the data, or makes one round of passes.

`python -m pipebench.loaders.one_round JOB ANSWER`: both are paths of JSON files, `Job` and `Answer`.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Literal
from zlib import crc32

import msgspec

from pipebench.errors import install, said_by
from pipebench.host import process_tree
from pipebench.host.whole_files import write_whole
from pipebench.loaders.checking import LOOKED_AT, Looked, Refused, shuffled
from pipebench.loaders.kind import Kind, Passes, Plan, find
from pipebench.results.loaders import Filter, LoaderPass, LoaderRound, Order

Action = Literal["prepare", "run"]
_MEMORY_LOOKS = 3  # in the first pass, which is not timed


@dataclass(frozen=True)
class Job:
    """What the process is to do. `cpus` are those that it and all that it starts may use."""

    action: Action
    kind: str
    filter: Filter
    paths: tuple[str, ...]
    folder: str
    batch_size: int
    cores: int
    cpus: tuple[int, ...]
    seed: int
    side: int
    passes: int
    number: int

    def plan(self) -> Plan:
        return Plan(self.filter, self.paths, Path(self.folder), self.batch_size, self.cores, self.seed, self.side)


@dataclass(frozen=True)
class Answer:
    """What came of it. `digest` stands for the order of the first timed pass."""

    round: LoaderRound | None = None
    library: str = ""
    order: Order | None = None
    digest: int = 0
    missing: str | None = None
    refused: str | None = None


def main(job_file: str, answer_file: str) -> None:
    """Does the job in the first file and writes the answer into the second."""
    job = msgspec.json.decode(Path(job_file).read_bytes(), type=Job)
    process_tree.adopt_orphans()
    os.sched_setaffinity(0, job.cpus)
    try:
        answer = done(job, find(job.kind))
    except Refused as error:
        answer = Answer(refused=str(error))
    write_whole(Path(answer_file), msgspec.json.encode(answer))


def done(job: Job, kind: Kind) -> Answer:
    """The answer to a job. Raises `Refused` for an output that is wrong."""
    missing = lacking(kind)
    if missing is not None:
        return Answer(missing=missing)
    for name in kind.modules:
        importlib.import_module(name)
    library = f"{kind.distribution} {_version(kind.distribution)}" if kind.distribution else ""
    if job.action == "prepare":
        if kind.prepare is not None:
            Path(job.folder).mkdir(parents=True, exist_ok=True)
            kind.prepare(job.paths, Path(job.folder))
        return Answer(library=library)
    return replace(one_round(job, kind), library=library)


def _version(name: str) -> str:
    """The version of a package, or of a module where several packages bring it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return str(importlib.import_module(name).__version__)


def lacking(kind: Kind) -> str | None:
    """Why the kind cannot run here, in one line; None if it can."""
    for name in kind.modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # what a broken installation raises is anything
            return _not_importable(name, kind, error)
    return kind.needs()


def _not_importable(name: str, kind: Kind, error: Exception) -> str:
    package = name.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
        return f"{error.name} is not installed: {install(kind.extra or 'lab')}"
    return f"{package} cannot be imported: {said_by(error)}"


def one_round(job: Job, kind: Kind, now: Callable[[], float] = time.perf_counter) -> Answer:
    """One pass that is checked, then so many that are timed. Between them the whole process tree rests."""
    plan = job.plan()
    began = now()
    with kind.open(plan) as given:
        first = Looked(plan, LOOKED_AT)
        first_batch_s, memory = _checked_pass(given, plan, first, began, now)
        passes, orders = [], []
        for number in range(1, job.passes + 1):
            process_tree.rest()
            found, looked = _timed_pass(given, plan, number, now)
            passes.append(found)
            orders.append(looked.order)
        made = LoaderRound(job.number, tuple(passes), first_batch_s, memory)
    first.pixels()
    order = orders[0] if orders else first.order
    return Answer(made, order=shuffled(order), digest=crc32(repr(order).encode()))


def _checked_pass(
    passes: Passes, plan: Plan, looked: Looked, began: float, now: Callable[[], float]
) -> tuple[float, int | None]:
    """The first pass: seconds until its first batch, and the most memory that was seen."""
    first_batch_s, memory = 0.0, 0
    batches = max(1, len(plan.paths) // plan.batch_size)
    every = max(1, batches // _MEMORY_LOOKS)
    for place, batch in enumerate(passes(0)):
        if place == 0:
            first_batch_s = now() - began
        looked(batch)
        if place % every == every // 2:
            memory = max(memory, process_tree.memory_bytes() or 0)
    looked.end()
    return first_batch_s, memory or None


def _timed_pass(passes: Passes, plan: Plan, number: int, now: Callable[[], float]) -> tuple[LoaderPass, Looked]:
    looked = Looked(plan)
    cpu, began = process_tree.cpu_s(), now()
    for batch in passes(number):
        looked(batch)
    last = now()
    own = time.thread_time()
    rested = process_tree.rest(now=now)
    looks = time.thread_time() - own
    spent = process_tree.cpu_s() - cpu - looks
    looked.end()
    return LoaderPass(len(looked.order), rested - began, spent, max(0.0, rested - last)), looked


if __name__ == "__main__":
    main(*sys.argv[1:])
