"""The server that runs inside one side of an A/B comparison. It forks a fresh process for every round.

The interpreter of each side executes the text of this file. So this file, and not that of an older commit, speaks the
protocol: requests and answers are plain values. The server imports the libraries once and stays single-threaded. Each
round's child places its memory anew, after a random padding: the place of its buffers can change the time of a
memory-bound call by several per cent for the whole life of a process.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gc
import importlib.util
import multiprocessing
import os
import pickle
import random
import signal
import sys
import sysconfig
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any

LARGE, SMALL = 16, 300  # blocks of padding
SETTLING_BYTES = 31 << 20  # see `pipebench.runner`; freed before anything else: only a block of its own settles malloc
WARM_S = 0.3  # no further call to warm up after this: it may take seconds to start a loader's workers
BATCHED = ("transform", "collate", "transfer", "step", "loader")  # a call does a whole batch, whatever keys it gets


def _other_commits() -> Any:
    """The module `other_commits.py` beside this file, whichever pipebench can be imported here."""
    found: Any = importlib.util.spec_from_file_location("pipebench_other_commits", _BESIDE)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


_BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "other_commits.py")
OTHER = _other_commits()


class _Died(Exception):
    """The round's process is gone."""


class Side:
    """Answers requests about one commit, in the server or in a round's child."""

    def __init__(self, own: dict[str, Any] | None) -> None:
        self._own = own
        self._runner: Any = None
        self._padding: list[Any] = []
        self._loaders: Any = None

    def start(self) -> str:
        """Imports everything that the rounds need. Returns the folder of this pipebench. Nothing starts a thread."""
        import pipebench

        if self._own is None:
            stage = OTHER.module("stage")
            with contextlib.suppress(ImportError):
                import torchvision.transforms.v2  # noqa: F401  # imported in the server, once
            stage.tasks()
        else:
            users = OTHER.module("compare.users_loader")
            users.imported(self._own)
            self._loaders = users.loaders_of(self._own) if hasattr(users, "loaders_of") else None
        return os.path.dirname(os.path.abspath(pipebench.__file__))

    def prime(self, identity: str, knobs: dict[str, Any]) -> None:
        """Makes what the inputs are made from, in the server, once for all rounds. The timed code never runs here."""
        import torch

        torch.set_num_threads(1)
        with contextlib.suppress(Exception):  # `arm` comes next and reports the error
            task, _, workload = self._known(identity, knobs)
            task.inputs(workload, _keys(task, workload))

    def begin(self) -> int:
        """Makes a fresh runner, whose memory lies elsewhere than in the last round. Returns the process id."""
        from pipebench.runner import LocalRunner

        rng = random.Random(os.urandom(8))
        self._padding = [bytearray(rng.randrange(1, 1 << 18)) for _ in range(LARGE)]
        self._padding += [bytes(rng.randrange(16, 4096)) for _ in range(SMALL)]
        self._runner = LocalRunner(find=self._find)
        return os.getpid()

    def _find(self, identity: str) -> Any:
        """The task and the variant. The task copies its inputs into this process's own memory."""
        if self._own is None:
            task, variant = OTHER.module("stage").find(identity)
        else:
            task, variant = OTHER.module("compare.users_loader").finder(*self._finds())(identity)

        def inputs(workload: Any, keys: Any) -> list[Any]:
            made = task.inputs(workload, keys)
            self._padding.append(made)  # kept: if it were freed, a result could lie in its place in some rounds only
            copied: list[Any] = copy.deepcopy(made)
            return copied

        return dataclasses.replace(task, inputs=inputs), variant

    def _finds(self) -> list[Any]:
        return [self._own] if self._loaders is None else [self._own, self._loaders]

    def worth_keeping(self, identity: str) -> bool:
        """Whether the benchmark's loader should be made once for all rounds. Tries that out: ask a round's process."""
        if self._loaders is None:
            return False
        wanted = OTHER.module("compare.users_loader").wanted_by(identity)
        return bool(self._loaders.worth_keeping(**wanted))

    def keep(self, identity: str) -> None:
        """Makes the benchmark's loader in the server; each round then takes a copy."""
        self._loaders.keep(**OTHER.module("compare.users_loader").wanted_by(identity))

    def _known(self, identity: str, knobs: dict[str, Any]) -> Any:
        """The task, the variant, and the workload with those settings that this commit knows."""
        task, variant = self._find(identity)
        workload = OTHER.module("task").Workload
        known = {name: value for name, value in knobs.items() if name in workload.__dataclass_fields__}
        return task, variant, task.adapt(workload(**known))

    def arm(self, identity: str, knobs: dict[str, Any], short_s: float) -> dict[str, Any]:
        """Builds the benchmark on as many of its samples as a call does in `short_s`; or returns why it cannot."""
        try:
            task, _, workload = self._known(identity, knobs)
        except Exception as missing:  # a benchmark that this commit does not have yet, or no longer
            return {"skip": f"not in this commit: {_first_line(missing)}"}
        prepared = self._runner.prepare(identity, workload)
        if prepared.skip_code:
            return {"skip": prepared.skip_reason}
        keys = _keys(task, workload)
        while True:
            work = self._runner.arm(identity, workload, keys)
            once = self._fastest(identity, time.monotonic() + WARM_S, least=1)
            if once <= short_s or len(keys) <= 1 or task.stage in BATCHED:
                break
            keys = keys[: max(1, min(len(keys) // 2, int(len(keys) * short_s / once)))]
        return {
            "keys": keys, "once_s": once, "library": prepared.library,
            "work": (work.samples, work.input_bytes, work.output_bytes),
        }  # fmt: skip

    def rearm(self, identity: str, knobs: dict[str, Any], keys: tuple[str, ...]) -> None:
        """Builds the benchmark on exactly these samples and warms it up."""
        _, _, workload = self._known(identity, knobs)
        until = time.monotonic() + WARM_S
        self._runner.prepare(identity, workload)
        self._runner.arm(identity, workload, tuple(keys))
        self._fastest(identity, until)

    def _fastest(self, identity: str, until: float, least: int = 0) -> float:
        """Seconds of the fastest of three calls. No call begins after `until`, except the first `least`."""
        times = [float("inf")]
        while len(times) <= least or (len(times) <= 3 and time.monotonic() < until):
            times.append(self._runner.reading(identity, 1)[0])
        return float(min(times))

    def leave(self) -> None:
        """Ends the worker processes of a loader: they would go on for seconds after their parent is gone."""
        self._padding.clear()
        if self._runner is not None:
            self._runner.release()
        gc.collect()
        for worker in multiprocessing.active_children():
            worker.terminate()
            worker.join(1)

    def modules(self) -> dict[str, str]:
        """Every module that is imported by now, with the file that it came from.

        Left out are modules that were made and not read from a file, such as `torch.ops`, and the standard library.
        """
        library = {os.path.realpath(sysconfig.get_path(name)) + os.sep for name in ("stdlib", "platstdlib")}
        files = {name: getattr(module, "__file__", None) for name, module in list(sys.modules.items())}
        return {
            name: file
            for name, file in files.items()
            if isinstance(file, str) and os.path.isabs(file) and not _of_library(file, library)
        }

    def echo(self, token: int) -> int:
        """Returns `token`, so that the other end knows which answers came before."""
        return token

    def reading(self, identity: str, calls: int) -> float:
        """Seconds for `calls` calls."""
        return float(self._runner.reading(identity, calls)[0])


def _keys(task: Any, workload: Any) -> tuple[str, ...]:
    return tuple(key for group in task.groups(workload) for key in group)[: task.per_call(workload)]


def _of_library(file: str, library: set[str]) -> bool:
    installed = any(part in file.split(os.sep) for part in ("site-packages", "dist-packages"))
    return not installed and os.path.realpath(file).startswith(tuple(library))


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]


def serve(descriptor: int, own: dict[str, Any] | None = None) -> None:
    """Answers requests until the pipe closes. `fork` hands the pipe to a child; `leave` gives it back to the server."""
    bytearray(SETTLING_BYTES)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe, side, is_child = Connection(descriptor), Side(own), False
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            method, arguments = pickle.loads(pipe.recv_bytes())  # from our own parent, never from data
            if method == "leave":
                if is_child:
                    with contextlib.suppress(Exception):  # the user's objects are destroyed here
                        side.leave()
                    os._exit(0)
                continue
            try:
                if method == "fork":
                    if not _forked():
                        continue
                    is_child, method = True, "begin"
                answer = (False, getattr(side, method)(*arguments))
            except Exception as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                answer = (True, f"{_first_line(error)} ({at.filename}:{at.lineno})")
            pipe.send_bytes(pickle.dumps(answer, 4))
    os._exit(0)


def _forked() -> bool:
    """True in the child. In the server: False after the child has left, `_Died` if the child was killed or failed."""
    child = os.fork()
    if child == 0:
        return True
    _, status = os.waitpid(child, 0)
    if status != 0:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
        raise _Died(f"the round's process ended with {how}")
    return False
