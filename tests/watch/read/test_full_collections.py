"""Garbage collections that a training loop asks for: a cause with the line that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.trial_lines import FullCollected, LoopLooks


def _run(file: str, line: int, *, spent_ms: float = 400, loader: int = 1) -> Planted:
    run = Planted()
    run.loader(**TRAINS, other=500)
    run.lines.append(
        LoopLooks(loader, "train.py", 100, [], collected=FullCollected(int(spent_ms * MS), 100, file, line, 90))
    )
    return run


def _told(run: Planted) -> tuple[Any, str, str]:
    account = run.account()
    move = move_of_run(None, account.causes, 2.0)
    return account.causes[0], said(account), (next_move(move) if move is not None else "") or ""


def test_gc_collect_in_each_step_is_named_and_is_no_callback(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import gc\n\ndef clear():\n    gc.collect()\n")
    cause, text, move = _told(_run(str(script), 4))
    assert (cause.code, cause.s, cause.recoverable_s) == ("garbage-collection", pytest.approx(0.4), pytest.approx(0.4))
    assert text.startswith("gc.collect() in the loop (train.py:4) took 400 ms of")
    assert "Leaving it out could save about 400 ms (predicted, not tried)" in text
    assert move.endswith("call gc.collect() less often, such as once between passes (gc.collect, train.py:4).")
    other = next(one for one in _run(str(script), 4).account().causes if one.code == "callbacks")
    assert other.s == pytest.approx(0.1)


@pytest.mark.parametrize("how", [{"spent_ms": 10}, {"loader": 0}])
def test_few_or_between_the_loops_they_are_none(tmp_path: Path, how: Any) -> None:
    run = _run(str(tmp_path / "none.py"), 1, **how)
    assert "garbage-collection" not in run.causes()
