"""Processes that are not waited for by us: when they exited, in their order, and how."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from render import made_up

from pipebench.render import layout, screen, watch
from pipebench.render.watch_notes import after_signal, sentence
from pipebench.results.watched import Note
from pipebench.watch import command
from pipebench.watch.launch.exits import Exit, Exits, exits_noted
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.supervisor import Ended, Lifetime
from pipebench.watch.read.notes import script_killed

PATIENCE_S = 30.0


@contextmanager
def _process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command or ("sleep", "60"), stdin=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _until(exits: Exits, count: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while len(exits.found) < count and time.monotonic() < end:
        exits.wait()


def _raised(error: Exception) -> None:
    raise error


@pytest.fixture(autouse=True)
def _with_descriptors_of_processes() -> None:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (OSError, AttributeError):
        pytest.skip("this system has no pidfd_open")


def test_the_order_of_exits_and_their_signals_are_known_before_a_parent_asks() -> None:
    exits = Exits()
    with _process() as first, _process() as second:
        for one in (first, second):
            exits.follow(one.pid)
        second.kill()
        _until(exits, 1)
        assert list(exits.found) == [second.pid] and exits.found[second.pid].status == -signal.SIGKILL
        first.terminate()
        _until(exits, 2)
        assert exits.found[first.pid].status == -signal.SIGTERM
        assert exits.found[first.pid].at > exits.found[second.pid].at
    exits.close()


def test_an_exit_status_is_known_unless_the_parent_has_asked_for_it() -> None:
    exits = Exits()
    with _process("sh", "-c", "read line; exit 3") as leaves, _process() as gone:
        exits.follow(leaves.pid)
        exits.follow(gone.pid)
        gone.kill()
        gone.wait()
        assert leaves.stdin is not None
        leaves.stdin.close()
        _until(exits, 2)
    assert (exits.found[gone.pid].status, exits.found[leaves.pid].status) == (None, 3)
    exits.follow(gone.pid)  # it is gone, so nothing is waited for
    exits.close()


def test_what_exits_while_a_block_runs_is_noted_and_no_descriptor_stays_open() -> None:
    exits = Exits()
    with _process() as ends, _process() as stays:
        before = set(os.listdir("/proc/self/fd"))
        with exits_noted(exits, _raised):
            exits.follow(ends.pid)
            exits.follow(stays.pid)
            ends.kill()
            os.waitid(os.P_PID, ends.pid, os.WEXITED | os.WNOWAIT)
        assert set(exits.found) == {ends.pid}
        assert set(os.listdir("/proc/self/fd")) <= before
    assert not any(one.name == "pipebench exits" for one in threading.enumerate())


@pytest.mark.parametrize(
    ("number", "memory_kills", "said"),
    [
        (signal.SIGKILL, 0, "find what sent SIGKILL: the log of your scheduler, or dmesg."),
        (signal.SIGKILL, 1, "use fewer workers or smaller batches, or raise the limit of memory."),
        (signal.SIGSEGV, None, "find the line that crashed: python -X faulthandler prints it."),
    ],
)
def test_a_script_that_a_signal_ended_has_a_next_move(number: int, memory_kills: int | None, said: str) -> None:
    notes = list(script_killed(number, Footprint(memory_kills=memory_kills), None))
    assert after_signal(notes) == f"Next: {said} These figures are of the time before."
    assert after_signal([Note("suspended")]) is None
    result = replace(made_up.watched(), next_move=None, notes=(*notes, *[Note("suspended", {"s": 60.0})] * 3))
    shown = layout.text(screen.fitted(watch.parts(result), 80, ""), width=80)
    assert sentence(notes[0]).split(":")[0] in shown and f"\nNext: {said}" in shown  # a screen has room for both
    assert "\nThen:" not in shown


def test_a_signal_that_asks_a_script_to_end_is_no_next_move() -> None:
    """As `timeout` sends it: what the figures show is told, and the note says that they end there."""
    notes = list(script_killed(signal.SIGTERM, Footprint(), None))
    assert after_signal(notes) is None
    said = "The script was ended by SIGTERM: its records have no end. These figures are of the time before."
    assert sentence(notes[0]) == said


def test_how_the_own_process_of_a_command_ended_is_known_without_asking() -> None:
    ended = Ended(137, signal.SIGKILL, Lifetime(1, 5), pid=7)
    assert command.own_exit(ended) == {7: Exit(5, -9)}
    assert command.own_exit(replace(ended, status=3, signal=None)) == {7: Exit(5, 3)}
    assert command.own_exit(replace(ended, status=0, signal=None)) == {7: Exit(5)}
    assert command.own_exit(replace(ended, lived=None)) == {}


def test_a_script_that_a_signal_ended_has_a_note() -> None:
    (note,) = script_killed(signal.SIGKILL, Footprint(memory_kills=0), (0, 5_000_000_000))
    assert sentence(note) == "The script was ended by SIGKILL after 5.00 s: its records have no end."
    (note,) = script_killed(signal.SIGKILL, Footprint(memory_kills=1), None)
    assert sentence(note).startswith("The script was ended by SIGKILL: its records have no end. Memory ran out")
    assert not list(script_killed(None, Footprint(), None))
