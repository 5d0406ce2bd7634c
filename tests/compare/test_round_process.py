"""What the process of a round does besides reading: it warms up for a bounded time, and leaves no worker behind."""

import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
import types

import psutil
import pytest
from soon import within
from torch.utils.data import DataLoader

from pipebench.compare import as_made, proof, round_process, rounds
from pipebench.compare.config import Own
from pipebench.compare.server import HUGE_PAGES, Server, Side
from pipebench.errors import PipebenchError
from pipebench.runner import RunnerFailed

ALLOCATES = """
import ctypes, sys
from pipebench.host import heap
found = ctypes.CDLL(None).malloc
found.restype = ctypes.c_void_p
found(16)  # what a first call needs comes before
heap.settle()
kept = bytes(int(sys.argv[1]))
heap.end_at(48)
print(found(1 << 20) % heap.ALIKE)
"""


MAPPED = """
import resource, sys
from pipebench.host import heap
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
heap.settle()
heap.give_back()
heap.end_at(48)
if sys.argv[1] == "mapped":
    heap.map_free_memory()
before = faults()
kept = bytearray(b"1" * (8 << 20))
print(faults() - before)
"""


class Reading:
    """A runner whose calls take `call_s` of a clock that the round's process reads."""

    def __init__(self, side, call_s):
        self.s, self.call_s, self.calls = 0.0, call_s, 0
        side._clock.usual = side._clock.timer = lambda: self.s

    def reading(self, identity, calls):
        self.calls += 1
        self.s += self.call_s
        return self.call_s, None


@pytest.mark.parametrize(("call_s", "least", "calls"), [(0.01, 0, 3), (0.01, 1, 3), (9.0, 1, 1), (9.0, 0, 1)])
def test_a_call_that_takes_seconds_is_not_made_three_times(call_s, least, calls):
    side = round_process.Side(None)
    side._runner = Reading(side, call_s)
    assert side._fastest("x", round_process.WARM_S, least) == call_s
    assert side._runner.calls == calls


def test_a_start_that_took_longer_than_warming_up_may_is_warm_enough():
    side = round_process.Side(None)
    side._runner = Reading(side, 9.0)
    side._runner.s = 12.0
    side._fastest("x", round_process.WARM_S)
    assert side._runner.calls == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another libc has its own heap")
def test_large_buffers_of_sides_that_differ_a_little_lie_at_places_that_are_alike():
    """Whatever was allocated before: as in two commits of which one has a few more objects."""
    said = [
        subprocess.run([sys.executable, "-c", ALLOCATES, str(more)], capture_output=True, text=True, check=True).stdout
        for more in (0, 777, 123_456)
    ]
    assert len(set(said)) == 1 and int(said[0]) % 16 == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the heap of glibc")
def test_large_buffers_come_from_memory_that_is_mapped():
    def faults(how):
        plain = {name: value for name, value in os.environ.items() if name != HUGE_PAGES[0]}
        command = [sys.executable, "-c", MAPPED, how]
        return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=plain).stdout)

    pages = (8 << 20) // os.sysconf("SC_PAGE_SIZE")
    assert faults("mapped") < pages // 4 < pages <= faults("not")


def test_what_a_side_reads_by_its_path_is_not_taken_for_the_projects_code():
    names = {one.__name__ for one in vars(round_process).values() if isinstance(one, types.ModuleType)}
    beside = {name for name in names if name.startswith("pipebench_")}
    assert "pipebench_ready_clock" in beside
    assert beside | {f"pipebench_{name}" for name in round_process.SOURCES.values()} <= proof.OURS


def test_the_place_of_a_rounds_process_follows_from_a_number():
    side = round_process.Side(None)

    def sizes(*placement):
        side.begin(*placement)
        return [len(one) for one in side._padding]

    assert sizes(7) == sizes(7) != sizes(8)
    assert sizes() != sizes()


