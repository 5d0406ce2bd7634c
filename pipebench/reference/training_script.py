"""The reference loop as a training script. `pipebench run` starts it under `watch --bound`.

    python -m pipebench.reference.training_script JOB        JOB is a TrainingJob as JSON

A short first epoch shows the cost of the first start of an epoch; the boundary to the second epoch shows the cost of a
later one. The second epoch does not end by itself: the measurement of the bound ends the process. So the script writes
what only it knows to a file as soon as it knows it.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from pipebench.errors import BadSample, PipebenchError, UsageError
from pipebench.host.interrupts import interruptible
from pipebench.host.named import named
from pipebench.reference.dataloader import Live, reference
from pipebench.reference.training_loop import CPU_SIDE, Consumer, Given, Model, Simulated, one_thread, train
from pipebench.results.loading import Loading
from pipebench.task import Workload

INTERRUPTED = 130
GETS = "with a batch: a pair of images and labels"
_UNSCHEDULED = 16  # iterations besides those of the schedule: more than there are before the schedule begins


@dataclass(frozen=True)
class TrainingJob:
    """What to train: on which data, by which loader, for how many iterations, and where to write a `ScriptNote`.

    With `simulated_s`, the consumer is a simulated device that takes so many seconds for a batch. With `step`, it is
    the callable that `module:function` names. With 0 steps, the consumer only gets one batch, loaded without workers.
    """

    workload: Workload
    loading: Loading
    steps: int
    note: str
    simulated_s: float | None = None
    step: str | None = None


@dataclass(frozen=True)
class ScriptNote:
    """What the script reports: its consumer, the bad samples that it met, and what went wrong."""

    consumer: str = ""
    bad: tuple[BadSample, ...] = ()
    problem: str = ""
    remedy: str = ""
    usage: bool = False  # whether what went wrong is the command line


def run(job: TrainingJob) -> None:
    """Trains. Raises what the loader raises: `WorkerFailure` if a worker was killed, left or hangs.

    Torch has one thread, except for a step of the user's, which uses as many as it does in the user's own script.
    """
    consumer = consumer_of(job)
    with nullcontext() if job.step else one_thread(), reference(job.workload, job.loading) as live:
        if not job.steps:
            train(iter([live.start()]), consumer, 1)
            return
        live.start()
        live.boundary()
        train(_noted(live, consumer, Path(job.note)), consumer, job.steps + _UNSCHEDULED)


def consumer_of(job: TrainingJob) -> Consumer:
    """What the job trains: a simulated device, the user's step, or a model of our own."""
    if job.simulated_s:
        return Simulated(job.simulated_s)
    if job.step:
        return Given(job.step, named(job.step, GETS))
    if job.workload.device == "cpu":
        return Model(job.workload, "step/small", CPU_SIDE)
    return Model(job.workload, "step/resnet18")


def _noted(live: Live, consumer: Consumer, path: Path) -> Iterator[Any]:
    """The live batches. Writes a note at the first batch, and again whenever there is a new bad sample."""
    known = -1
    for batch in live:
        if len(live.bad) != known:
            known = len(live.bad)
            _write(path, ScriptNote(consumer.label, tuple(live.bad.values())))
        yield batch


def _write(path: Path, note: ScriptNote) -> None:
    path.write_bytes(msgspec.json.encode(note))


def read_note(path: Path) -> ScriptNote:
    """The note that the script has written; an empty one if it has not written one yet."""
    return msgspec.json.decode(path.read_bytes(), type=ScriptNote) if path.exists() else ScriptNote()


def main() -> int:
    job = msgspec.json.decode(sys.argv[1], type=TrainingJob)
    path = Path(job.note)
    os.dup2(2, 1)  # what a step of the user's prints is no part of the report on standard output
    try:
        with interruptible():
            run(job)
    except KeyboardInterrupt:
        return INTERRUPTED
    except PipebenchError as error:
        usage = isinstance(error, UsageError)
        _write(path, replace(read_note(path), problem=error.problem, remedy=error.remedy, usage=usage))
        return 1
    return 0


if __name__ == "__main__":
    if (status := main()) == INTERRUPTED:
        atexit._run_exitfuncs()
        os._exit(INTERRUPTED)  # at once: to take torch apart takes as long as all the rest of the end
    sys.exit(status)
