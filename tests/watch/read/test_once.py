"""What comes before the first loop: which function takes it, and a line that is known to be slow. Looks are made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planted_runs import MS, TRAINS, Planted, said
from render import made_up

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Cause
from pipebench.results.beginning import beginning
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.once import after_last, before_first
from pipebench.watch.record.lines import ProcessStarted
from pipebench.watch.record.program_lines import StartLooks
from pipebench.watch.record.trial_lines import LineLooks

TEXT = {
    12: "for _, row in table.iterrows():",
    13: "self.items.append(int(row['user']))",
    30: "data = Ratings(table)",
}
ROWS = LineLooks("a/train.py", "Ratings.__init__", 12, "pandas.DataFrame.iterrows", 40)
ITEMS = LineLooks("a/train.py", "Ratings.__init__", 13, "pandas.Series.__getitem__", 25)
IMPORTS = 20


def _text(file: str, line: int) -> str:
    return TEXT.get(line, "")


def _found(*lines: LineLooks, looks: int = 100, ends: float = 1.0, imports: int = 0) -> dict[str, str | int | float]:
    line = StartLooks(0, int(10e9 * ends), looks, list(lines), imports)
    return before_first(Run([Process([ProcessStarted(1, "script", 0), line])], ShownTime(), ()), 10.0, 10.0, _text)


def test_the_function_with_most_is_named_with_its_line_and_imports_beside_it():
    found = _found(ROWS, ITEMS, imports=IMPORTS)
    assert {name: found[name] for name in ("file", "line", "function", "share", "imports")} == {
        "file": "a/train.py", "line": 12, "function": "Ratings.__init__", "share": 0.65, "imports": 0.2,
    }  # fmt: skip
    assert found["title"] == "columns in place of rows" and found["line_share"] == 0.4


@pytest.mark.parametrize(
    ("lines", "more"),
    [
        ((ROWS,), {"looks": 15}),  # too few looks
        ((ROWS,), {"ends": 0.5}),  # they ended in the middle, as at a fork
        ((), {}),  # a library's own work
    ],
)
def test_looks_that_do_not_say_it_name_nothing(lines, more):
    assert _found(*lines, **more) == {}


def test_shares_are_of_all_that_comes_before_the_first_loop():
    """As the bar of the report is: Python and pipebench start, too."""
    line = StartLooks(0, 10_000 * MS, 100, [ROWS, ITEMS], IMPORTS)
    run = Run([Process([ProcessStarted(1, "script", 0), line])], ShownTime(), ())
    assert before_first(run, 10.0, 12.5, _text)["share"] == pytest.approx(0.52)


def test_a_function_with_a_small_part_is_not_named():
    assert _found(ROWS._replace(looks=20), imports=IMPORTS) == {"imports": 0.2}


WAITS = {40: "    xs = pool.map(work, range(800))", 41: "print(os.waitpid(pid, 0)[1])", 42: "x = self.os_wait(3)"}


@pytest.mark.parametrize(
    ("line", "calls", "waits"),
    [
        (40, "multiprocessing.Pool.map", {"waits": "multiprocessing.Pool.map", "for_process": 1}),
        (40, "threading.Thread.join", {"waits": "threading.Thread.join"}),
        (40, "pandas.read_csv", {}),
        (41, "", {"waits": "os.waitpid", "for_process": 1}),
        (42, "", {}),
    ],
)
def test_a_line_that_waits_is_told_with_what_it_waits_in(line, calls, waits):
    """As a pool before the first loop, or a child after the last one."""
    seen = [LineLooks("a/train.py", "", line, calls, 80)]
    known = {"file": "a/train.py", "line": line, "share": 0.8, **waits}
    before, after = StartLooks(0, 10_000 * MS, 100, seen), StartLooks(0, 10_000 * MS, 100, seen, after=True)
    run = Run([Process([ProcessStarted(1, "script", 0), before])], ShownTime(), ())
    found = before_first(run, 10.0, 10.0, lambda _, at: WAITS.get(at, ""))
    assert {name: found[name] for name in found if name in ("file", "line", "share", "waits", "for_process")} == known
    assert after_last(run, 10.0, 10.0) == {}
    run = Run([Process([ProcessStarted(1, "script", 0), after])], ShownTime(), ())
    assert after_last(run, 10.0, 10.0, lambda _, at: WAITS.get(at, "")) == known
    assert before_first(run, 10.0, 10.0) == {}


@pytest.mark.parametrize(("waits", "told"), [(300, True), (5000, False)])
def test_a_wait_for_a_process_after_the_last_loop_is_said_where_it_is_longer(waits, told, monkeypatch):
    monkeypatch.setattr("pipebench.watch.read.once.after_last.__defaults__", (lambda _, at: WAITS.get(at, ""),))
    run = Planted()
    run.loader(passes=4, wait_for_worker=waits, **TRAINS)
    run.outside(9000, "after")
    run.worker(busy=1.0)
    run.lines.append(StartLooks(0, 9000 * MS, 100, [LineLooks("a/train.py", "", 41, "", 90)], after=True))
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "after-loops")
    assert cause.values["waits"] == "os.waitpid"
    text = said(account)
    assert ("90 % of it train.py:41 → os.waitpid, which waits for another process. Until that ends, " in text) == told


def _account(seconds: int, looks: StartLooks | None):
    run = Planted()
    run.outside(seconds * 1000, "before")
    run.loader(passes=4, wait_for_worker=300, **TRAINS)
    run.worker(busy=1.0)
    run.lines += [looks] if looks else []
    return run.account()


def test_a_change_that_saves_most_comes_first_and_is_the_next_step(monkeypatch):
    monkeypatch.setattr("pipebench.watch.read.once.before_first.__defaults__", (_text,))
    looks = StartLooks(0, 20_000 * MS, 100, [ROWS, ITEMS], IMPORTS)
    account = _account(20, looks)
    (cause,) = (one for one in account.causes if one.code == "before-loops")
    assert cause.recoverable_s == pytest.approx(0.4 * cause.s)
    text = said(account)
    assert "65 % of it Ratings.__init__ (train.py:12), 20 % imports." in text
    assert "train.py:12 is known to be slow: a change to columns in place of rows could save up to 8.0" in text
    move = move_of_run(None, account.causes, 4)
    assert next_move(move).startswith(
        "Next: change train.py:12 (Ratings.__init__, 40 % of what comes before the first loop) to columns in place of"
    )
    found = replace(made_up.watched(), account=account, next_move=move)
    assert beginning(found).causes[0].code == "before-loops"
    assert beginning(found).code == "other-cause"


def test_without_a_line_that_is_known_it_is_no_next_step(monkeypatch):
    account = _account(20, StartLooks(0, 20_000 * MS, 100, [ITEMS._replace(calls="", looks=70)]))
    (cause,) = (one for one in account.causes if one.code == "before-loops")
    assert cause.recoverable_s is None
    assert "70 % of it Ratings.__init__ (train.py:13)." in said(account)
    found = replace(made_up.watched(), account=account)
    assert [one.code for one in beginning(found).causes][-1] == "before-loops"


def test_no_looks_leave_the_sentence_as_it_was():
    assert "Imports, data set and model, before the first loop, took 20.1 s of the run's 25.3 s (79 %), once." in said(
        _account(20, None)
    )


def test_what_saves_less_than_the_loops_comes_after_them():
    account = replace(
        made_up.watched().account,
        causes=(Cause("stage", 5.0, 4.0, 1), Cause("before-loops", 6.0, 3.0, values={"title": "x"})),
    )
    assert [one.code for one in beginning(replace(made_up.watched(), account=account)).causes] == ["stage"]