def test_a_process_that_runs_alone_stays_on_the_processor_that_the_number_says(monkeypatch):
    """Both sides of a round get one number: if one processor is slower than another, it slows both."""
    told = []
    monkeypatch.setattr(round_process.os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    monkeypatch.setattr(round_process.os, "sched_setaffinity", lambda process, on: told.append((process, on)))
    side = round_process.Side(None)
    monkeypatch.setattr(side, "build", lambda *_: told.append("built"))  # with all processors
    monkeypatch.setattr(side, "_fastest", lambda *_: None)

    def rearmed(number, alone):
        side.begin(number, alone)
        side.rearm("x", {}, ())

    for number in (*range(40), *range(40)):
        rearmed(number, True)
    assert told[::2] == ["built"] * 80
    stays = told[1::2]
    assert stays[:40] == stays[40:] and {one for _, (one,) in stays} == {0, 1, 2, 3}
    rearmed(1, False)  # with threads or workers of its own, which need all processors
    assert told[160:] == ["built"]


def test_a_rounds_process_does_not_collect_what_its_server_has(monkeypatch):
    """A collection in the fork would copy every page of the server's objects."""
    groups = []
    monkeypatch.setattr(round_process.os, "fork", lambda: 0)
    monkeypatch.setattr(round_process.os, "setpgid", lambda process, group: groups.append((process, group)))
    try:
        assert round_process._forked() and round_process.gc.get_freeze_count() > 1000
        assert groups == [(0, 0)]
    finally:
        round_process.gc.unfreeze()


def test_the_workers_of_a_round_end_with_it():
    before = len(multiprocessing.active_children())
    call = as_made.passing(DataLoader([1, 2, 3, 4], num_workers=1), 1, 4, False)
    assert call(None) == 4 and len(multiprocessing.active_children()) == before + 1
    side = round_process.Side(None)
    side._runner = types.SimpleNamespace(release=lambda: None)  # something else still holds the loader
    side.leave()
    assert len(multiprocessing.active_children()) == before
    del call


def test_a_loader_that_is_kept_is_copied_in_each_round(monkeypatch):
    made = []

    def make_loader():
        made.append(DataLoader([[1], [2]]))
        return made[-1]

    monkeypatch.setitem(sys.modules, "mine", types.SimpleNamespace(make_loader=make_loader))
    side = round_process.Side({"loader": "mine:make_loader"})
    side.start()
    side.keep("loader/own/workers-0")
    for _ in range(2):
        _, variant = side._find("loader/own/workers-0")
        assert variant.build(None)(None) == 2
    assert len(made) == 1
    assert not side.worth_keeping("loader/own/workers-0")


def test_a_side_is_told_only_what_is_not_as_usual():
    """An older pipebench in a side's environment knows fewer settings."""
    assert Own("a:b", samples=8).plain() == {"loader": "a:b", "samples": 8}


ENDING = """import os, signal, sys
def fine(): return int
def exits(): return sys.exit, 0
def leaves(): return os._exit, 0
def crashes(): return lambda: os.kill(os.getpid(), signal.SIGSEGV)
def broken(): raise KeyError("no")
def sleeps(): return __import__("time").sleep, 600
def forks(): return __import__("subprocess").run, ["sleep", "601"]
def daemon(): return abs, __import__("subprocess").call(["setsid", "--fork", "sleep", "602"])
"""


@pytest.fixture
def server(tmp_path):
    (tmp_path / "ending.py").write_text(ENDING)
    names = ("fine", "exits", "leaves", "crashes", "broken", "sleeps", "forks", "daemon")
    entries = [{"name": name, "setup": f"ending:{name}"} for name in names]
    made = Server(Side("one", tmp_path, roots=(tmp_path,)), {"sources": {"bench": entries}}, timeout_s=60.0)
    yield made
    made.close()


def asked(server, method, *arguments):
    server.send(method, *arguments)
    assert server._pipe.poll(60), "nobody answers"
    return server.receive()


def test_code_that_ends_its_process_has_failed_and_the_next_round_goes_on(server):
    server.send("start")
    assert server.start() == []
    for name, said in (
        ("exits", "SystemExit: 0"),
        ("leaves", "the round's process ended with status 0"),
        ("crashes", "the round's process ended with signal 11"),
        (
            "broken",
            "KeyError: 'no' (ending.py:6 in broken)",
        ),  # a place in the files of the commit
    ):
        asked(server, "fork")
        with pytest.raises(RunnerFailed) as failed:
            asked(server, "arm", f"bench/{name}", {}, 0.005)
        assert str(failed.value).startswith(said)
        server.recover()
    asked(server, "fork")
    assert asked(server, "arm", "bench/fine", {}, 0.005)["work"] == (1, 0, 0)
    server.leave()
    asked(server, "fork")


def _runs(process, command):
    try:
        return process.cmdline() == command
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("of_the_user", "of_the_side", "given"),
    [
        (None, (), HUGE_PAGES[1]),
        ("glibc.malloc.hugetlb=0", (), "glibc.malloc.hugetlb=0"),
        (None, ((HUGE_PAGES[0], ""),), ""),
    ],
)
def test_a_side_asks_for_huge_pages_unless_its_user_says_otherwise(
    of_the_user, of_the_side, given, tmp_path, monkeypatch
):
    monkeypatch.delenv(HUGE_PAGES[0], raising=False)
    if of_the_user is not None:
        monkeypatch.setenv(HUGE_PAGES[0], of_the_user)
    made = Server(Side("one", tmp_path, environment=of_the_side), None)
    try:
        process = psutil.Process(made._process.pid)
        with within(60):
            while not process.environ():  # for a moment after its start, a program has none
                time.sleep(0.01)
        assert process.environ()[HUGE_PAGES[0]] == given
    finally:
        made.close()


