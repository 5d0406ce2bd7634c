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
import functools
import gc
import importlib.util
import multiprocessing
import os
import pickle
import random
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

LARGE, SMALL = 16, 300  # blocks of padding
WARM_S = 0.3  # no further call to warm up after this: it may take seconds to start a loader's workers
BATCHED = ("transform", "collate", "transfer", "step", "loader")  # a call does a whole batch, whatever keys it gets
SOURCES = {"bench": "functions", "asv": "asv_suites", "pytest": "pytest_side"}  # by the first part of an identity
SEED = 0  # of what is made for all rounds; each round has its number
LEFT = 107  # the status of a round's process that was told to leave: code that is measured may end it with 0
HERE = os.path.dirname(os.path.abspath(__file__))


def _beside(name: str) -> Any:
    """The module of that name beside this file, whichever pipebench can be imported here."""
    place = os.path.join(HERE, f"{name}.py")
    found: Any = importlib.util.spec_from_file_location(f"pipebench_{os.path.basename(name)}", place)
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


OTHER, LEAVES, ONE_PASS, CLOCK = map(_beside, ("other_commits", "leaves", "one_pass", "ready_clock"))
ONE_FUNCTION, OTHER_INPUTS, PROVENANCE = map(_beside, ("one_function", "other_inputs", "provenance"))
GAPS, HEAP, FAILURES = map(_beside, ("../host/gaps", "../host/heap", "failures"))


class _Died(Exception):
    """The round's process is gone."""

    has_place = True  # what it says is whole


