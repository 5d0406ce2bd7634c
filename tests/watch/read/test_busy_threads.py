"""A thread of the script that keeps the interpreter from the loop, told from threads that compute in C or sleep."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.host.machine import Load
from pipebench.render import watch_verdict
from pipebench.results.account import Account, Cause
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.trial_lines import ThreadLooks, ThreadsBeside

_SECOND = 1000 * MS


def _spins(cpu_ms: int = 900, line: int = 53, name: str = "Feeder", function: str = "Feeder.run") -> ThreadLooks:
    return ThreadLooks(name, "/home/me/train.py", function, line, 9, cpu_ms * MS)


def _run(
    *threads: ThreadLooks, idle: int | None = None, cores: float = 4, footprint: Footprint | None = None, **beside: Any
) -> Account:
    """A loop of one second, of which its thread used a core for 0.3 s, and waited for one for 0.1 s."""
    found = {"wall_ns": _SECOND, "cpu_ns": 300 * MS, "core_wait_ns": 100 * MS, "windows": 40, "off": 36.0, "held": 30.0}
    run = Planted()
    run.loader(**TRAINS, idle=idle)
    run.lines.append(ThreadsBeside(1, threads=list(threads or [_spins()]), **{**found, **beside}))
    return run.account(cores, footprint)


def _told(account: Account) -> list[Cause]:
    return [one for one in account.causes if one.code == "busy-thread"]


def test_a_thread_that_spins_beside_the_loop() -> None:
    """Of the 0.6 s in which the loop neither ran nor had no core, another thread had the interpreter in five sixths.

    It had the core, too, for which the loop waited: nobody else did.
    """
    account = _run()
    (cause,) = _told(account)
    assert cause.s == cause.recoverable_s == pytest.approx(0.5 + 0.1)
    assert account.causes[0] == cause and not cause.unsure and not cause.on_device
    assert cause.values == {
        "thread": "Feeder", "threads": 1, "cores": pytest.approx(0.9), "file": "/home/me/train.py", "line": 53,
        "function": "Feeder.run", "core_s": pytest.approx(0.1),
    }  # fmt: skip
    text = said(account)
    assert text.startswith(
        "Another thread of the script keeps the interpreter (the GIL) from the loop: that held it up for 600 ms of the "
    )
    assert ", 100 ms of it without a core. " in text
    assert "Beside it, the thread Feeder used 0.9 cores in Feeder.run (train.py:53)." in text
    assert (
        "To block or to sleep in place of polling, or to move the work into a process, could save about 600 ms" in text
    )
    move = move_of_run(None, account.causes, 4)
    said_next = watch_verdict.next_move(move) if move is not None else None
    assert said_next is not None and "queue.Queue" in said_next and "Condition" in said_next


@pytest.mark.parametrize(
    "beside",
    [
        {"held": 3.0},  # the thread computes in C, or the loop waits for its batches
        {"windows": 0, "off": 0.0, "held": 0.0},  # the loop never waits
        {"windows": 9, "off": 9.0, "held": 9.0},  # too few
        {"cpu_ns": 880 * MS},  # the loop is hardly held up
        {"core_wait_ns": 690 * MS},  # all cores are taken by others
    ],
    ids=["in C", "no wait", "few", "little", "no cores"],
)
def test_what_is_no_thread_that_holds_the_loop_up(beside: dict[str, Any]) -> None:
    assert not _told(_run(**beside))


def test_threads_that_mostly_sleep_are_not_named() -> None:
    assert not _told(_run(_spins(cpu_ms=200)))


def test_the_loop_waits_for_no_longer_than_the_thread_runs() -> None:
    (cause,) = _told(account := _run(_spins(cpu_ms=400), core_wait_ns=0))
    assert cause.s == pytest.approx(0.4) and "without a core" not in said(account)


def test_other_processes_take_cores_from_the_loop_as_well() -> None:
    """They use 2.7 of three cores, three times as many as the thread."""
    busy = Footprint(load=Load(10.0, 27.0, 0.0), machine_cores=3)
    (cause,) = _told(_run(cores=3, footprint=busy))
    assert cause.values["core_s"] == pytest.approx(0.1 / 4)


def test_workers_take_cores_from_the_loop_as_well() -> None:
    """Two of them use a core each, as the thread does."""
    run = Planted()
    run.loader(**TRAINS)
    run.worker(0)
    run.worker(1)
    run.lines.append(ThreadsBeside(1, 1000 * MS, 300 * MS, 100 * MS, 40, 36.0, 30.0, [_spins()]))
    (cause,) = _told(run.account(2))
    assert 0.02 < float(cause.values["core_s"]) < 0.05


def test_threads_of_one_function_are_named_together() -> None:
    threads = [_spins(cpu_ms=300, name="Reader-1"), _spins(cpu_ms=500, name="Reader-2", line=54), _spins(cpu_ms=10)]
    account = _run(*threads, _spins(cpu_ms=10, line=54))
    (cause,) = _told(account)
    assert (cause.values["thread"], cause.values["threads"], cause.values["line"]) == ("Reader-2", 3, 53)
    assert not cause.unsure and "3 threads (such as Reader-2) used 0.8 cores in Feeder.run" in said(account)


def test_of_threads_with_several_functions_any_may_be_the_cause() -> None:
    (cause,) = _told(_run(_spins(cpu_ms=500), _spins(cpu_ms=800, function="decode")))
    assert cause.values["function"] == "decode" and cause.unsure


def test_beside_a_device_nothing_is_said_to_be_saved() -> None:
    """The loop may have waited for the device."""
    (cause,) = _told(_run(idle=0))
    assert cause.recoverable_s is None and cause.on_device
