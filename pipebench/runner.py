"""Where a variant runs: this process, or a live child with its own import path and environment.

Both answer the same few requests, so that the lab alternates between them reading by reading. Callables and inputs
cannot be sent to a child; each process builds them from the variant's identity and the workload.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any, Protocol

from pipebench import stage
from pipebench.errors import SampleError, install, kind_of, said_by
from pipebench.host import machine
from pipebench.host.children import how
from pipebench.host.clock import Clock, DeviceClock, WallClock
from pipebench.host.gaps import GAP, Gaps, without_gap
from pipebench.host.heap import map_free_memory, settle
from pipebench.native.building import NativeError
from pipebench.task import RunnerSpec, SkipCode, Task, Unavailable, Variant, Work, Workload
from pipebench.units import printable


@dataclass(frozen=True)
class Prepared:
    """Whether a variant can run in this place, and with which library."""

    skip_code: SkipCode | None = None
    skip_reason: str | None = None
    library: str | None = None


@dataclass(frozen=True)
class Attempt:
    """One try of a variant on one group of samples: its checked output, or why there is none."""

    keys: tuple[str, ...]
    output: Any = None
    kind: str | None = None
    message: str = ""
    seconds: float = 0.0


Find = Callable[[str], tuple[Task, Variant]]


class Runner(Protocol):
    """The requests that a place to run variants must answer."""

    @property
    def pid(self) -> int | None: ...  # of a child, to count its CPU time as ours
    def prepare(self, identity: str, workload: Workload) -> Prepared: ...
    def attempt(self, identity: str, workload: Workload, keys: tuple[str, ...]) -> list[Attempt]: ...
    def arm(self, identity: str, workload: Workload, keys: tuple[str, ...], called: str = "") -> Work: ...
    def reading(self, identity: str, calls: int) -> tuple[float, str | None]: ...
    def ready(self, wait: bool) -> bool: ...  # whether readings can be taken; `wait` until they can
    def renew(self, task_id: str, workload: Workload, keys: tuple[str, ...]) -> bool: ...  # whether it is fresh now
    def release(self) -> None: ...
    def close(self) -> None: ...


class LocalRunner:
    """Runs variants in this process, one torch thread and one OpenCV thread as in a worker."""

    pid: int | None = None

    def __init__(self, clock: Clock | None = None, find: Find = stage.find, gaps: Gaps | None = None) -> None:
        self._clock = clock
        self._find = find
        self._gaps = gaps or Gaps()
        self._calls: dict[str, Callable[[Any], Any]] = {}
        self._inputs: dict[tuple[str, Workload, tuple[str, ...]], list[Any]] = {}
        self._armed: dict[str, tuple[Task, Variant, Workload, list[Any], Callable[[int], None]]] = {}
        self._opencv_threads: int | None = None
        self._last: str | None = None  # what was read last, since it was armed
        settle()

    def prepare(self, identity: str, workload: Workload) -> Prepared:
        """Builds the variant's hot callable. Imports, handles and tables are made here, outside the timed part."""
        _, variant = self._find(identity)
        try:
            call = variant.build(workload)
            library = variant.library() if variant.library else None
        except Unavailable as missing:
            return Prepared(missing.code, missing.reason)
        except NativeError as missing:
            return Prepared(missing.code, f"{missing.problem}: {missing.remedy}")
        except ImportError as missing:
            remedy = install(variant.extra or "lab")
            return Prepared("not-installed", f"{printable(str(missing))}: {remedy}")
        self._calls[identity] = call
        return Prepared(library=library)

    def attempt(self, identity: str, workload: Workload, keys: tuple[str, ...]) -> list[Attempt]:
        """Tries the variant once on a group of samples. A group that fails is halved, down to single samples."""
        task, variant = self._find(identity)
        self._threads(variant)
        begin = time.perf_counter()
        try:
            pairs = self._outputs(task, variant, workload, keys)
        except Exception as error:  # whatever a library raises on one sample is that sample's fault
            if len(keys) > 1 and task.split is not None:
                half = len(keys) // 2
                halves = keys[:half], keys[half:]
                return [one for part in halves for one in self.attempt(identity, workload, part)]
            return [Attempt(keys, None, kind_of(error), printable(said_by(error))[:300], time.perf_counter() - begin)]
        return [Attempt(covered, output, seconds=time.perf_counter() - begin) for covered, output in pairs]

    def _outputs(
        self, task: Task, variant: Variant, workload: Workload, keys: tuple[str, ...]
    ) -> list[tuple[tuple[str, ...], Any]]:
        pairs: list[tuple[tuple[str, ...], Any]] = []
        call = self._calls[variant.id]
        for given in task.inputs(workload, keys):
            if variant.unfit is not None and (reason := variant.unfit(given)) is not None:
                raise SampleError("unfit", reason)
            output = call(given)
            covered = list(task.split(given, output)) if task.split else [(keys, output)]
            for _, value in covered:
                task.check(value, given)
            pairs.extend(covered)
            if task.lasts is not None:
                task.lasts(call, given)
        missing = set(keys).difference(*(covered for covered, _ in pairs))
        if missing:
            raise SampleError("missing", f"{len(missing)} of {len(keys)} samples did not come out")
        return pairs

    def arm(self, identity: str, workload: Workload, keys: tuple[str, ...], called: str = "") -> Work:
        """Loads the inputs of the readings and makes one untimed call on each.

        Readings ask for it by the name `called`, by default its identity. So one variant can be read on several inputs.
        Where outputs stay alive, as many more calls are made as it takes until each one frees another's memory.
        """
        task, variant = self._find(identity)
        inputs = self._inputs.get((task.id, workload, keys))
        if inputs is None:
            inputs = self._inputs[task.id, workload, keys] = task.inputs(workload, keys)
        self._threads(variant)
        call = task.repeatable(self._calls[identity])
        works = [task.work(one, task.held(self._calls[identity](one))) for one in inputs]

        def block(calls: int) -> None:
            for _ in range(calls):
                for one in inputs:
                    call(one)

        block(task.alive + 1 if task.alive else 0)
        self._armed[called or identity] = (task, variant, workload, inputs, block)
        self._last = None
        return Work(
            sum(work.samples for work in works),
            sum(work.input_bytes for work in works),
            sum(work.output_bytes for work in works),
        )

    def reading(self, identity: str, calls: int) -> tuple[float, str | None]:
        """Seconds for `calls` calls with garbage collection off, and a warning's code if the state was wrong.

        A reading with a gap is taken again, and the code says so.
        """
        (found, warning), again = without_gap(lambda: self._taken(identity, calls), self._gaps)
        return found, warning or (GAP if again else None)

    def _taken(self, identity: str, calls: int) -> tuple[float, str | None]:
        """Where outputs stay alive, an untimed call comes first if another row was read last: it may hold their memory.

        What it left may not fit, and then the heap grows: into memory that is mapped, as in an older process.
        """
        task, variant, workload, inputs, block = self._armed[identity]
        self._threads(variant)
        warning = task.before(workload, inputs) if task.before else None
        clock = self._clock or (DeviceClock() if workload.device == "cuda" and task.on_device else WallClock())
        collecting = gc.isenabled()
        gc.disable()
        try:
            if task.alive and self._last != identity:
                map_free_memory()
                block(1)
            self._last = identity
            return clock.elapsed(lambda: block(calls)), warning
        finally:
            if collecting:
                gc.enable()

    def ready(self, wait: bool) -> bool:
        return True

    def renew(self, task_id: str, workload: Workload, keys: tuple[str, ...]) -> bool:
        """False: this process cannot be replaced."""
        return False

    def release(self) -> None:
        """Frees everything that was built and loaded for a task."""
        self._calls.clear()
        self._inputs.clear()
        self._armed.clear()

    def close(self) -> None:
        self.release()

    def _threads(self, variant: Variant) -> None:
        torch, cv2 = sys.modules.get("torch"), sys.modules.get("cv2")
        if torch is not None and torch.get_num_threads() != 1:
            torch.set_num_threads(1)
        if cv2 is not None and self._opencv_threads != (
            wanted := -1 if variant.opencv_threads is None else variant.opencv_threads
        ):
            cv2.setNumThreads(wanted)
            self._opencv_threads = wanted


