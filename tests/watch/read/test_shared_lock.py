"""Workers that wait for one another at a lock: the lock is the cause, whatever they do inside it."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import Planted, said

from pipebench.render import watch_verdict
from pipebench.results.account import Account
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.watch.read.locks import at_lock
from pipebench.watch.read.moves_of_run import move_of_run

ENTERS = "multiprocessing.SemLock.__enter__"
WITH = "with self.lock:"


def _row(
    *, row: float = 0.4, share: float = 0.6, off: float = 0.1, text: str = WITH, calls: str = ENTERS, loader: int = 1,
    at_lock: float | None = None,
) -> DrilledRow:  # fmt: skip
    line = DrilledLine(
        "a/train.py", "Archive.read", 11, calls, text, 60, share, share - off, share + off, at_lock=at_lock
    )
    other = DrilledLine("a/train.py", "Archive.read", 12, "", "raw = f.read(n)", 40, 0.3, 0.2, 0.4)
    return DrilledRow(loader, "Archive.read", "function", row, 100, 0, (other, line))


def _account(monkeypatch: pytest.MonkeyPatch, *rows: DrilledRow, **how: Any) -> Account:
    monkeypatch.setattr("pipebench.watch.read.summary.drilled_rows", lambda *_: rows)
    run = Planted()
    run.loader(wait_for_worker=900, forward=30, backward=70, workers=how.get("workers", 2))
    for number in range(how.get("workers", 2)):
        run.worker(number, cpu=how.get("cpu", 0.1), core_wait_ns=how.get("no_core", 0))
    return run.account(2)


@pytest.mark.parametrize("no_core", [0, 800_000_000])  # on a loaded machine they wait for a core, too
def test_a_lock_is_the_cause_and_more_workers_are_no_step(no_core: int, monkeypatch: pytest.MonkeyPatch) -> None:
    account = _account(monkeypatch, _row(), no_core=no_core)
    found = account.causes[0]
    assert (found.code, found.s) == ("shared-lock", pytest.approx(0.9))
    assert found.recoverable_s == pytest.approx(0.4 * 0.6 * 1.0)  # of the loop
    told = said(account)
    assert "For 24 % of their time they wait for one another at a lock: Archive.read (train.py:11). The same" in told
    move = move_of_run(None, account.causes, 2.0)
    assert move is not None and move.action == "read-without-lock"
    text = watch_verdict.next_move(move) or ""
    assert "without the lock they share (Archive.read, train.py:11)" in text and "num_workers" not in text


def test_a_lock_that_shares_its_line_with_the_work_is_known_by_what_the_line_calls() -> None:
    one_line = "with self.lock: time.sleep(.010)"
    assert at_lock([_row(text=one_line)], 1) is not None
    assert at_lock([_row(text=one_line, calls="")], 1) is None


LOCKS_AND_WORKS = 'with open("a:lock") as f: fcntl.flock(f, fcntl.LOCK_EX); time.sleep(0.006)'


@pytest.mark.parametrize(
    ("text", "at_lock", "waits"),
    [
        (LOCKS_AND_WORKS, 0.5, 0.5),  # what the kernel says, not the work inside the lock
        (LOCKS_AND_WORKS, 0.1, None),
        (LOCKS_AND_WORKS, None, None),  # nobody knows
        ("self.lock.acquire(); x = self.read(i)", 0.5, 0.5),
        ("fcntl.flock(f, fcntl.LOCK_EX)  # a; b", None, 1.0),
        ("with self.lock as held, open(name) as f:", 0.0, 1.0),  # a lock of another kind
        ("while not self.lock.acquire(timeout=0.1):", None, 1.0),
    ],
)
def test_a_line_that_does_more_waits_as_long_as_the_kernel_says(
    text: str, at_lock: float | None, waits: float | None
) -> None:
    found = at_lock_of(_row(text=text, calls="", at_lock=at_lock))
    assert found == (None if waits is None else pytest.approx(0.24 * waits))


def at_lock_of(row: DrilledRow) -> float | None:
    found = at_lock([row], 1)
    return None if found is None else found.share


def test_it_saves_no_more_than_the_loop_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _account(monkeypatch, _row(row=0.99, share=0.98, off=0.01), cpu=0.05).causes[0]
    assert found.recoverable_s == pytest.approx(0.9)


def test_it_saves_no_more_than_the_cores_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    without = _account(monkeypatch, _row(row=0.9, share=0.8), cpu=0.1).causes[0]
    few = _account(monkeypatch, _row(row=0.9, share=0.8), cpu=0.8).causes[0]
    assert without.recoverable_s == pytest.approx(0.72)
    values = few.values
    free = 0.9 * float(values["usable_cores"]) - float(values["script_cores"])
    assert few.recoverable_s == pytest.approx(1 - float(values["cores_used"]) / free)


def test_one_worker_waits_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    account = _account(monkeypatch, _row(), workers=1)
    assert "shared-lock" not in [one.code for one in account.causes]


@pytest.mark.parametrize(
    "row",
    [
        _row(calls="multiprocessing.SemLock.__exit__"),  # it lets others work
        _row(text="raw = self.blocks[i]", calls="numpy.take"),
        _row(off=0.4),  # it may be little
        _row(row=0.1),
        _row(loader=2),
    ],
)
def test_other_lines_are_no_wait_at_a_lock(row: DrilledRow) -> None:
    assert at_lock([row], 1) is None


def test_the_line_with_most_of_the_time_is_told() -> None:
    found = at_lock([_row(), _row(row=0.6)], 1)
    assert found is not None and found.share == pytest.approx(0.36)
