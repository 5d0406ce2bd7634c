"""What looks at a loop see of the threads beside it: whether these have the interpreter while the loop waits."""

from __future__ import annotations

import multiprocessing.connection
import queue
import sys
import threading
import time
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from looked_at import made_up_recording

from pipebench.watch.record.kernel_counts import core_wait_ns, thread_now
from pipebench.watch.record.trial_lines import ThreadsBeside
from pipebench.watch.script import busy_threads
from pipebench.watch.script.busy_threads import BusyThreads
from pipebench.watch.script.switching import Switching

MS = 1_000_000
LOOP, FEEDER = 11, 12  # as Python and the kernel know the threads
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's counts of threads")


_running: list[Any] = []  # what is freed here would end


def _training() -> FrameType:
    return sys._getframe()


def _frame_in(file: str, calls: str = "len") -> FrameType:
    """A frame of a function in this file, at the line that names what it calls. Nothing is around it."""
    space: dict[str, Any] = {"sys": sys}
    text = f"def run():\n    yield sys._getframe(), not sys.path and {calls}\nrunning = run()\nframe, _ = next(running)"
    exec(compile(text, file, "exec"), space)
    frame = space["frame"]
    _running.append(space["running"])
    assert isinstance(frame, FrameType)
    return frame


class Planted:
    """A clock, and what the kernel says of two threads."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.waits, self.state, self.core_wait = 0, 0, "S", 0
        self.cpu = {LOOP: 0, FEEDER: 0}
        self.frames = {LOOP: _training(), FEEDER: _frame_in("/home/me/feeder.py")}
        recording: Any = made_up_recording()
        self.written: list[ThreadsBeside] = recording.written
        self.of = BusyThreads(recording, Switching())
        self.of.follow(LOOP, LOOP)
        known = [SimpleNamespace(ident=one, native_id=one, name=f"Thread-{one}") for one in self.cpu]
        patch.setattr(busy_threads, "time", SimpleNamespace(perf_counter_ns=lambda: self.now))
        patch.setattr(busy_threads, "threading", SimpleNamespace(enumerate=lambda: known))
        patch.setattr(busy_threads, "_cpu_ns", self.cpu.get)
        patch.setattr(busy_threads, "own_waits", lambda: self.waits)
        patch.setattr(busy_threads, "thread_now", lambda native: (self.state, self.core_wait))

    def looks(
        self, count: int = 20, *, sleep: int = 5, late: int = 5, waits: int = 3, loop: int = 2, core_wait: int = 0
    ) -> ThreadsBeside:
        """Looks, of each of which the loop ran for `loop` ms, and the other thread all the time."""
        for _ in range(count):
            self.of.sleeps(sleep / 1000)
            self.now += (sleep + late) * MS
            self.waits += waits
            self.cpu[LOOP] += loop * MS
            self.cpu[FEEDER] += (sleep + late) * MS
            self.core_wait += core_wait * MS
            self.of.wakes()
            self.of.look(1, self.frames)
        self.of.write()
        return self.written[-1]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Planted:
    return Planted(monkeypatch)


def test_another_thread_has_the_interpreter_while_the_loop_waits(planted: Planted) -> None:
    found = planted.looks(21, core_wait=1)
    assert (found.loader, found.wall_ns, found.cpu_ns, found.core_wait_ns) == (1, 200 * MS, 40 * MS, 20 * MS)
    assert found.windows == 21 and found.held == found.off == pytest.approx(21 * 0.8)
    (thread,) = found.threads
    assert (thread.name, thread.file, thread.function) == (f"Thread-{FEEDER}", "/home/me/feeder.py", "run")
    assert (thread.line, thread.looks, thread.cpu_ns) == (2, 2, 200 * MS)


@pytest.mark.parametrize(
    "look",
    [{"waits": 1}, {"late": 0, "waits": 2}],
    ids=["no core for the look", "given away at once"],
)
def test_a_look_that_gets_the_interpreter(planted: Planted, look: dict[str, int]) -> None:
    found = planted.looks(30, **look)
    assert found.windows == 30 and found.off > 0 and not found.held


def test_a_loop_that_runs_or_has_no_core_is_not_held_up(planted: Planted) -> None:
    planted.state = "R"
    assert not planted.looks().windows


def test_a_long_sleep_says_nothing_of_its_end(planted: Planted) -> None:
    found = planted.looks(sleep=150)
    assert not found.windows and found.wall_ns == 19 * 155 * MS


@pytest.mark.parametrize(
    "frame",
    [
        _frame_in("/home/me/train.py", "time.sleep"),
        _frame_in(queue.__file__),
        _frame_in("/lib/site-packages/torch/utils/data/dataloader.py"),
    ],
    ids=["a call that waits", "a queue", "a loader"],
)
def test_a_loop_that_waits_for_something_else(planted: Planted, frame: FrameType) -> None:
    planted.frames[LOOP] = frame
    found = planted.looks()
    assert found.off > 0 and not found.held


def test_our_own_work_in_the_loop_is_left_out(planted: Planted) -> None:
    planted.frames[LOOP] = _frame_in(busy_threads.__file__)
    assert not planted.looks().windows


@pytest.mark.parametrize(
    "file",
    ["/lib/site-packages/torch/utils/data/_utils/pin_memory.py", "/lib/site-packages/torch/x.py", threading.__file__],
)
def test_threads_of_torch_and_python_are_no_matter(planted: Planted, file: str) -> None:
    planted.frames[FEEDER] = _frame_in(file)
    assert not planted.looks().threads


def test_a_thread_of_a_library_is_seen(planted: Planted) -> None:
    planted.frames[FEEDER] = _frame_in("/lib/site-packages/feeds/thread.py")
    assert planted.looks().threads[0].file == "/lib/site-packages/feeds/thread.py"


def test_between_loops_nothing_is_counted(planted: Planted) -> None:
    planted.looks()
    planted.of.look(None, planted.frames)
    planted.now += 1000 * MS
    assert planted.looks().wall_ns == 100 * MS  # from the first look of the next pass on


def test_the_kernel_knows_the_threads_of_this_process() -> None:
    other, ends = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (other.set(), ends.wait()))
    thread.start()
    other.wait()
    native = thread.native_id
    assert native is not None
    while thread_now(native)[0] != "S":
        time.sleep(0.001)
    assert thread_now(threading.get_native_id())[0] == "R" and busy_threads._cpu_ns(native) is not None
    assert core_wait_ns(native) >= thread_now(native)[1] > 0 or core_wait_ns(native) == 0
    ends.set()
    thread.join()
    while thread_now(native)[0]:
        time.sleep(0.001)
    assert thread_now(native) == ("", 0) and busy_threads._cpu_ns(native) is None
    before = busy_threads.own_waits()
    time.sleep(0.001)
    assert busy_threads.own_waits() > before


def test_each_look_of_a_loop_sees_the_threads(looker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after its sleep, and with the loader that is iterated."""
    seen: list[Any] = []
    of = looker.of.others
    monkeypatch.setattr(of, "sleeps", lambda seconds: seen.append(seconds))
    monkeypatch.setattr(of, "wakes", lambda: seen.append("wakes"))
    monkeypatch.setattr(of, "look", lambda loader, frames: seen.append((loader, threading.get_ident() in frames)))
    for _ in range(1):
        looker.of.came(1, sys._getframe())
        assert not looker.of._waits(SimpleNamespace(acquire=lambda timeout: False), 0.25)
        looker.of._look()
    looker.of.left(sys._getframe())
    looker.of._look()
    assert seen == [0.25, "wakes", (1, True), (None, True)]
    monkeypatch.setattr(of, "write", lambda: seen.append("written"))
    looker.of.write()
    assert seen[-1] == "written"


@pytest.mark.parametrize(
    ("frame", "met"),
    [
        (_frame_in("/home/me/feeder.py"), True),
        (_frame_in("/home/me/feeder.py", "time.sleep"), False),
        (_frame_in(queue.__file__), False),
        (_frame_in(busy_threads.__file__), False),
    ],
)
def test_a_thread_that_does_not_wait_is_met(planted, frame, met):
    planted.frames[FEEDER] = frame
    planted.of.look(1, planted.frames)
    assert planted.of.met == met
    planted.of.look(1, {LOOP: planted.frames[LOOP]})
    assert planted.of.met == met


def test_the_thread_that_sends_indices_to_a_worker_is_none_of_the_script() -> None:
    """Beside it, Python may call the looking thread soon: else no look finds short work in Python."""
    found = BusyThreads(made_up_recording(), Switching())
    found.look(None, {FEEDER: _frame_in(multiprocessing.connection.__file__)})
    assert not found.met
    found.look(None, {FEEDER: _frame_in("/home/me/feeder.py")})
    assert found.met
