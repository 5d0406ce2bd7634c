"""Where the thread of a loop is: the line of the loop and what it calls, but not while it waits or trains."""

import itertools
import os
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from looked_at import Client, Model, iteration, made_up_recording, seen_from_outside

from pipebench.watch.record.patches import Patches
from pipebench.watch.script import forks, loop_looks, thread_clock
from pipebench.watch.script.look_counts import OfLoader
from pipebench.watch.script.loop_looks import RARELY_S, LoopLooker
from pipebench.watch.script.loop_place import own_calls, place_in


def _train(looker, batches, work):
    for _ in range(batches):
        looker.came(1, sys._getframe())
        work()
    looker.left(None)
    work()  # after the pass: no part of the loop
    looker.write()


def test_a_place_has_the_functions_that_the_loop_calls(looker):
    at_work = seen_from_outside(looker.of)
    _train(looker.of, 3, lambda: Client().report(at_work))
    (line,) = looker.written
    assert (line.loader, line.file, line.turns) == (1, __file__, 3)
    (place,) = line.places
    assert "Client.report" in place.functions and (place.looks, place.turns) == (3, 3)
    (inner,) = line.besides
    assert (inner.function, inner.file, inner.calls.partition(".")[0], inner.looks) == (
        at_work.__name__,
        at_work.__code__.co_filename,
        "threading",
        3,
    )
    assert line.early_lines == []


@pytest.mark.parametrize(
    ("took_ms", "needed_ms", "found_ms"),
    [
        (300, 300, (200, 200)),  # as `gc.collect()`, which keeps Python to itself
        (300, 0, (200, 0)),  # it waits, and keeps Python to itself
        (300, 100, (200, 0)),  # what needed a core may have come before
        (110, 110, (0, 0)),  # Python changes threads after 5 ms
    ],
)
def test_a_look_that_comes_late_is_of_the_line_that_it_finds(looker, took_ms, needed_ms, found_ms, monkeypatch):
    now = SimpleNamespace(ns=0, needed=0)
    monkeypatch.setattr(loop_looks.time, "perf_counter_ns", lambda: now.ns)
    monkeypatch.setattr(loop_looks.ThreadClock, "needed_ns", lambda clock: now.needed)
    monkeypatch.setattr(loop_looks.ThreadClock, "is_ready", lambda clock: False)

    def acquire(timeout):
        now.ns, now.needed = now.ns + took_ms * 1_000_000, now.needed + needed_ms * 1_000_000
        return False

    def look():
        assert not looker.of._waits(SimpleNamespace(acquire=acquire), 0.1)
        looker.of._look()

    def collect():
        other = threading.Thread(target=look)
        other.start()
        other.join()

    _train(looker.of, 1, collect)
    (place,) = looker.written[0].places
    assert (place.looks, place.ns, place.cpu_ns) == (1, *(one * 1_000_000 for one in found_ms))


def test_a_late_look_at_a_thread_that_is_ready_and_has_no_core_found_no_wait(looker, monkeypatch):
    """What it waits for a core counts in the kernel once that is over."""
    now = SimpleNamespace(ns=0)
    monkeypatch.setattr(loop_looks.time, "perf_counter_ns", lambda: now.ns)
    monkeypatch.setattr(loop_looks.ThreadClock, "is_ready", lambda clock: True)
    monkeypatch.setattr(loop_looks.ThreadClock, "needed_ns", lambda clock: 0)

    def acquire(timeout):
        now.ns += 300_000_000

    def look():
        looker.of._waits(SimpleNamespace(acquire=acquire), 0.1)
        looker.of._look()

    def computes():
        other = threading.Thread(target=look)
        other.start()
        other.join()

    _train(looker.of, 1, computes)
    (place,) = looker.written[0].places
    assert place.ns == place.cpu_ns == 200_000_000


def test_what_a_model_does_is_training(looker):
    at_work = seen_from_outside(looker.of)
    model = Model()
    _train(looker.of, 3, lambda: model(at_work))
    (line,) = looker.written
    assert line.places == []


def test_generators_and_iterators_around_a_loader_are_no_loop(looker):
    def shown(batches):
        for _ in range(batches):
            looker.of.came(1, sys._getframe())
            yield

    at_work = seen_from_outside(looker.of)
    for _ in shown(2):
        at_work()
    looker.of.end()
    (line,) = looker.written
    assert [one.looks for one in line.places] == [2]


