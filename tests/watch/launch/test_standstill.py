"""A watched command that is really stopped, and what its supervisor finds by a clock that is made up."""

import os
import signal
import time

import pytest

from pipebench.host.gaps import LEAST_S
from pipebench.render.watch_notes import sentence
from pipebench.watch.launch import supervisor
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.launch.over_time import OverTime
from pipebench.watch.launch.standstill import Standstill, Stop, Stops
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.notes import process_notes, standstill_notes, stopped_workers
from pipebench.watch.record.last_sample import LastSample
from pipebench.watch.record.lines import Moment, ProcessStarted
from pipebench.watch.record.worker_lines import WorkerGone

S = 1_000_000_000


@pytest.fixture
def once_stopped(monkeypatch, tmp_path):
    """Runs a command that stops itself, and sends it a signal as soon as its supervisor has seen that it stands."""

    def run(number, then):
        plain, pid = Stops.stopped, tmp_path / "pid"

        def stopped(stops):
            plain(stops)
            time.sleep(2 * LEAST_S)  # shorter ones are none
            os.kill(int(pid.read_text()), number)

        monkeypatch.setattr(Stops, "stopped", stopped)
        return supervisor.run_command(["sh", "-c", f"echo $$ > {pid}; kill -STOP $$; {then}"], os.environ)

    return run


def test_a_command_that_is_stopped_and_goes_on(once_stopped):
    ended = once_stopped(signal.SIGCONT, "exit 3")
    (stop,) = ended.stood.stops
    assert ended.status == 3 and ended.lived.began <= stop.began < stop.ended <= ended.lived.ended


def test_a_command_that_is_killed_while_it_is_stopped(once_stopped):
    ended = once_stopped(signal.SIGKILL, "exit 3")
    assert ended.signal == 9 and len(ended.stood.stops) == 1


class Clock:
    now = slept = 0

    def __call__(self):
        return self.now * S


@pytest.fixture
def clock():
    return Clock()


def test_of_a_stop_of_both_the_begin_is_when_the_supervisor_last_ran(clock):
    stops = Stops(clock, lambda: clock.slept)
    clock.now = 10
    stops.awake()
    clock.now = 25
    stops.continued()
    clock.slept = 60
    assert stops.found() == Standstill((Stop(10 * S, 25 * S),), 60)


def test_a_stop_that_nobody_could_see_is_left_out(clock):
    stops = Stops(clock, lambda: clock.slept)
    stops.stopped()
    stops.continued()
    clock.slept = 0.01
    assert stops.found() == Standstill()


def said(notes):
    return [sentence(one) for one in notes]


def test_what_stood_still_is_said():
    found = Standstill((Stop(14 * S, 15 * S), Stop(12 * S, 14 * S)), 60.0)
    suspended, stopped = said(standstill_notes(found, (10 * S, 20 * S)))
    assert suspended.startswith("The machine was suspended for 60.0 s")
    assert stopped.startswith(
        "The script was stopped 2 times, for 3.00 s in all (SIGSTOP or Ctrl-Z), first 2.00 s after"
    )


def run(*processes):
    return Run(list(processes), ShownTime(), ())


def script(*lines):
    return Process([ProcessStarted(1, "script", 0), *lines])


def worker(*lines, **more):
    return Process([ProcessStarted(7, "worker", 0, 1, 2, "fork"), *lines], **more)


def test_a_stopped_worker_is_said():
    seen = Footprint({7: Held(over_time=OverTime(looks=5, stopped=3))})
    (only,) = said(stopped_workers(run(script(), worker()), seen))
    assert only.startswith("Worker 2 of loader 1 (process 7) was stopped in 3 of 5 looks")


@pytest.mark.parametrize(
    ("status", "kills", "words"),
    [
        (0, None, "left with exit status 0 at sample 9, before its loader had ended"),
        (-9, 0, "was killed by SIGKILL at sample 9. The kernel counted no lack of memory"),
        (-9, 1, "was killed by SIGKILL at sample 9. Memory ran out, as the kernel counted"),
        (-9, None, "was killed by SIGKILL at sample 9. The kernel does so when memory runs out, but"),
        (-7, 1, "was killed by SIGBUS at sample 9. Shared memory was full"),
        (-11, None, "was killed by SIGSEGV at sample 9. A library crashed"),
    ],
)
def test_a_lost_worker_is_said_with_its_sample_and_the_evidence(status, kills, words):
    lost = run(script(WorkerGone(7, status)), worker(last=LastSample("9", True)))
    (only,) = said(process_notes(lost, 1, Footprint(memory_kills=kills)))
    assert only.startswith(f"Worker 2 of loader 1 (process 7) {words}")


def test_a_worker_that_ended_as_it_should_is_not_lost():
    lost = run(script(WorkerGone(7, 0)), worker(Moment("end", 5)))
    assert not said(process_notes(lost, 0, Footprint()))
