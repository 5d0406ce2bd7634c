"""Work between the passes of a loop without a loader, as looks find it: its row, its cause and its move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_loop import loader, result
from planted_runs import TRAINS, Planted

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.beginning import beginning
from pipebench.results.watched import Verdict
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.gather import Process
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import LoopLooks
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.trial_lines import BETWEEN, PlaceLooks

MS = 1_000_000
NORMALISES = PlaceLooks(70, ["Data.normalised", "stats"], 30, 3, 0, 0, own=2)


def _run(looks: int, ms: int, forward: int = 1400) -> Planted:
    run = Planted()
    run.loader(0, **{**TRAINS, "forward": forward}, workers=0)
    run.lines.append(LoopLooks(BETWEEN, "a/train.py", 3, [NORMALISES._replace(looks=looks)]))
    run.lines.append(LoopLooks(0, "a/train.py", 50, [], 40, outside_looks=looks, outside_ns=ms * MS))
    return run


def _rows(account: Account) -> dict[str, float]:
    return {one.code: one.s for one in account.rows}


def test_it_is_no_part_of_what_comes_before_the_backward() -> None:
    account = _run(30, 1000).account()
    rows = _rows(account)
    assert rows["outside-loops"] == pytest.approx(1.0) and rows["before-backward"] == pytest.approx(0.4)
    (cause,) = (one for one in account.causes if one.code == "outside-loops")
    assert cause.values["function"] == "stats" and cause.values["by"] == "Data.normalised"


@pytest.mark.parametrize(("looks", "ms", "moved"), [(19, 1000, 0.0), (30, 9000, 1.4)])
def test_a_few_looks_move_nothing_and_many_no_more_than_there_is(looks: int, ms: int, moved: float) -> None:
    assert _rows(_run(looks, ms).account()).get("outside-loops", 0.0) == pytest.approx(moved)


def test_the_report_begins_with_it_and_ends_with_its_move() -> None:
    run = _run(30, 1000)
    processes = [Process(run.lines)]
    found = summarise(processes, WatchOptions(warmup=0), 0, 4, Footprint(), lived=(0, run.now))
    assert [one.code for one in beginning(found).causes] == ["outside-loops"]
    assert {one.phase: one.share for one in found.loop}["before-backward"] == pytest.approx(0.4)
    assert sum(one.share for one in found.loop) == pytest.approx(1.0)
    told = next_move(found.next_move) or ""
    assert told.startswith("Next: do the work between the loops (stats, train.py:70) less often, or at less cost; or")
    assert "once, before them, if it gives the same each time. Now it takes 1.00 s of the run." in told


def test_a_short_evaluation_between_passes_is_no_next_step() -> None:
    account = _run(30, 200).account()
    assert "outside-loops" in {one.code for one in account.causes}
    assert move_of_run(None, account.causes, 4) is None


def test_what_could_save_more_comes_before_it() -> None:
    between = Cause("outside-loops", 2.0, values={"large": 1, "line": 70, "file": "train.py", "function": "stats"})
    larger, smaller = (Cause("callbacks", s, s) for s in (3.0, 1.0))
    for others, action in (([larger], "do-less-in-the-loop"), ([smaller], "do-less-between"), ([], "do-less-between")):
        move = move_of_run(None, [*others, between], 4)
        assert move is not None and move.action == action


def test_the_report_begins_with_what_its_next_step_is_about() -> None:
    """Beside a larger cause of which it is not known what could be saved."""
    between = Cause("outside-loops", 2.5, values={"large": 1, "line": 70, "file": "train.py", "function": "stats"})
    account = Account(8.0, (AccountRow("forward", 8.0, 1),), (Cause("python-loops", 3.0), between))
    run = replace(result(loader()), account=account, verdict=Verdict("training"))
    assert [one.code for one in beginning(run).causes] == ["python-loops"]
    move = move_of_run(None, account.causes, 4)
    assert [one.code for one in beginning(replace(run, next_move=move)).causes] == ["python-loops", "outside-loops"]