def test_a_sampler_is_looked_at_in_its_own_line(looker):
    """It is no work of the loop. What it calls of the script's own is the innermost line."""

    class Ordered(torch.utils.data.Sampler):
        def __iter__(self):
            for index in range(6):
                yield self.place(index)

        def place(self, index):
            other = threading.Thread(target=looker.of._look)
            other.start()
            while other.is_alive():
                pass
            return index

    batches = torch.utils.data.BatchSampler(Ordered(), 2, drop_last=False)
    looked = SimpleNamespace(_sampler_iter=iter(batches))
    for _ in range(3):
        looker.of.came(1, sys._getframe())
        torch.utils.data.dataloader._BaseDataLoaderIter._next_index(looked)
    looker.of.write()
    (line,) = looker.written
    assert {(one.file, one.function.rpartition(".")[2]) for one in line.drawn} == {(__file__, "place")}
    assert sum(one.looks for one in line.drawn) == 6 and line.places == []


def test_a_slow_length_of_a_loader_is_work_of_the_loop(looker):
    """A batch that is waited for is not."""
    at_work = seen_from_outside(looker.of)

    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            at_work()
            return 2

        def __getitem__(self, index):
            at_work()
            return index

    loader = torch.utils.data.DataLoader(Slow(), batch_size=2)
    batches = iter(loader)
    looker.of.came(1, sys._getframe())
    next(batches)
    assert looker.of._of[1].found == {}
    len(loader)
    looker.of.end()
    (place,) = looker.written[0].places
    assert place.looks == 1 and any("__len__" in one for one in place.functions)


def test_another_thread_notes_nothing(looker):
    looker.of.came(1, sys._getframe())
    other = threading.Thread(target=looker.of.came, args=(2, sys._getframe()))
    other.start()
    other.join()
    looker.of.end()
    assert [(one.loader, one.turns) for one in looker.written] == [(1, 1)]


def test_the_loops_of_several_loaders_are_apart_and_passes_are_added(looker):
    at_work = seen_from_outside(looker.of)
    for _ in range(2):
        for loader, batches in ((1, 2), (2, 1)):
            for _ in range(batches):
                looker.of.came(loader, sys._getframe())
                at_work()
            looker.of.left(None)
    assert looker.written == []
    looker.of.recording.before_stop[0]()
    found = {one.loader: (one.turns, sum(place.looks for place in one.places)) for one in looker.written}
    assert found == {1: (4, 4), 2: (2, 2)}


@pytest.mark.parametrize(("state", "needed"), [("S", 8), ("R", 10)])
def test_a_second_look_only_tells_of_the_core(looker, monkeypatch, state, needed):
    """The clocks move by 5, 3 and 1 ns with each look: time, use of a core, and waits for one that are over."""
    monkeypatch.setattr(thread_clock, "thread_now", lambda thread: (state, 0))
    monkeypatch.setattr(looker.of.others, "look", lambda loader, frames: None)
    wall, core, waited = iter(range(0, 100, 5)), iter(range(0, 100, 3)), iter(range(100))
    monkeypatch.setattr(loop_looks.time, "perf_counter_ns", lambda: next(wall))
    monkeypatch.setattr(loop_looks.time, "clock_gettime_ns", lambda clock: next(core))
    monkeypatch.setattr(thread_clock, "core_wait_ns", lambda thread: next(waited))

    def looks():
        looker.of._look()
        looker.of._look(again=True)

    def meets():  # in one line of the loop: the first look may come before `start` returns
        other = threading.Thread(target=looks)
        other.start()
        other.join()

    for _ in range(2):
        looker.of.came(1, sys._getframe())
        meets()
    looker.of.end()
    places = looker.written[0].places
    sums = ("looks", "turns", "ns", "cpu_ns")
    assert [sum(getattr(one, name) for one in places) for name in sums] == [2, 2, 10, needed]


def test_looks_at_what_one_function_calls_tell_of_its_core_together(looker):
    """The second look is elsewhere in the metric: that is no other place."""

    def looks():
        begun.wait(9)
        looker.of._look()
        moved.wait(9)
        looker.of._look(again=True)
        done.set()

    class Metric:
        def compute(self):
            self.sort()
            self.sum()

        def sort(self):
            begun.set()
            looked.wait(9)

        def sum(self):
            moved.set()
            done.wait(9)

    begun, moved, done = threading.Event(), threading.Event(), threading.Event()
    looked = _After(looker.of)
    looker.of.came(1, sys._getframe())
    threading.Thread(target=looks).start()
    Metric().compute()
    looker.of.end()
    first, second = looker.written[0].places
    names = [one.functions[0].rsplit(".", 1)[-1] for one in (first, second)]
    assert names == ["compute"] * 2 and (first.looks, second.looks) == (1, 0) and second.ns > 0


class _After:
    """Is set as soon as a looker has looked once."""

    def __init__(self, looker):
        self.looker = looker

    def wait(self, seconds):
        until = time.monotonic() + seconds
        while self.looker._before is None and time.monotonic() < until:
            time.sleep(0.001)


def test_a_thread_that_ends_while_it_is_looked_at_is_no_fault(looker, monkeypatch):
    def ended(clock):
        raise OSError(22, "Invalid argument")

    looker.of.came(1, sys._getframe())
    monkeypatch.setattr(loop_looks.time, "clock_gettime_ns", ended)
    looker.of._look()
    looker.of.end()
    assert looker.written == [] or not looker.written[0].places