class Side:
    """Answers requests about one commit, in the server or in a round's child.

    `own` is the user's configuration; in it, `sources` says what is measured besides the stages of a loader. `folder`
    is that of the commit's files.
    """

    def __init__(self, own: dict[str, Any] | None, folder: str | None = None) -> None:
        sources = (own or {}).get("sources", {})
        self.folder = folder
        self._own = own and {name: one for name, one in own.items() if name != "sources"}
        words = OTHER.module("task") if sources else None
        self._sources = {kind: _beside(SOURCES[kind]).Source(words, given, folder) for kind, given in sources.items()}
        self._runner: Any = None
        self._clock, self._gaps = CLOCK.ReadyClock(), GAPS.Gaps()
        self._padding: list[Any] = []
        self._processor: int | None = None  # of this round's readings; None: any
        self._built: dict[str, Any] = {}  # the callables that are timed
        self._loaders: Any = None
        self._opened = PROVENANCE.OpenedFiles()

    def start(self) -> list[str]:
        """Imports everything that the rounds need. Returns the benchmarks that were found. Nothing starts a thread."""
        if self._own is None:
            stage = OTHER.module("stage")
            with contextlib.suppress(ImportError):
                import torchvision.transforms.v2  # noqa: F401  # imported in the server, once
            stage.tasks()
        elif self._own.get("loader"):
            users = OTHER.module("compare.users_loader")
            users.imported(self._own)
            self._loaders = users.loaders_of(self._own) if hasattr(users, "loaders_of") else None
        return [f"{kind}/{name}" for kind, source in self._sources.items() for name in source.listed()]

    def prime(self, identity: str, knobs: dict[str, Any]) -> None:
        """Makes what the inputs are made from, in the server, once for all rounds. The timed code never runs here."""
        source, name = self._source(identity)
        if source is not None:
            with contextlib.suppress(Exception):  # as below
                source.prime(name)
            return
        import torch

        torch.set_num_threads(1)
        with contextlib.suppress(Exception):  # `arm` comes next and reports the error
            task, _, workload = self._known(identity, knobs)
            task.inputs(workload, _keys(task, workload))
            ONE_PASS.other_inputs(task, workload, _keys(task, workload))

    def begin(self, placement: int | None = None, alone: bool = False) -> int:
        """Makes a fresh runner, whose memory lies elsewhere than in the last round. Returns the process id.

        The number `placement` decides where: the same one on both sides gives equal code equal places, and large
        buffers of code that differs a little places that are alike. It also decides on which processor a process that
        runs alone is measured: one may be slower than another for a while.
        """
        from pipebench.runner import LocalRunner

        rng = random.Random(os.urandom(8) if placement is None else placement)
        self._processor = rng.choice(sorted(os.sched_getaffinity(0))) if alone else None
        self._padding = [bytearray(rng.randrange(1, 1 << 18)) for _ in range(LARGE)]
        self._padding += [bytes(rng.randrange(16, 4096)) for _ in range(SMALL)]
        HEAP.give_back()
        HEAP.end_at(rng.randrange(0, HEAP.ALIKE, 16))
        HEAP.map_free_memory()  # as huge pages, if the kernel has them: these lie alike on both sides, too
        self._runner = LocalRunner(self._clock, self._find)
        self._gaps.__enter__()  # for the life of this process
        return os.getpid()

    def _source(self, identity: str) -> tuple[Any, str]:
        """What has a benchmark that is not a stage, and the benchmark's name there; None for a stage."""
        kind, _, name = identity.partition("/")
        return self._sources.get(kind), name

    def within(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """What a request must be answered within: a test, up to its call; None if there is no such thing."""
        if method not in ("arm", "rearm", "build"):
            return None
        source, name = self._source(arguments[0])
        enter = getattr(source, "enter", None)
        return enter and functools.partial(enter, name, method == "arm")

    def _find(self, identity: str) -> tuple[Any, Any]:
        """The task and the variant. The task copies its inputs into this process's own memory."""
        source, name = self._source(identity)
        if source is not None:
            of_commit, facts = source.call(name)
            make = functools.partial(ONE_FUNCTION.of_commit, of_commit, self.folder)
            self._clock.timer = facts.pop("timer", self._clock.usual)
            task, variant = ONE_FUNCTION.of_call(OTHER.module("task"), identity, make, **facts)
        elif self._own is None:
            task, variant = OTHER.module("stage").find(identity)
        else:
            task, variant = OTHER.module("compare.users_loader").finder(*self._finds())(identity)

        def inputs(workload: Any, keys: Any) -> list[Any]:
            made = task.inputs(workload, keys)
            self._padding.append(made)  # kept: if it were freed, a result could lie in its place in some rounds only
            copied: list[Any] = copy.deepcopy(made)
            return copied

        def build(workload: Any) -> Any:
            self._built[identity] = variant.build(workload)
            return self._built[identity]

        return dataclasses.replace(task, inputs=inputs), dataclasses.replace(variant, build=build)

    def _finds(self) -> list[Any]:
        return [self._own] if self._loaders is None else [self._own, self._loaders]

    def worth_keeping(self, identity: str) -> bool:
        """Whether the benchmark's loader should be made once for all rounds. Tries that out: ask a round's process."""
        if self._loaders is None or self._source(identity)[0] is not None:
            return False
        wanted = OTHER.module("compare.users_loader").wanted_by(identity)
        return bool(self._loaders.worth_keeping(**wanted))

    def keep(self, identity: str) -> None:
        """Makes the benchmark's loader in the server; each round then takes a copy."""
        self._loaders.keep(**OTHER.module("compare.users_loader").wanted_by(identity))

    def _known(self, identity: str, knobs: dict[str, Any]) -> Any:
        """The task, the variant, and the workload with those settings that this commit knows."""
        return self._fitted(self._find(identity), knobs)

    def _fitted(self, found: tuple[Any, Any], knobs: dict[str, Any]) -> Any:
        task, variant = found
        workload = OTHER.module("task").Workload
        known = {name: value for name, value in knobs.items() if name in workload.__dataclass_fields__}
        return task, variant, task.adapt(workload(**known))

    def arm(self, identity: str, knobs: dict[str, Any], short_s: float) -> dict[str, Any]:
        """Builds the benchmark on as many of its samples as a call does in `short_s`.

        Returns why it cannot if this commit lacks it, or what it needs. Anything else that fails is raised.
        """
        found = None
        try:
            found = self._find(identity)
            task, _, workload = self._fitted(found, knobs)
        except Exception as error:
            is_stage = self._source(identity)[0] is None  # what is no stage says itself that a commit lacks it
            lacks = getattr(error, "reason", None)
            if lacks is None and found is None and is_stage and FAILURES.is_missing(error):
                lacks = f"not in this commit: {FAILURES.first_line(error)}"
            if lacks is None:
                raise
            return {"skip": lacks}
        prepared = self._runner.prepare(identity, workload)
        if prepared.skip_code:
            return {"skip": prepared.skip_reason}
        keys = _keys(task, workload)
        while True:
            work = self._runner.arm(identity, workload, keys)
            once = self._fastest(identity, self._clock.usual() + WARM_S, least=1)
            if once <= short_s or len(keys) <= 1 or task.stage in BATCHED:
                break
            keys = keys[: max(1, min(len(keys) // 2, int(len(keys) * short_s / once)))]
        return {
            "keys": keys, "once_s": once, "library": prepared.library,
            "work": (work.samples, work.input_bytes, work.output_bytes), "alone": self._clock.waited_s is not None,
        }  # fmt: skip

    def _wall_s(self, identity: str) -> float:
        """The seconds of one call. With a clock of its own they include its set-up, because a round waits for it."""
        begin = self._clock.usual()
        seconds = float(self._runner.reading(identity, 1)[0])
        return seconds if self._clock.timer is self._clock.usual else self._clock.usual() - begin

    def rearm(self, identity: str, knobs: dict[str, Any], keys: tuple[str, ...]) -> None:
        """Builds the benchmark on exactly these samples and warms it up."""
        until = self._clock.usual() + WARM_S
        self.build(identity, knobs, keys)
        if self._processor is not None:
            os.sched_setaffinity(0, {self._processor})
        self._fastest(identity, until)

    def _fastest(self, identity: str, until: float, least: int = 0) -> float:
        """Seconds of the fastest of three calls. No call begins after `until`, except the first `least`."""
        times = [float("inf")]
        while len(times) <= least or (len(times) <= 3 and self._clock.usual() < until):
            times.append(self._wall_s(identity))
        return float(min(times))

    def seed(self, number: int) -> None:
        """Makes random choices from here on the same as on the other side."""
        ONE_PASS.seed(number)

    def show(
        self, identity: str, knobs: dict[str, Any], keys: tuple[str, ...], number: int, folder: str, wanted: list[int]
    ) -> dict[str, Any]:
        """Takes the outputs of the callable that is timed apart, after the seed `number`. Empty if it shows none."""
        task, _, workload = self._known(identity, knobs)
        call, keys = self._built[identity], tuple(keys)
        lab = self._own is None
        one = ONE_PASS.of_task(task, call, workload, keys) if lab else ONE_PASS.of_call(call)
        if one is None:
            return {}
        made: dict[str, Any] = ONE_PASS.shown(LEAVES.Leaves(folder, wanted), one, number, LEAVES.Leaves(folder))
        return made

    def examine(self, identity: str, number: int) -> dict[str, Any]:
        """Calls a function that is timed on other inputs, to see whether a cache answers."""
        one = self._built[identity]

        def contents(value: Any) -> list[Any]:
            taken = LEAVES.Leaves()
            taken.add("output", "", value)
            return list(taken.found)

        seed = functools.partial(self.seed, number)
        made: dict[str, Any] = OTHER_INPUTS.examined(one.call, one.fresh, seed, ONE_PASS.Steps, contents)
        return made

    def values(self, identity: str, knobs: dict[str, Any], keys: tuple[str, ...], number: int) -> list[Any]:
        """The outputs of a variant of the lab, as its task compares them."""
        task, _, workload = self._known(identity, knobs)
        self.seed(number)
        made: list[Any] = ONE_PASS.values(task, self._built[identity], workload, tuple(keys))
        return made

    def build(self, identity: str, knobs: dict[str, Any], keys: tuple[str, ...]) -> None:
        """Builds the benchmark on exactly these samples and calls it once: the same history on both sides."""
        _, _, workload = self._known(identity, knobs)
        self._runner.prepare(identity, workload)
        self._runner.arm(identity, workload, tuple(keys))

    def modules(self) -> dict[str, str]:
        """The modules that are imported by now, with their files."""
        found: dict[str, str] = PROVENANCE.modules()
        return found

    def notice_files(self) -> None:
        """From here on, notices which files are opened. Never asked of a process that is timed."""
        self._opened.notice_all()

    def opened(self, folder: str) -> list[str]:
        """The files below `folder` that were opened so far, relative to it: by the server, or by this process."""
        found: list[str] = self._opened.inside(folder)
        return found

    def answer(self, method: str, arguments: tuple[Any, ...], in_child: bool) -> Any:
        """What a request gives. What the server sets up draws as on the other side, and what it opens is noticed."""
        if in_child:
            return getattr(self, method)(*arguments)
        self.seed(SEED)
        with self._opened.noticed():
            return getattr(self, method)(*arguments)

    def echo(self, token: int) -> int:
        """Returns `token`, so that the other end knows which answers came before."""
        return token

    def reading(self, identity: str, calls: int) -> tuple[float, float | None, bool]:
        """Seconds for `calls` calls, and how much of it was waiting for a processor, if that is known.

        The seconds are never zero, which a clock of a benchmark's own could say. The last value says whether they were
        taken again, because there was a gap in them.
        """
        found, again = GAPS.without_gap(lambda: self._runner.reading(identity, calls)[0], self._gaps)
        return max(1e-9, float(found)), self._clock.waited_s, again

    def leave(self) -> None:
        """Gives back what the round's benchmark holds.

        The worker processes of a loader are ended: they would go on for seconds after their parent is gone.
        """
        for source in self._sources.values():
            with contextlib.suppress(Exception):  # what it raises has nothing to do with what was timed
                source.leave()
        with contextlib.suppress(Exception):  # the user's objects are destroyed here
            self._padding.clear()
            self._built.clear()
            if self._runner is not None:
                self._runner.release()
            gc.collect()
        for worker in multiprocessing.active_children():
            worker.terminate()
            worker.join(1)

    def close(self) -> None:
        for source in self._sources.values():
            source.close()


def _keys(task: Any, workload: Any) -> tuple[str, ...]:
    return tuple(key for group in task.groups(workload) for key in group)[: task.per_call(workload)]


def serve(descriptor: int, own: dict[str, Any] | None = None, folder: str | None = None) -> None:
    """Answers requests until the pipe closes. `fork` hands the pipe to a child; `leave` gives it back to the server."""
    HEAP.settle()  # before anything else: only a block of its own settles malloc
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe, side = Connection(descriptor), Side(own, folder)
    status = 0
    with contextlib.suppress(EOFError, ConnectionError):
        _serve(pipe, side)
        status = LEFT
    side.close()
    os._exit(status)


def _serve(pipe: Connection, side: Side, is_child: bool = False, first: Any = None) -> None:
    """Answers requests, the `first` if it was received already. In a child it returns when it is told to leave."""
    while True:
        method, arguments = first or pickle.loads(pipe.recv_bytes())  # from our own parent, never from data
        within = side.within(method, arguments) if is_child and not first else None
        first = None
        if method == "leave":
            if is_child:
                side.leave()
                return
            continue
        if within and within(functools.partial(_serve, pipe, side, True, (method, arguments))):
            return
        try:
            if method == "fork":
                if not _forked():
                    continue
                is_child, method = True, "begin"
            answer = (False, side.answer(method, arguments, is_child))
        except BaseException as error:  # also SystemExit, which the code that is measured may raise
            answer = (True, FAILURES.said_of(error, side.folder))
        pipe.send_bytes(pickle.dumps(answer, 4))


def _forked() -> bool:
    """True in the child. In the server: False after the child has left, `_Died` if the child was killed or failed.

    The server's objects are frozen: a collection in the child would touch and so copy every page of them (0.4 s).
    """
    gc.freeze()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)  # so that it can be killed with its workers
        return True
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) != LEFT:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
        raise _Died(f"the round's process ended with {how}")
    return False
