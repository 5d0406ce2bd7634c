"""Places whose process can be replaced, so that readings come from many processes and not from one.

Where a process lies in memory changes its speed for its whole life, by more than 10 % for some decoders. To import the
libraries in each new process would take seconds. So a live server imports them once and forks a fresh process whenever
it is asked to. A fork has the server's libraries and their places; its own buffers lie elsewhere each time, after a
random padding, and so do its inputs, which it copies.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import os
import pickle
import random
import signal
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Any

from pipebench import stage
from pipebench.errors import said_by
from pipebench.host.children import how
from pipebench.host.gaps import Gaps
from pipebench.host.heap import give_back, settle
from pipebench.runner import ChildRunner, LocalRunner, RunnerDied, Runners
from pipebench.task import RunnerSpec, Task, Variant, Workload
from pipebench.units import printable

LARGE, SMALL = 16, 300  # blocks of padding
HERE = "measuring"  # the place of the variants that have none of their own
# A server with threads of its own could not fork safely. Of what libraries warn, the process that tries them tells.
# pyarrow has a thread of its allocator, unless it is told to have none.
_SERVER = (
    ("OMP_NUM_THREADS", "1"),
    ("PYTHONWARNINGS", "ignore"),
    ("JE_ARROW_MALLOC_CONF", "background_thread:false"),
)
PR_SET_PDEATHSIG = 1  # see prctl(2)


class ProcessLost(RunnerDied):
    """The process died while it worked on a request. `renew` makes another one."""


class FreshRunner(ChildRunner):
    """A place with a live server that forks the process in which the variants run. `renew` replaces that process."""

    _serving = "pipebench.lab.fresh"

    def __init__(self, spec: RunnerSpec) -> None:
        self._forked = self._warming = False
        super().__init__(replace(spec, environment=(*_SERVER, *spec.environment)))

    def warm(self, identities: Sequence[str], workload: Workload) -> None:
        """Lets the server make ready what these variants need, while this process goes on."""
        self._send("warm", tuple(identities), workload)
        self._warming = True

    def ready(self, wait: bool) -> bool:
        """Whether the server has made ready what it was told to. Until then it would disturb readings."""
        if self._warming:
            self._warming = not self._pipe.poll(None if wait else 0.0)  # a server that is gone has an end to read
        return not self._warming

    def renew(self, task_id: str, workload: Workload, keys: tuple[str, ...]) -> bool:
        """Ends the process, if there is one, and forks another, which copies the task's inputs that the server has."""
        self._to_the_server()
        super()._ask("prime", task_id, workload, keys)
        self._fork()
        return True

    def close(self) -> None:
        if not self._forked:
            self._process.kill()  # it may be in the middle of its imports
        self._forked = False
        super().close()

    def _to_the_server(self) -> None:
        """Ends the forked process, and drops the answers that nobody waits for. Starts a server if there is none."""
        self._forked = self._warming = False
        if self._process.poll() is not None:
            self._pipe.close()
            self._start()
        try:
            self._leave_fork()
        except (EOFError, OSError) as gone:
            raise ProcessLost(f"the server of the {self.name} process ended") from gone

    def _fork(self) -> None:
        self.pid = super()._ask("fork")
        self._forked = True

    def _ask(self, method: str, *arguments: Any) -> Any:
        if not self._forked:
            self._to_the_server()
            self._fork()
        return super()._ask(method, *arguments)

    def _receive(self) -> Any:
        try:
            answer = super()._receive()
        except RunnerDied as error:
            raise ProcessLost(str(error)) from error
        if isinstance(answer, _Ended):
            self._forked = False
            raise ProcessLost(f"the {self.name} process {answer.how}")
        return answer


def fresh_runners(variants: Sequence[Variant]) -> tuple[Runners, Runners]:
    """The places to try the variants, and those to time them, whose processes can be replaced.

    To try is the work of this process and, for variants with a place of their own, of a forked one. The servers of all
    places import torch at once.
    """
    trying = Runners(child=FreshRunner)
    timing = Runners(FreshRunner(RunnerSpec(HERE)), child=FreshRunner, beside=trying)
    trying.start(variants)
    return trying, timing


