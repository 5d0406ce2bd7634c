"""Conducts the reference loop under an engine: in a process of its own, which is ended with all that it started."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from pipebench.data import datasets
from pipebench.errors import BadSample, PipebenchError, UsageError
from pipebench.host.children import how, kill_all_with
from pipebench.host.scratch import Scratch
from pipebench.reference.engine_script import Beat, EngineJob, EngineNote, read_note
from pipebench.reference.training_script import INTERRUPTED, TrainingJob
from pipebench.reference.watched_training import WINDOWS, Length, Progress
from pipebench.results.engine import EngineRun
from pipebench.results.loading import Loading
from pipebench.task import Workload
from pipebench.units import printable

_TAG = "PIPEBENCH_ENGINE"
_ENDS_WITHIN_S = 15.0  # after an interrupt: Ray takes a second or two
_FIRST_S = 120.0  # until the first beat


def measure_engine(
    workload: Workload,
    loading: Loading,
    length: Length = "usual",
    *,
    address: str | None = None,
    steps: int | None = None,
    simulated_s: float | None = None,
    step: str | None = None,
    progress: Progress = lambda done, total, what: None,
    keep: Callable[[EngineRun, tuple[BadSample, ...]], None] = lambda found, bad: None,
) -> EngineRun:
    """Measures the reference loop fed by Ray Data, by a DataLoader with `loading`, and by batches that are ready.

    `address` is that of a cluster; None starts one of `loading.workers` cores here, and ends it. `steps` is the number
    of timed iterations of each source. `keep` gets what was found, also if the process ended early; then raises
    `PipebenchError` with the reason, or KeyboardInterrupt if it was interrupted.
    """
    rounds, batches = WINDOWS[length]
    if steps is not None:
        rounds, batches = min(rounds, steps), max(1, steps // min(rounds, steps))
    on_device = workload.device != "cpu" and not simulated_s
    loading = replace(loading, pin_memory=loading.pin_memory or on_device)
    shown = printable(workload.data)
    with Scratch("ray") as folder:
        training = TrainingJob(_absolute(workload), loading, 0, str(folder / "note"), simulated_s, step)
        job = EngineJob(training, rounds, batches, str(folder), -1, address, shown)
        note, status, said = _run(job, folder, progress)
    if note.found is not None and note.found.arms:
        keep(note.found, note.bad)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if note.problem:
        raise (UsageError if note.usage else PipebenchError)(note.problem, note.remedy)
    if status or note.found is None:
        raise PipebenchError(
            f"the process with Ray {how(status)}: {printable(said)[:300]}", "run it again with fewer --workers"
        )
    return note.found


def _absolute(workload: Workload) -> Workload:
    """The workload whose data has the same name in every folder: Ray's workers are in another one."""
    if datasets.is_embedded(workload.data):
        return workload
    return replace(workload, data=os.path.abspath(os.path.expanduser(workload.data)))


def _run(job: EngineJob, folder: Path, progress: Progress) -> tuple[EngineNote, int, str]:
    """The note of the process, its exit status, and the last line that it said. Nothing of it is left."""
    reading, writing = os.pipe()
    place = folder / "job.json"
    place.write_bytes(msgspec.json.encode(replace(job, pipe=writing)))
    tag = secrets.token_hex(8)
    command = [sys.executable, "-m", "pipebench.reference.engine_script", str(place)]
    try:
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={_TAG: tag, **_environment()},
                start_new_session=True, pass_fds=(writing,),
            )  # fmt: skip
        os.close(writing)
        hung = _followed(process, reading, tag, progress)
    finally:
        os.close(reading)
    note = read_note(Path(job.training.note))
    if hung and not note.problem:
        note = replace(note, problem=hung, remedy=_of_hung(job))
    lines = (folder / "log").read_text(errors="replace").split("\n")
    said = next((one.strip() for one in reversed(lines) if one.strip()), "it said nothing")
    return note, INTERRUPTED if hung is None else process.returncode, said


def _environment() -> dict[str, str]:
    """This environment without a cluster's address, which Ray would take in place of the one that was asked for."""
    return {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}


def _of_hung(job: EngineJob) -> str:
    if job.address is not None:
        return (
            "is that the port of the head's GCS (6379), and is this machine a node of the cluster? `ray status` tells"
        )
    return "run it again with fewer --workers, or a longer --timeout"


def _followed(process: subprocess.Popen[bytes], pipe: int, tag: str, progress: Progress) -> str | None:
    """Passes beats on until the process has ended. Says what it hung at, if it did; then it was killed.

    An interrupt is passed on, and what is still there after a while is killed. The answer is then None.
    """
    ended = False
    try:
        found = _heard(pipe, progress)
        ended = not found
        return found
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        ended = True
        return None
    finally:
        if ended:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_ENDS_WITHIN_S)
        kill_all_with(_TAG, tag)
        process.wait()


def _heard(pipe: int, progress: Progress) -> str:
    """Reads beats until the pipe is closed. Says what went on when there was none for too long; "" if none was late."""
    last, left = Beat(what="importing torch", within_s=_FIRST_S), b""
    until = time.monotonic() + last.within_s
    while True:
        if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            return f"nothing happened for {last.within_s:.0f} s: {last.what}"
        got = os.read(pipe, 1 << 16)
        if not got:
            return ""
        *lines, left = (left + got).split(b"\n")
        for line in lines:
            last = msgspec.json.decode(line, type=Beat)
            progress(last.done, last.total, last.what)
        until = time.monotonic() + last.within_s