def test_a_daemon_of_a_benchmark_ends_with_its_side(server):
    """It has a session and a group of its own, and whoever has started it is gone."""
    server.send("start")
    server.start()
    asked(server, "fork")
    asked(server, "arm", "bench/daemon", {}, 0.005)
    mark = server._scratch.path.name
    until = time.monotonic() + 60
    while not (found := [one for one in psutil.process_iter() if _runs(one, ["sleep", "602"])]):
        assert time.monotonic() < until
    (daemon,) = found
    assert mark in daemon.environ()["PIPEBENCH_AB"] and os.getsid(daemon.pid) == daemon.pid
    server.leave()
    server.close()
    wait_for_the_end(daemon.pid)


def test_an_interruption_before_an_answer_is_read_leaves_no_traceback_on_the_side(server):
    server.send("start")
    server.start()
    server.send("echo", 1)
    assert server._pipe.poll(60)
    server.close()
    server.errors.seek(0)
    assert server.errors.read() == b""


def is_of(group, process):
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def wait_for_the_end(group):
    """Waits until no process of the group runs: those that were killed are reaped by whoever inherits them."""
    until = time.monotonic() + 30
    while any(is_of(group, one) for one in psutil.process_iter()):
        assert time.monotonic() < until


def test_a_call_that_does_not_end_fails_its_benchmark_and_the_next_round_goes_on(server):
    server.send("start")
    server.start()
    for name in ("sleeps", "forks"):
        asked(server, "fork")
        child = server._child
        server._timeout_s = 0.3
        server.send("arm", f"bench/{name}", {}, 0.005)
        with pytest.raises(RunnerFailed, match=r"no answer within 0\.3 s \(--timeout\): it builds the benchmark"):
            server.receive()
        server._timeout_s = 60.0
        server.recover()
        wait_for_the_end(child)  # with what it has started
    asked(server, "fork")
    assert asked(server, "arm", "bench/fine", {}, 0.005)["work"] == (1, 0, 0)


def test_a_server_that_does_not_answer_is_replaced_and_makes_again_what_it_had_made(server):
    server.send("start")
    server.start()
    asked(server, "prime", "bench/fine", {})
    first = server._process
    os.kill(first.pid, signal.SIGSTOP)
    server._timeout_s = 0.3
    server.send("prime", "bench/broken", {})
    with pytest.raises(RunnerFailed, match="it makes the inputs"):
        server.receive()
    server._timeout_s = 60.0
    server.recover()
    assert first.poll() is not None and server._process is not first
    assert [method for method, _ in server._kept] == ["start", "prime"]
    asked(server, "fork")
    assert asked(server, "arm", "bench/fine", {}, 0.005)["work"] == (1, 0, 0)


def test_a_side_that_begins_again_makes_again_what_it_had_made(server):
    server.send("start")
    server.start()
    asked(server, "prime", "bench/fine", {})
    asked(server, "fork")
    first, child = server._process, server._child
    server.leave()
    server.made_again(server.begin_again())
    assert first.poll() is not None and server._process.pid != first.pid
    wait_for_the_end(child)
    assert [method for method, _ in server._kept] == ["start", "prime"]
    asked(server, "fork")
    assert asked(server, "arm", "bench/fine", {}, 0.005)["work"] == (1, 0, 0)


def test_a_side_that_cannot_begin_again_is_named(server):
    server.send("start")
    server.start()
    os.kill(server._process.pid, signal.SIGKILL)
    server._executable = "/bin/false"
    with pytest.raises(PipebenchError, match="one does not start again: the one process left with exit status 1"):
        rounds._renew([], [server])


def test_an_import_that_does_not_end_stops_the_comparison_and_names_the_side(server):
    server._timeout_s = 0.0
    server.send("start")
    with pytest.raises(PipebenchError, match=r"one does not start: no answer within 0 s .*: it imports the code"):
        server.start()


def test_a_side_that_hangs_is_ended_when_the_comparison_is(server):
    server.send("start")
    server.start()
    asked(server, "fork")
    child = server._child
    server.send("arm", "bench/sleeps", {}, 0.005)
    server.close()
    assert server._process.poll() is not None
    wait_for_the_end(child)
