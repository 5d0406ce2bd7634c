"""Watches worker processes: at which sample each of them is, and how one failed: it was killed, left or hangs.

Each worker notes its present sample, so that its last sample is known however it ends. A worker that hangs is asked
for its stack before it is ended.
"""

from __future__ import annotations

import contextlib
import faulthandler
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipebench.errors import PipebenchError
from pipebench.host import limits
from pipebench.host.children import how
from pipebench.host.scratch import Scratch
from pipebench.units import printable, seconds

_SLOT = 512  # bytes per worker: batches made, whether it is at a sample, whether it runs, the sample's key
_HEAD = struct.Struct("<q?")
_STATUS_WAIT_S = 2.0  # the wait for a worker's exit status after the signal of its end
_STACK_WAIT_S, _STOPPED_WAIT_S = 5.0, 0.5  # the wait for a stack; the second if the process cannot answer in its state
STARTING_S = 60.0  # the time that workers may take to start, even if the timeout is shorter


class WorkerFailure(PipebenchError):
    """A worker was killed, left or hangs. `sample` is its last sample; `stack` shows where it hangs, if it does."""

    def __init__(self, problem: str, remedy: str, sample: str = "", stack: str = "") -> None:
        super().__init__(problem, remedy + (f"\n{stack}" if stack else ""))
        self.sample, self.stack = sample, stack


class Notebook:
    """A file that all workers map: how many batches each has made, the sample it is at, and whether to end the epoch.

    A note costs about a microsecond. A worker gets the path of the file and maps it itself.
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.oom_kills = limits.oom_kills()  # before anything is loaded
        self._scratch: Scratch | None = Scratch("workers")
        self.folder = str(self._scratch.path)
        self._map: mmap.mmap | None = None
        (self._scratch.path / "notes").write_bytes(b"\0" * _SLOT * (workers + 1))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None, "_scratch": None}

    @property
    def _notes(self) -> mmap.mmap:
        if self._map is None:
            with open(Path(self.folder) / "notes", "r+b") as file:
                self._map = mmap.mmap(file.fileno(), 0)
        return self._map

    def _slot(self) -> int:
        from torch.utils.data import get_worker_info

        worker = get_worker_info()
        return _SLOT * (worker.id + 1 if worker else 0)

    def start(self) -> None:
        """Notes, in a worker, that it runs."""
        self._notes[self._slot() + 9] = 1

    @property
    def started(self) -> bool:
        """Whether all workers run. Under spawn, this takes seconds."""
        return all(self._notes[_SLOT * (one + 1) + 9] for one in range(self.workers))

    def begin(self, key: str) -> None:
        """Notes, in a worker, which sample it is at from now on."""
        at, name = self._slot(), key.encode("utf-8", "replace")[: _SLOT - 32]
        self._notes[at + 8] = 1
        self._notes[at + 16 : at + 20] = len(name).to_bytes(4, "little")
        self._notes[at + 20 : at + 20 + len(name)] = name

    def made(self) -> None:
        """Notes, in a worker, that a batch is complete."""
        at = self._slot()
        count, _ = _HEAD.unpack_from(self._notes, at)
        _HEAD.pack_into(self._notes, at, count + 1, False)

    def batches(self, worker: int) -> int:
        """How many batches a worker has made."""
        return int(_HEAD.unpack_from(self._notes, _SLOT * (worker + 1))[0])

    @property
    def busy(self) -> list[int]:
        """The workers that are at a sample."""
        return [one for one in range(self.workers) if _HEAD.unpack_from(self._notes, _SLOT * (one + 1))[1]]

    def last_sample(self, worker: int) -> str:
        """The key of the last sample that a worker was at; empty if there was none."""
        at = _SLOT * (worker + 1)
        length = int.from_bytes(self._notes[at + 16 : at + 20], "little")
        return printable(self._notes[at + 20 : at + 20 + length])

    def finish(self, ended: bool = True) -> None:
        """Tells every stream to end its epoch; with `ended` False, takes this back."""
        self._notes[_SLOT - 1] = ended

    @property
    def finished(self) -> bool:
        return bool(self._notes[_SLOT - 1])

    def stack(self, worker: int) -> Path:
        return Path(self.folder) / f"stack-{worker}"

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.remove()


@dataclass(frozen=True)
class WorkerStart:
    """The `worker_init_fn`. With it, SIGUSR1 makes a worker write the stacks of all its threads.

    It runs after torch's own set-up of a worker and changes nothing in it.
    """

    notebook: Notebook

    def __call__(self, worker: int) -> None:
        file = self.notebook.stack(worker).open("w")
        faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
        _kept.append(file)
        self.notebook.start()


_kept: list[Any] = []  # keeps the files open: faulthandler holds only their descriptors


class Watchdog:
    """A thread that ends the workers if a batch takes too long. `failure` then says what they were doing.

    torch's own timeout does not cover a worker that is stopped, or that holds the interpreter in a library, while its
    tensors are being received. After the workers have ended, everything that waits for them raises an error.
    """

    def __init__(self, notebook: Notebook, timeout_s: float) -> None:
        self._notebook, self._timeout_s = notebook, timeout_s
        self._since: float | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: WorkerFailure | None = None

    def begin(self, workers: Callable[[], Sequence[Any]]) -> None:
        if self._notebook.workers and self._thread is None:
            thread = threading.Thread(target=self._watch, args=(workers,), name="pipebench-watchdog", daemon=True)
            thread.start()  # torch may raise here that a worker was killed
            self._thread = thread

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """A context for everything that waits for the workers: the thread measures how long it lasts."""
        self._since = time.monotonic()
        try:
            yield
        finally:
            self._since = None

    def _watch(self, workers: Callable[[], Sequence[Any]]) -> None:
        while not self._ended.wait(min(0.25, self._timeout_s / 4)):
            since, limit = self._since, self._timeout_s
            if not self._notebook.started:
                limit = max(limit, STARTING_S)
            if since is not None and (time.monotonic() - since > limit or self._gone(list(workers()))):
                self._end(list(workers()), limit)
                return

    def _gone(self, workers: Sequence[Any]) -> bool:
        """Whether a worker has left in the middle of a sample. torch notices an exit status of 0 late or never."""
        return any(one < len(workers) and _status(workers[one]) for one in self._notebook.busy)

    def _end(self, workers: Sequence[Any], waited_s: float) -> None:
        dead = [one for one in enumerate(workers) if _status(one[1])]
        self.failure = _died(*dead[0], self._notebook) if dead else _hangs(workers, self._notebook, waited_s)
        for worker in workers:
            with contextlib.suppress(OSError, ValueError):
                worker.kill()

    def end(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()


def explain_death(workers: Sequence[Any], notebook: Notebook) -> WorkerFailure | None:
    """How a worker ended, after ending the others too; None if all of them still run."""
    deadline = time.monotonic() + _STATUS_WAIT_S
    while not (dead := [one for one in enumerate(workers) if _status(one[1])]):
        if time.monotonic() > deadline:
            return None
        time.sleep(0.01)
    for worker in workers:
        worker.kill()
    return _died(*dead[0], notebook)


def _status(worker: Any) -> str | None:
    """How a process ended; None if it still runs."""
    code = worker.exitcode
    return None if code is None else how(code)


_CAUSES = {
    -signal.SIGBUS: "shared memory was full: enlarge /dev/shm, or use fewer workers or a smaller batch",
    -signal.SIGSEGV: "a library crashed: try that sample alone",
}


def _killed(before: int | None, now: int | None) -> str:
    """The cause of SIGKILL, from the kernel's own count of processes that it killed because memory ran out."""
    if before is None or now is None:
        return "the kernel does so when memory runs out: see dmesg, and use fewer workers or a smaller batch"
    if now > before:
        return "memory ran out, as the kernel counted: use fewer workers or a smaller batch, or raise the limit"
    return "the kernel counted no lack of memory, so a process killed it: see what limits or ends processes here"


