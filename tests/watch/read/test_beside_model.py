"""Work besides the model in loops that do not train, such as metrics. The looks are made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import loader, result
from planted_runs import MS, TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.moves import in_its_words
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import LoaderFound, LoadersTogether, LoopSums
from pipebench.watch.record.record_file import TRANSFER
from pipebench.watch.record.sample_calls import LineRun, LineRuns
from pipebench.watch.record.trial_lines import BETWEEN, LineLooks, LoopLooks, PlaceLooks


def _at(*functions: str, looks: int = 40, own: int = 1, line: int = 50, apart: bool = True) -> PlaceLooks:
    return PlaceLooks(line, list(functions), looks, looks, MS, MS, own=own, apart=apart)


_MODEL = 10  # looks


def _run(*places: PlaceLooks, later: int = _MODEL, turns: int = 100, waits: int = 100, **how: Any) -> Planted:
    """Two seconds of validation, besides its waits, beside one of training."""
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, make_batch=waits, other=2000, workers=0, **how)
    run.lines += [LoopLooks(2, "/home/me/eval.py", turns, list(places), 0, later)]
    return run


def _text(run: Planted) -> str:
    return said(run.account())


def test_metrics_are_told_with_their_place_and_are_what_to_change() -> None:
    account = _run(_at("metrics", "metrics.<locals>.<lambda>", own=2)).account()
    cause = account.causes[0]
    assert cause.code == "validation" and cause.recoverable_s == cause.values["apart_s"] == pytest.approx(1.6)
    assert (
        "1 pass over loader 2. Work besides the model (metrics, decoding, plots) took about 1.60 s of that. Most of "
        "it: metrics, called in eval.py:50. Doing it at less cost, or less often, could save up to 1.60 s (predicted "
        "from stack samples, not tried). Up to 100 ms of that could be saved by faster loading"
    ) in said(account)
    move = in_its_words(
        move_of_run(None, account.causes, 2.0), result(replace(loader(), loader=2, file="t.py", line=9))
    )
    assert next_move(move) == (
        "Next: in the loops that do not train, do the work besides the model (metrics, eval.py:50) at less cost, or "
        "less often. Now it takes about 1.60 s of the run."
    )


def test_a_line_of_metrics_that_runs_for_each_element_is_what_to_change() -> None:
    run = _run(_at("metrics", own=1))
    (looks,) = (one for one in run.lines if isinstance(one, LoopLooks))
    looks.besides.append(LineLooks("/home/me/eval.py", "metrics", 13, "", 40))
    run.lines.append(LineRuns(2, "iteration", "before", True, 20 * MS, [LineRun("/home/me/eval.py", 13, 4000)]))
    account = run.account()
    assert "Inside, 100 % is eval.py:13 (runs 4,000 times an iteration). Doing it" in said(account)
    move = next_move(move_of_run(None, account.causes, 2.0)) or ""
    assert move.startswith(
        "Next: change eval.py:13 (metrics, 100 % of this work, runs 4,000 times an iteration) to work on many "
        "items at once. Python runs it for one item at a time. "
    )


def test_where_such_loops_wait_for_longer_loading_stays_the_move() -> None:
    account = _run(_at("metrics"), waits=1700).account()
    move = move_of_run(None, account.causes, 2.0)
    assert move is not None and (move.action, move.function, move.line) == ("load-validation-faster", "", 0)
    assert "Most of it: metrics, called in eval.py:50." in said(account)


@pytest.mark.parametrize(
    ("places", "more"),
    [
        ([_at("metrics")], {"later": 60}),  # the model takes most of it
        ([_at("metrics", looks=14)], {"later": 6}),  # by chance
        ([_at("metrics", looks=15)], {"later": 0}),  # too few looks
        ([_at("metrics")], {"turns": 7}),  # too few batches
        ([_at("score", apart=False)], {}),  # operations of torch: a model, as far as is known
        ([_at("metrics"), _at("score", looks=30, apart=False)], {}),
    ],
)
def test_nothing_is_told_where_the_model_may_take_most(places: list[PlaceLooks], more: dict[str, Any]) -> None:
    assert "besides the model" not in _text(_run(*places, **more))


def test_lines_of_the_loop_itself_count_together() -> None:
    """As of a confusion matrix that is counted there."""
    text = _text(_run(_at(looks=18, line=51), _at(looks=17, line=52), _at("plot", looks=10, line=60)))
    assert "Most of it: eval.py:51. Doing it" in text


def test_less_than_half_of_it_is_not_most() -> None:
    text = _text(_run(*(_at(name, looks=looks) for name, looks in (("a", 20), ("b", 16), ("c", 12)))))
    assert "The largest part of it: a, called in eval.py:50." in text


def test_the_innermost_function_that_has_half_of_it_is_named() -> None:
    inner = [_at("Task.validation_step", one, "distance", own=3, looks=20) for one in ("Task.words", "Task.letters")]
    text = _text(_run(*inner, _at("Task.validation_step", "Task.log", own=2, looks=4)))
    assert "Most of it: Task.validation_step, called in eval.py:50." in text
    inner = [_at("Task.validation_step", "Task.rate", "distance", own=3, looks=20 + one) for one in range(2)]
    text = _text(_run(*inner, _at("Task.validation_step", "Task.log", own=2, looks=4)))
    assert "Most of it: distance, by Task.validation_step in eval.py:50." in text


def test_larger_batches_are_not_told_beside_it() -> None:
    """What each sample takes besides the model is as long in any batch."""
    run = _run(_at("metrics"))
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoaderFound) and one.loader == 2)
    run.lines[place] = replace(run.lines[place], batch_size=1)
    text = _text(run)
    assert "metrics, called in" in text and "larger ones may cost less" not in text


def _copied(run: Planted) -> None:
    """The loop copies to a device: then metrics may wait for it."""
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoopSums) and one.loader == 2)
    phases = run.lines[place].phases_ns
    run.lines[place] = replace(run.lines[place], phases_ns=[*phases[:TRANSFER], MS, *phases[TRANSFER + 1 :]])


def _in_step(run: Planted) -> None:
    run.lines.append(LoadersTogether(1, 2))


@pytest.mark.parametrize("change", [_copied, _in_step])
def test_nothing_is_told_where_a_device_or_another_loop_is_in_the_same_lines(change: Any) -> None:
    run = _run(_at("metrics"))
    change(run)
    assert "besides the model" not in _text(run)


def test_functions_of_spans_have_their_own_row() -> None:
    assert "besides the model" not in _text(_run(_at("metrics"), spans=100))


def test_a_lambda_between_loops_has_the_name_of_its_function_once() -> None:
    run = Planted()
    run.lines += [LoopLooks(BETWEEN, "train.py", 9, [_at("ranks", "ranks.<locals>.<lambda>", own=2)])]
    run.loader(**TRAINS)
    run.outside(3000)
    run.loader(**TRAINS)
    text = _text(run)
    assert "Most of it: ranks, called in train.py:50." in text