def warm(timing: Runners, variants: Sequence[Variant], workload: Workload) -> None:
    """Lets each server make ready what its variants need, while this process goes on."""
    for place in timing:
        if isinstance(place, FreshRunner):
            its = [one.id for one in variants if (one.runner.name if one.runner else HERE) == place.name]
            place.warm(its, workload)


class _Ended:
    """The server's answer to a request that its forked process did not live to answer."""

    def __init__(self, how: str) -> None:
        self.how = how


class _Served:
    """What the server answers, and what the forked process answers with its `runner`."""

    def __init__(self) -> None:
        self.runner: LocalRunner | None = None
        self._padding: list[Any] = []

    def warm(self, identities: tuple[str, ...], workload: Workload) -> None:
        """Imports what these variants need, and makes what their inputs are made from: no fork has to do it again.

        What uses a device is left to the forks.
        """
        runner = LocalRunner()
        tasks: dict[str, Task] = {}
        for identity in identities:
            with contextlib.suppress(Exception):  # said again, and kept, where the variant is prepared
                task, _ = stage.find(identity)
                if not task.on_device:
                    tasks[task.id] = task
                    runner.prepare(identity, workload)
        for task in tasks.values():
            with contextlib.suppress(Exception):
                adapted = task.adapt(workload)
                self.prime(task.id, adapted, task.groups(adapted)[0])

    def prime(self, task_id: str, workload: Workload, keys: tuple[str, ...]) -> None:
        """Makes what the inputs are made from, once for all forks. The timed code never runs here."""
        task = next((one for one in stage.tasks() if one.id == task_id), None)
        if task is not None and not (task.on_device and workload.device == "cuda"):
            with contextlib.suppress(Exception):  # `arm` comes next and reports the error
                task.inputs(workload, keys)

    def echo(self, token: int) -> int:
        """Returns `token`, so that the other end knows which answers came before."""
        return token

    def begin(self) -> int:
        """Makes a runner in the forked process, whose memory lies elsewhere than in the last one. Returns its id."""
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        give_back()
        rng = random.Random(os.urandom(8))
        self._padding = [bytearray(rng.randrange(1, 1 << 18)) for _ in range(LARGE)]
        self._padding += [bytes(rng.randrange(16, 4096)) for _ in range(SMALL)]
        self.runner = LocalRunner(find=self._find, gaps=Gaps().__enter__())
        return os.getpid()

    def _find(self, identity: str) -> tuple[Task, Variant]:
        """The task and the variant. The task copies its inputs into this process's own memory."""
        task, variant = stage.find(identity)

        def inputs(workload: Workload, keys: Sequence[str]) -> list[Any]:
            made = task.inputs(workload, keys)
            if task.on_device and workload.device == "cuda":
                return made
            self._padding.append(made)  # kept: if it were freed, a result could lie in its place in some processes
            return copy.deepcopy(made)

        return replace(task, inputs=inputs), variant


def serve(descriptor: int) -> None:
    """Answers requests until the pipe closes. `fork` hands the pipe to a child; `leave` gives it back to the server."""
    import torch

    torch.set_num_threads(1)
    settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe, served = Connection(descriptor), _Served()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            method, arguments = pickle.loads(pipe.recv_bytes())  # from our own parent, never from data
            if method == "leave":
                if served.runner is not None:
                    os._exit(0)
                continue
            answer = _answer(served, method, arguments)
            if answer is not None:
                pipe.send_bytes(pickle.dumps(answer, 5))
    os._exit(0)


def _answer(served: _Served, method: str, arguments: tuple[Any, ...]) -> tuple[bool, Any] | None:
    """Whether the request failed, and its answer; None in the server after its child has left."""
    try:
        if method == "fork":
            ended = _forked()
            if ended is not None:
                return (False, _Ended(ended)) if ended else None
            method = "begin"
        return False, getattr(served if hasattr(served, method) else served.runner, method)(*arguments)
    except Exception as error:
        return True, f"{type(error).__name__}: {printable(said_by(error))}"


def _forked() -> str | None:
    """None in the child. In the server, after the child's end: how it ended, empty if it was told to leave."""
    child = os.fork()
    if child == 0:
        return None
    _, status = os.waitpid(child, 0)
    return how(os.waitstatus_to_exitcode(status)) if status else ""