def _died(number: int, worker: Any, notebook: Notebook) -> WorkerFailure:
    sample = notebook.last_sample(number)
    at = f" at sample {sample}" if sample else ""
    cause = _CAUSES.get(worker.exitcode, "try that sample alone, with --workers 0")
    cause = _killed(notebook.oom_kills, limits.oom_kills()) if worker.exitcode == -signal.SIGKILL else cause
    return WorkerFailure(f"worker {number} {_status(worker)}{at}", cause, sample)


def _hangs(workers: Sequence[Any], notebook: Notebook, waited_s: float) -> WorkerFailure:
    busy = [one for one in notebook.busy if one < len(workers)]
    number = min(busy or range(len(workers)), key=notebook.batches)
    stack = _asked(workers[number].pid, notebook.stack(number))
    sample = notebook.last_sample(number)
    return WorkerFailure(
        f"worker {number} has made no batch for {seconds(waited_s)}"
        + (f"; it is at sample {sample}" if sample else ""),
        "raise --timeout if it only needs longer; "
        + ("this is where it is:" if stack else f"it did not answer ({_state_of(workers[number].pid)})"),
        sample,
        stack,
    )


def _asked(pid: int, written: Path) -> str:
    """The stack of a worker, which a signal asks it for; empty if it does not answer."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGUSR1)
    begin = time.monotonic()
    while not (stack := _stack(written)):
        waited_s = time.monotonic() - begin
        if waited_s > (_STOPPED_WAIT_S if _letter(pid) in "TDZ" else _STACK_WAIT_S):
            return ""
        time.sleep(0.02)
    time.sleep(0.1)  # until the rest of it is written
    return _stack(written) or stack


def _letter(pid: int) -> str:
    """The system's letter for the state of a process; `?` if it gives none."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0].decode()
    return "?"


def _state_of(pid: int) -> str:
    """The state of a process that does not answer, in words."""
    states = {"T": "it is stopped", "D": "it waits in the kernel, often for storage", "R": "it runs"}
    letter = _letter(pid)
    return states.get(letter, "its state is unknown" if letter == "?" else f"state {letter}")


def _stack(path: Path, most: int = 16) -> str:
    """What faulthandler wrote about the main thread, innermost call first, each line as inert text."""
    with contextlib.suppress(OSError):
        lines = path.read_bytes().decode("utf-8", "replace").partition("Current thread")[2].splitlines()[1:]
        return "\n".join("  " + printable(line.strip()) for line in lines[:most])
    return ""