def test_there_is_no_thread_while_the_process_forks_and_threading_knows_none():
    """The child forks, too: it starts no thread of its own."""
    looker = LoopLooker(made_up_recording(), RARELY_S)
    before = threading.active_count()
    looker.came(1, sys._getframe())
    assert looker._runs and threading.active_count() == before
    child = os.fork()
    if not child:
        alone = not looker._runs and len(os.listdir("/proc/self/task")) == 1
        if not (grandchild := os.fork()):
            os._exit(0)
        os.waitpid(grandchild, 0)
        os._exit(0 if alone and not looker._runs else 1)
    assert os.waitpid(child, 0)[1] == 0 and not looker._runs  # from 3.12 on, Python would warn of a thread
    looker.came(1, sys._getframe())
    assert looker._runs
    looker.end()
    assert not looker._runs
    looker.go_on()
    assert not looker._runs


def test_in_the_search_for_a_model_looks_count_no_more_often_than_later(monkeypatch):
    looker = LoopLooker(made_up_recording(), RARELY_S)
    looker._of[1] = OfLoader(sought=True)
    now, counted, gone = [1.0], list[float](), threading.Lock()

    def waits(_, seconds):
        now[0] += seconds
        return now[0] >= 2.5

    monkeypatch.setattr(loop_looks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(looker, "_waits", waits)
    monkeypatch.setattr(looker, "_look", lambda again=False: again or counted.append(now[0]))
    gone.acquire()
    looker._look_on(None, gone)
    assert looker._searched > 400
    assert min(after - before for before, after in itertools.pairwise(counted)) >= 0.5 * loop_looks._FIRST_S


def test_looks_go_on_once_the_fork_of_the_loop_s_thread_is_over(monkeypatch):
    """It may wait for the child from there on. In another thread, the loop's next batch is early enough."""
    begun, child, patches = [], [7], Patches()
    monkeypatch.setattr(os, "fork", lambda: child[0])
    recording = SimpleNamespace(patches=patches, guarded=lambda _, act: act())
    plain = os.fork
    forks.goes_on_after_forks(lambda: begun.append(1), recording)
    assert os.fork() == 7 and begun == [1]
    other = threading.Thread(target=os.fork)
    other.start()
    other.join()
    child[0] = 0  # this is the child
    assert os.fork() == 0 and begun == [1]
    patches.undo()
    assert os.fork is plain


def test_after_the_backward_and_in_loops_that_do_not_train_nothing_is_early(looker):
    at_work, model = seen_from_outside(looker.of), Model()
    _train(looker.of, 3, lambda: iteration(at_work, model, augments=True, deeper=False))
    (line,) = looker.written
    assert line.forward_looks == 0 and not any(one.early for one in line.places)
    assert sum(one.looks for one in line.places) == 6


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("/lib/torchvision/transforms/v2/functional/_geometry.py", (False, False)),
        ("/lib/torch/nn/functional.py", (False, False)),
        ("/lib/torch/_tensor.py", (False, False)),  # as of copy.deepcopy(model.state_dict())
        ("/lib/torch/nn/modules/module.py", (True, True)),
        ("/lib/torch/nn/utils/clip_grad.py", (True, False)),
        ("/lib/torch/optim/adam.py", (True, False)),
    ],
)
def test_modules_that_make_samples_are_no_model(file, found):
    def frame(name, file, back=None):
        return SimpleNamespace(f_code=SimpleNamespace(co_filename=file, co_qualname=name), f_lineno=3, f_back=back)

    loop = frame("train", "/home/me/train.py")
    step = frame("prepare", "/home/me/train.py", loop)
    inner = frame(
        "call", file, frame("_call_impl", "/lib/torch/nn/modules/module.py", step) if "vision" in file else step
    )
    place = place_in(inner, id(loop))
    assert (place.trains, place.models) == found
    assert place.functions[0] == "prepare"


def test_a_loop_of_another_thread_is_not_looked_at(looker):
    """The account is of the main thread: a thread that only makes batches ready would explain that one's work."""
    at_work = seen_from_outside(looker.of)
    thread = threading.Thread(target=_train, args=(looker.of, 3, at_work))
    thread.start()
    thread.join()
    assert looker.written == []


def test_of_calls_the_first_ones_that_are_the_users_own_are_counted() -> None:
    def code(name: str, file: str) -> tuple[Any, int]:
        return compile(f"def {name}(): pass", file, "exec").co_consts[0], 3

    way = [code("main", "/a/train.py"), code("fold", "/a/train.py"), code("__init__", "/a/table.py")]
    assert own_calls([*way, code("parse", "/usr/lib/python3/site-packages/pandas/io.py"), way[1]], 0) == 2
    assert own_calls(way[:1], 0) == 0
