"""Runs the reference loop under `watch --bound`, in a process of its own: live training beside replayed batches."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec

from pipebench.errors import BadSample, PipebenchError, UsageError
from pipebench.host import machine
from pipebench.host.gaps import GAP
from pipebench.host.limits import check_resources
from pipebench.host.scratch import Scratch
from pipebench.reference import training_script
from pipebench.reference.dataloader import reference
from pipebench.reference.loader_table import said_against
from pipebench.reference.training_script import INTERRUPTED, ScriptNote, TrainingJob, read_note
from pipebench.render.watch_notes import sentence
from pipebench.results.loading import Loading
from pipebench.results.measurement import Warning
from pipebench.results.training import Training
from pipebench.task import Workload
from pipebench.units import counted, printable
from pipebench.watch.bound.schedule import BEGIN, BUSY, DEVICE, IDLE, Schedule
from pipebench.watch.command import observe
from pipebench.watch.record.options import WatchOptions

Progress = Callable[[int, int, str], None]
Length = Literal["quick", "usual", "rigorous"]
WINDOWS: dict[Length, tuple[int, int]] = {"quick": (6, 4), "usual": (8, 12), "rigorous": (16, 48)}  # rounds, batches
STOPPED = Warning(GAP, "the training script was stopped meanwhile (SIGSTOP or Ctrl-Z)", "let it run until the end")
TURNS = 2  # how many turns of all workers a window has at least, because their batches come in bursts


def steps_of(length: Length, workers: int, on_device: bool) -> int:
    """How many iterations training needs: enough rounds for an interval of 95 %, each window of whole worker turns."""
    rounds, batches = WINDOWS[length]
    turn = max(1, workers)
    window = turn * max(TURNS, math.ceil(batches / turn))
    replays = (IDLE, *([BUSY] if workers else []), *([DEVICE] if on_device else []))
    return Schedule(BEGIN, rounds, window, turn, replays).end


def check_asked(workload: Workload, loading: Loading, step: str | None = None) -> None:
    """Raises `PipebenchError`, before anything is measured, if what was asked for cannot be had.

    That is shards to stream, or a step of the user's: it gets one batch, in a process of its own.
    """
    if loading.stream:
        reference(workload, loading).close()
    if step is not None:
        _tried(step, workload, replace(loading, workers=0, stream=False))


def _tried(step: str, workload: Workload, loading: Loading) -> None:
    with Scratch("training") as folder:
        job = TrainingJob(workload, loading, 0, str(folder / "note"), step=step)
        command = [sys.executable, "-m", training_script.__name__, msgspec.json.encode(job).decode()]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", check=False)
        note = read_note(Path(job.note))
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode:
        last = (done.stdout.strip().splitlines() or [""])[-1]
        raise _ended_early(done.returncode, note, [last] if last else [])


def measure_training(
    workload: Workload,
    loading: Loading,
    length: Length = "usual",
    *,
    steps: int | None = None,
    simulated_s: float | None = None,
    step: str | None = None,
    progress: Progress = lambda done, total, what: None,
    keep: Callable[[Training, tuple[BadSample, ...]], None] = lambda training, bad: None,
) -> Training:
    """Measures live training on the workload's device (or a simulated one), beside its bounds.

    `step` is the `module:function` that the user gave as the consumer. Else it is a model of our own.

    `keep` gets what was found, also if the script ended early. In that case, raises `PipebenchError` with the reason (a
    worker that was killed, left or hangs, with its last sample), or KeyboardInterrupt if the script was interrupted.
    """
    from pipebench.reference.pipeline import FLOATS, sample_bytes

    on_device = workload.device != "cpu" and not simulated_s
    loading = replace(loading, pin_memory=loading.pin_memory or on_device)
    check_resources(loading.workers, loading.prefetch_factor, sample_bytes(workload, FLOATS) * workload.batch_size)
    steps = steps or steps_of(length, loading.workers, on_device)
    progress(0, 0, f"training: live against bound, {counted(loading.workers, 'worker')}, {steps} iterations")
    with Scratch("training") as folder:
        job = TrainingJob(workload, loading, steps, str(folder / "note"), simulated_s, step)
        found, note, status, faults = _watched(job)
    if found.bound.live is not None or not status:
        keep(found, note.bad)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status:
        raise _ended_early(status, note, [*map(sentence, found.bound.notes), *faults])
    return found


def _watched(job: TrainingJob) -> tuple[Training, ScriptNote, int, list[str]]:
    """What watching found, the script's note, its exit status, and the faults that `watch` reports."""
    faults: list[str] = []
    before = machine.read_load_of_tree()
    options = WatchOptions(bound=True, steps=job.steps, module=True, impatient=True)
    status, watched = observe(options, [training_script.__name__, msgspec.json.encode(job).decode()], faults.append)
    load, note = machine.read_load_of_tree() - before, read_note(Path(job.note))
    if watched is None:
        raise PipebenchError(f"training was not watched: {' '.join(faults) or 'no records'}", "run it again")
    found = Training(
        consumer=note.consumer,
        simulated=job.simulated_s is not None,
        given=job.step is not None,
        batch_size=job.workload.batch_size,
        loading=job.loading,
        watched=watched,
        samples_failed=len(note.bad),
    )
    if live := found.bound.live:
        costs = [spent / samples for spent, samples in zip(live.readings_s, live.samples, strict=True)]
        found = replace(found, warnings=said_against(costs, load.wall_s, load))
    if any(one.code == "stopped" for one in watched.notes):
        found = replace(found, warnings=(*found.warnings, STOPPED))
    return found, note, status, faults


def _ended_early(status: int, note: ScriptNote, said: list[str]) -> PipebenchError:
    if note.problem:
        return (UsageError if note.usage else PipebenchError)(note.problem, note.remedy)
    why = f": {printable(said[0])}" if said else ""
    return PipebenchError(f"the training script ended with status {status}{why}", "run it again with fewer --workers")
