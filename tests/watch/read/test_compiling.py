"""What torch's compiler takes of a loop is a cause if that goes on, else told as done once. The looks are made up."""

from __future__ import annotations

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_notes import sentence
from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account
from pipebench.results.watched import Note
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.pauses import pause_notes
from pipebench.watch.record.lines import LoopLooks, ProcessStarted
from pipebench.watch.record.trial_lines import CompilingLooks, LineLooks

MS = 1_000_000
ONCE = CompilingLooks(20, 600 * MS, 100 * MS, 2, 3)


def _account(*compiling: CompilingLooks, lines: int = 0) -> Account:
    """Each is of five iterations, but the last."""
    run = Planted()
    run.loader(**{**TRAINS, "forward": 1400}, cpu=2000)
    run.worker(busy=0.1, cpu=1.0)
    for at, one in enumerate(compiling):
        turns = 5 if at < len(compiling) - 1 else 95
        found = [LineLooks("a/train.py", "step", 12, "append", lines)] if lines else []
        looks = LoopLooks(1, "a/train.py", turns, [], 100, lines=found, forward_lines=found, compiling=one)
        run.lines.append(looks)
    return run.account()


def _notes(*compiling: CompilingLooks) -> list[Note]:
    lines = [LoopLooks(1, "a/train.py", 5, [], 100, compiling=one) for one in compiling]
    return list(pause_notes(Run([Process([ProcessStarted(1, "script", 0), *lines])], ShownTime(), (1,)), [1]))


def test_what_goes_on_is_told_with_what_comes_after_the_first_iterations() -> None:
    account = _account(ONCE, ONCE._replace(looks=40, turns=30, forward_ns=400 * MS, other_ns=0, graphs=38))
    (cause,) = (one for one in account.causes if one.code == "compiling")
    assert (cause.s, cause.recoverable_s) == pytest.approx((1.1, 0.4))
    told = said(account)
    assert "torch.compile compiled in 32 iterations or more (38 graphs): about 1.10 s of the run's" in told
    assert "Compiling once, at the start, could save about 400 ms (predicted, not tried). Inputs of other" in told
    assert (next_move(move_of_run(None, account.causes, 4)) or "").startswith("Next: compile less often: TORCH_LOGS=")


def test_many_graphs_in_one_written_line_go_on() -> None:
    assert "compiling" in {one.code for one in _account(ONCE._replace(turns=6)).causes}


@pytest.mark.parametrize("second", [CompilingLooks(graphs=3), ONCE._replace(looks=10, turns=3)])
def test_what_is_compiled_in_few_iterations_is_noted_as_done_once(second: CompilingLooks) -> None:
    """As in the first ones, and for a last batch that is smaller."""
    assert "compiling" not in {one.code for one in _account(ONCE, second).causes}
    (note,) = _notes(ONCE, second)
    assert note.values == {"loader": 1, "s": pytest.approx(0.7 * (1 + (second.looks > 0)))}
    assert sentence(note).endswith(
        "of the loop over loader 1, in a few iterations: once, if no inputs of other sizes come."
    )


def test_what_goes_on_is_no_note() -> None:
    assert not _notes(ONCE, ONCE._replace(turns=4))


@pytest.mark.parametrize("compiling", [CompilingLooks(), CompilingLooks(9, 900 * MS, 0, 9, 9)])
def test_too_few_looks_tell_nothing(compiling: CompilingLooks) -> None:
    assert "compiling" not in {one.code for one in _account(CompilingLooks(), compiling).causes}
    assert not _notes(compiling)


def test_other_looks_are_of_forward_without_the_compiler() -> None:
    """Half of the looks outside the compiler found a line: it took half of 1.4 s without 0.6 s."""
    account = _account(ONCE, CompilingLooks(), lines=50)
    (cause,) = (one for one in account.causes if one.code != "training" and one.values.get("line") == 12)
    assert cause.s == pytest.approx(0.4)
