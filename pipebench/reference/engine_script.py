"""The reference loop under an engine, as a process of its own: `pipebench run --engine ray` starts it.

    python -m pipebench.reference.engine_script JOB        JOB is the path of an EngineJob as JSON

It writes an `EngineNote` after every round, and on the pipe a `Beat` whenever something goes on. Where nobody reads the
pipe any more, it ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipebench.errors import BadSample, PipebenchError, UsageError
from pipebench.host import process_tree
from pipebench.host.interrupts import INTERRUPTED, interruptible
from pipebench.host.limits import check_resources, sockets_in
from pipebench.host.whole_files import write_whole
from pipebench.reference.dataloader import reference
from pipebench.reference.engine_rounds import Plan, Rounds
from pipebench.reference.pipeline import FLOATS, good, sample_bytes
from pipebench.reference.ray_cluster import connected
from pipebench.reference.ray_work import Work
from pipebench.reference.training_loop import one_thread
from pipebench.reference.training_script import TrainingJob, consumer_of
from pipebench.results.engine import EngineRun

_IMPORTS_S = 120.0
_CONNECTS_S = {True: 90.0, False: 20.0}  # a cluster of our own; one that is there
_BEAT_S = 1.0


@dataclass(frozen=True)
class EngineJob:
    """What to measure: the training (its `steps` is not used), in which rounds, and with which Ray.

    `address` is None for a cluster of our own, which writes below `folder`. `pipe` is the descriptor for beats.
    """

    training: TrainingJob
    rounds: int
    batches: int
    folder: str
    pipe: int
    address: str | None = None
    data: str = ""


@dataclass(frozen=True)
class Beat:
    """What goes on, and after how many seconds without another beat this process counts as hung."""

    done: int = 0
    total: int = 0
    what: str = ""
    within_s: float = 0.0


@dataclass(frozen=True)
class EngineNote:
    """What was found so far, the bad samples, and what went wrong."""

    found: EngineRun | None = None
    bad: tuple[BadSample, ...] = ()
    problem: str = ""
    remedy: str = ""
    usage: bool = False


class _Beats:
    """Writes beats. Within a second, only those that say something new."""

    def __init__(self, pipe: int) -> None:
        os.set_inheritable(pipe, False)
        self._pipe, self._last, self._at = pipe, Beat(), 0.0

    def tell(self, beat: Beat) -> None:
        self._last, self._at = beat, time.monotonic()
        os.write(self._pipe, msgspec.json.encode(beat) + b"\n")

    def goes_on(self) -> None:
        if time.monotonic() - self._at >= _BEAT_S:
            self.tell(self._last)


def run(job: EngineJob, beats: _Beats) -> None:
    """Measures. The workers of the DataLoader are forked before Ray starts its threads, with which no fork is safe."""
    training, timeout_s = job.training, job.training.loading.timeout_s
    workload, loading = training.workload, training.loading
    beats.tell(Beat(what="importing torch and Ray", within_s=_IMPORTS_S + timeout_s))
    keys = [one.key for one in good(workload)]
    batch_bytes = sample_bytes(workload, FLOATS) * workload.batch_size
    check_resources(loading.workers, loading.prefetch_factor, batch_bytes)
    with nullcontext() if training.step else one_thread(), reference(workload, loading) as live:
        live.start()
        consumer = consumer_of(training)
        begin = time.perf_counter()
        local = job.address is None
        beats.tell(Beat(what="starting Ray" if local else "connecting to Ray", within_s=_CONNECTS_S[local]))
        with connected(job.address, max(1, loading.workers), batch_bytes, Path(job.folder)) as cluster:
            blank = EngineRun(
                cluster.library, job.data or workload.data, consumer.label, workload.batch_size, loading.workers,
                cluster.cores, local, cluster.look(), (), init_s=time.perf_counter() - begin,
            )  # fmt: skip
            rounds = Rounds(
                cluster, live, consumer, Work(workload, FLOATS, len(keys), workload.seed), blank, keys,
                process_tree.cpu_s if local else None,
                tell=lambda done, total, what, patience: beats.tell(Beat(done, total, what, patience * timeout_s)),
                on_batch=lambda number: beats.goes_on(),
            )  # fmt: skip
            note = Path(training.note)
            rounds.run(
                Plan(job.rounds, job.batches),
                lambda found: _write(note, EngineNote(found, tuple((rounds.bad | live.bad).values()))),
            )
            beats.tell(Beat(job.rounds, job.rounds, "ending Ray", 60.0))


def _write(path: Path, note: EngineNote) -> None:
    write_whole(path, msgspec.json.encode(note))


def read_note(path: Path) -> EngineNote:
    """What the script has written; an empty note if it has written nothing yet."""
    return msgspec.json.decode(path.read_bytes(), type=EngineNote) if path.exists() else EngineNote()


def main() -> int:
    job = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=EngineJob)
    path = Path(job.training.note)
    process_tree.adopt_orphans()
    sockets_in(job.folder)
    try:
        with interruptible():
            run(job, _Beats(job.pipe))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the command was killed, and nobody else removes what Ray wrote until it ended
        shutil.rmtree(job.folder, ignore_errors=True)
        return 1
    except PipebenchError as error:
        so_far = read_note(path)
        with contextlib.suppress(PipebenchError):
            _write(
                path,
                EngineNote(so_far.found, so_far.bad, error.problem, error.remedy, isinstance(error, UsageError)),
            )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
