"""A single rank of a watched command that is stopped: looks from outside see it, and the notes name the rank."""

import os
import signal
import subprocess

import psutil

from pipebench.render.watch_notes import sentence
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.launch.over_time import OverTime
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.read.gather import Process
from pipebench.watch.read.programs import Records, stopped_programs
from pipebench.watch.record.lines import ProcessStarted
from pipebench.watch.record.program_lines import RankFound


def test_a_look_at_a_process_that_is_really_stopped_counts_it():
    process, seen = subprocess.Popen(["sleep", "60"]), OverTime()
    try:
        seen.note(0.0, psutil.Process(process.pid))
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        seen.note(1.0, psutil.Process(process.pid))
    finally:
        process.kill()
        process.wait()
    assert (seen.looks, seen.stopped) == (2, 1)


def of_rank(number, stopped):
    process = Process([ProcessStarted(100 + number, "script", 0), RankFound(number, 2, number, "here")])
    return Records([process], Footprint({process.pid: Held(over_time=OverTime(looks=9, stopped=stopped))}), Looks())


def test_the_rank_that_was_stopped_is_named():
    (note,) = stopped_programs([of_rank(0, 0), of_rank(1, 3)], told=7)
    assert sentence(note).startswith("Rank 1 (process 101) was stopped in 3 of 9 looks from outside (SIGSTOP).")


def test_of_the_command_itself_the_stops_are_known_exactly():
    assert not list(stopped_programs([of_rank(1, 3)], told=101))