class ChildRunner:
    """Runs variants in a live child process. A request is a method's name and arguments; the answer is its result."""

    _serving = "pipebench.runner"  # the module whose `serve` the child runs
    _session = False  # whether the child has a session of its own
    _errors: IO[bytes] | None = None  # the file that the child's standard error goes to, if not to ours

    def __init__(self, spec: RunnerSpec, executable: str = sys.executable) -> None:
        self.name = spec.name
        self._spec, self._executable = spec, executable
        self._start()

    def _start(self) -> None:
        ours, theirs = Pipe()
        first = [os.fspath(self._spec.path())] if self._spec.path else []
        start = self._code(first, theirs.fileno())
        self._process = subprocess.Popen(
            [self._executable, "-c", start],
            pass_fds=[theirs.fileno()],
            env={**os.environ, **dict(self._spec.environment)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=self._session,
        )
        theirs.close()
        self._pipe: Connection = ours
        self.pid: int | None = self._process.pid

    def _code(self, first: list[str], descriptor: int) -> str:
        """What the child's interpreter executes."""
        return (
            "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
            f"sys.path[:] = {first + sys.path!r}; from {self._serving} import serve; serve({descriptor})"
        )

    def _ask(self, method: str, *arguments: Any) -> Any:
        self._send(method, *arguments)
        return self._receive()

    def _send(self, method: str, *arguments: Any) -> None:
        with contextlib.suppress(OSError):  # a child that is gone is found out about by the answer
            self._pipe.send_bytes(pickle.dumps((method, arguments), 5))

    def _leave_fork(self) -> None:
        """Ends the process that the child has forked, if there is one, and drops the answers that nobody waits for.

        For children whose requests include `leave` and `echo`. Raises EOFError or OSError if the child is gone.
        """
        token = time.monotonic_ns()
        self._send("leave")
        self._send("echo", token)
        while pickle.loads(self._pipe.recv_bytes()) != (False, token):  # from our own child, never from data
            pass

    def _receive(self) -> Any:
        try:
            failed, answer = pickle.loads(self._pipe.recv_bytes())  # from our own child, never from data
        except (EOFError, OSError) as gone:
            raise RunnerDied(f"the {self.name} process {how(self._process.wait())}") from gone
        if failed:
            raise RunnerFailed(answer)
        return answer

    def prepare(self, identity: str, workload: Workload) -> Prepared:
        return self._ask("prepare", identity, workload)  # type: ignore[no-any-return]  # the answer of the same method

    def attempt(self, identity: str, workload: Workload, keys: tuple[str, ...]) -> list[Attempt]:
        return self._ask("attempt", identity, workload, keys)  # type: ignore[no-any-return]  # the same

    def arm(self, identity: str, workload: Workload, keys: tuple[str, ...], called: str = "") -> Work:
        return self._ask("arm", identity, workload, keys, called)  # type: ignore[no-any-return]  # the same

    def reading(self, identity: str, calls: int) -> tuple[float, str | None]:
        return self._ask("reading", identity, calls)  # type: ignore[no-any-return]  # the same

    def ready(self, wait: bool) -> bool:
        return True

    def renew(self, task_id: str, workload: Workload, keys: tuple[str, ...]) -> bool:
        """False: a live child stays."""
        return False

    def release(self) -> None:
        self._ask("release")

    def close(self) -> None:
        """Ends the child: it exits when its pipe closes, and is killed if it does not."""
        self._pipe.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class RunnerDied(Exception):
    """The child process ended while it worked on a request."""


class RunnerFailed(Exception):
    """A request raised in the child."""


def serve(descriptor: int) -> None:
    """The child's side: answers requests until the pipe closes. The parent handles Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gaps = Gaps()
    pipe, runner = Connection(descriptor), LocalRunner(gaps=gaps)
    with gaps, contextlib.suppress(EOFError, ConnectionError):
        while True:
            method, arguments = pickle.loads(pipe.recv_bytes())  # from our own parent, never from data
            try:
                answer = (False, getattr(runner, method)(*arguments))
            except Exception as error:
                answer = (True, f"{type(error).__name__}: {printable(said_by(error))}")
            pipe.send_bytes(pickle.dumps(answer, 5))


class Runners:
    """All places in use: this process and one live child for each `RunnerSpec`. Closing ends the children.

    `child` starts a child. The children of `beside` are used too.
    """

    def __init__(
        self,
        local: Runner | None = None,
        child: Callable[[RunnerSpec], Runner] = ChildRunner,
        beside: Runners | None = None,
    ) -> None:
        self._local: Runner = local or LocalRunner()
        self._child = child
        self._children: dict[RunnerSpec, Runner] = {} if beside is None else beside._children

    def __enter__(self) -> Runners:
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self:
            runner.close()

    def __iter__(self) -> Iterator[Runner]:
        return iter([self._local, *self._children.values()])

    def start(self, variants: Sequence[Variant]) -> None:
        """Starts the children that these variants need, so that they import while this process does."""
        for variant in variants:
            with contextlib.suppress(Unavailable, OSError):  # said again, and kept, when the row is prepared
                self.of(variant)

    def ready(self, wait: bool) -> bool:
        """Whether readings can be taken: no place is still making ready what it needs. `wait` until they can."""
        return all([runner.ready(wait) for runner in self])

    def of(self, variant: Variant) -> Runner:
        """The place where a variant runs. Raises `Unavailable` if its child cannot be started."""
        if variant.runner is None:
            return self._local
        if variant.runner not in self._children:
            self._children[variant.runner] = self._child(variant.runner)
        return self._children[variant.runner]

    def drop(self, variant: Variant) -> None:
        """Removes a child that died; the next variant that needs it gets a new one."""
        if variant.runner in self._children:
            self._children.pop(variant.runner).close()

    def load(self) -> machine.Load:
        """The host's counters with the children's CPU time counted as ours."""
        return machine.read_load([runner.pid for runner in self if runner.pid])
