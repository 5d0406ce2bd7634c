"""A reading says how much of it was waiting for a processor, and only where that is the host's doing."""

import subprocess
import sys
import types

import pytest

from pipebench.compare import ready_clock
from pipebench.compare.ready_clock import ReadyClock


@pytest.fixture
def host(monkeypatch, no_child_process):
    """A made-up host: what its clocks and its counter say. It has no child process unless a test starts one."""
    said = types.SimpleNamespace(now=0.0, waited=0.0, process=0.0, thread=0.0, counts=True)
    said.perf_counter = lambda: said.now
    said.process_time, said.thread_time = lambda: said.process, lambda: said.thread
    monkeypatch.setattr(ready_clock, "time", said)
    monkeypatch.setattr(ready_clock._Counter, "read_s", lambda self: said.waited if said.counts else None)
    return said


def running(host, cpu_s=0.002, waited_s=0.0, others_s=0.0):
    """A block that runs so long, waits for a processor so long, and lets others run in its process."""

    def block():
        host.now += cpu_s + waited_s
        host.waited += waited_s
        host.thread += cpu_s
        host.process += cpu_s + others_s

    return block


def test_the_waiting_of_a_block_is_told_apart_from_its_work(host):
    clock = ReadyClock()
    assert clock.elapsed(running(host, cpu_s=0.002, waited_s=0.009)) == pytest.approx(0.011)
    assert clock.waited_s == pytest.approx(0.009)
    assert clock.elapsed(running(host)) == pytest.approx(0.002)
    assert clock.waited_s == 0.0


@pytest.mark.parametrize("beside", ["before", "after"])
def test_an_interruption_beside_the_block_never_makes_a_reading_too_short(host, beside, monkeypatch):
    """The process is interrupted between a time and the counter: for the first or for the second counter."""
    turns = iter([beside == "before", beside == "after"])

    def interrupted(self):
        told = host.waited
        if next(turns):
            host.now += 0.004
            host.waited += 0.004
            told = host.waited if beside == "before" else told
        return told

    monkeypatch.setattr(ready_clock._Counter, "read_s", interrupted)
    clock = ReadyClock()
    seconds = clock.elapsed(running(host, cpu_s=0.002))
    assert seconds - clock.waited_s == pytest.approx(0.006)


@pytest.mark.parametrize(("others_s", "known"), [(0.0, True), (0.000_02, True), (0.001, False)])
def test_a_block_that_waits_for_its_own_threads_is_not_told_to_wait_for_the_host(host, others_s, known):
    clock = ReadyClock()
    clock.elapsed(running(host, cpu_s=0.004, waited_s=0.008, others_s=others_s))
    assert (clock.waited_s is not None) is known


def test_a_block_with_a_child_process_is_not_told_either(host):
    clock = ReadyClock()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        clock.elapsed(running(host, waited_s=0.008))
        assert clock.waited_s is None
    finally:
        child.communicate(b"\n")
    clock.elapsed(running(host, waited_s=0.008))
    assert clock.waited_s == pytest.approx(0.008)


def test_a_child_that_ended_within_the_block_counts_too(host):
    clock = ReadyClock()
    clock.elapsed(lambda: subprocess.run([sys.executable, "-c", "sum(range(10**5))"], check=True))
    assert clock.waited_s is None


def test_a_clock_of_a_benchmarks_own_has_no_waiting(host):
    clock = ReadyClock()
    clock.timer = lambda: host.now
    assert clock.elapsed(running(host, waited_s=0.008)) == pytest.approx(0.010)
    assert clock.waited_s is None


def test_a_kernel_that_does_not_count_it(host):
    host.counts = False
    clock = ReadyClock()
    assert clock.elapsed(running(host)) == pytest.approx(0.002)
    assert clock.waited_s is None


def test_a_missing_counter_is_asked_for_once(monkeypatch):
    asked = []

    def absent(path, flags):
        asked.append(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(ready_clock.os, "open", absent)
    counter = ready_clock._Counter()
    assert counter.read_s() is None and counter.read_s() is None
    assert asked == [ready_clock.COUNTER]
