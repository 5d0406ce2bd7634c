"""Lines of the user's own that work in Python inside forward are named. The looks are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.render.watch_verdict import next_move
from pipebench.watch.read.gather import NO_LOADER, Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.own_lines import OwnLines, own_lines
from pipebench.watch.record.lines import LoopLooks, ProcessStarted
from pipebench.watch.record.sample_calls import LineRun, LineRuns
from pipebench.watch.record.trial_lines import LineLooks, PlaceLooks

STACKS = LineLooks("a/moco.py", "MoCo.negatives", 53, "torch.stack", 60)
LEARNS = LineLooks("a/moco.py", "learn", 60, "list", 12)


def _looks(*lines: LineLooks, forward: int = 100, places: Any = (), loader: int = 1) -> LoopLooks:
    return LoopLooks(loader, "a/train.py", 50, list(places), forward, lines=list(lines))


def _found(line: LoopLooks) -> list[OwnLines]:
    return own_lines(Run([Process([ProcessStarted(1, "script", 0), line])], ShownTime(), (1,)), line.loader)


@pytest.mark.parametrize(
    ("lines", "forward", "found"),
    [
        ([STACKS], 100, [(53, 53, "torch.stack", 0.6)]),
        ([STACKS._replace(looks=50), STACKS._replace(calls="list", looks=30)], 100, [(53, 53, "torch.stack", 0.8)]),
        ([LEARNS, LEARNS._replace(line=62, calls="numpy.stack")], 100, [(60, 62, "", 0.24)]),
        ([LEARNS, STACKS], 60, [(53, 53, "torch.stack", 1.0), (60, 60, "list", 0.2)]),
        ([LEARNS], 100, []),  # a small part
        ([STACKS._replace(looks=4)], 20, []),  # too few
        ([STACKS._replace(looks=15)], 19, []),
    ],
)
def test_a_function_is_named_with_its_lines_and_its_share(lines: Any, forward: int, found: Any) -> None:
    told = _found(_looks(*lines, forward=forward))
    assert [(one.first, one.last, one.calls, one.share) for one in told] == found


def test_a_line_that_sleeps_is_no_work_in_python() -> None:
    run = Run([Process([ProcessStarted(1, "script", 0), _looks(STACKS, LEARNS._replace(looks=40))])], ShownTime(), (1,))
    told = own_lines(run, 1, lambda file, line: "    sleep(0.03)\n" if line == 53 else "    count += 1\n")
    assert [(one.first, one.sleeps) for one in told] == [(53, True), (60, False)]
    by_name = Run(
        [Process([ProcessStarted(1, "script", 0), _looks(STACKS._replace(calls="time.sleep"))])], ShownTime(), (1,)
    )
    assert own_lines(by_name, 1)[0].sleeps


def test_what_sleeps_is_no_cause_and_is_named_in_training() -> None:
    run = _run()
    run.lines.append(_looks(STACKS._replace(calls="time.sleep")))
    account = run.account()
    assert not [one for one in account.causes if one.code == "own-lines"]
    assert "MoCo.negatives (moco.py:53 → time.sleep) 60 % of forward" in said(account)


def test_where_no_device_trains_waits_are_a_cause_and_the_move() -> None:
    """Also those in a module for that, as of a process or a connection."""
    run = _run()
    waits = _looks(STACKS._replace(calls="time.sleep"), LEARNS._replace(file="a/moco.py", calls="ssl.read", looks=20))
    run.lines.append(replace(waits, on_host=True))
    account = run.account()
    text = said(account)
    assert text.startswith("In forward, waits of the script took about 1.12 s of the run's")
    assert "MoCo.negatives (moco.py:53 → time.sleep) 60 % and learn (moco.py:60 → ssl.read) 20 % of forward." in text
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith("Next: let the loop wait less before backward (MoCo.negatives, moco.py:53)")
    assert [one.calls for one in _found(waits)] == ["time.sleep"]  # the other wait may be for a device


def test_where_no_loader_makes_batches_smaller_functions_are_named() -> None:
    small = LEARNS._replace(looks=8)
    assert len(_found(replace(_looks(STACKS, small, loader=NO_LOADER), on_host=True))) == 2
    assert len(_found(_looks(STACKS, small, loader=NO_LOADER))) == 1


def test_what_has_rows_of_its_own_is_no_part_of_the_phase() -> None:
    augments = PlaceLooks(62, ["augment"], 60, 40, 1_000_000, 900_000, True)
    late = PlaceLooks(70, ["sync"], 40, 40, 1_000_000, 900_000, True, "", True)
    (one,) = _found(_looks(STACKS._replace(looks=50), places=[augments]))
    assert one.share == pytest.approx(0.5)  # of 100 looks, and not of 160
    (one,) = _found(_looks(STACKS._replace(looks=50), places=[late], loader=NO_LOADER))
    assert one.share == pytest.approx(0.5)


def _run(*, forward: int = 1400, **how: Any) -> Planted:
    run = Planted()
    run.loader(**{**TRAINS, "forward": forward, **how}, cpu=1000)
    run.worker(busy=0.1, cpu=1.0)
    return run


def test_much_of_it_is_a_cause_and_the_move() -> None:
    run = _run()
    run.lines.append(_looks(STACKS, LEARNS._replace(looks=20)))
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "own-lines")
    assert cause.s == cause.recoverable_s == pytest.approx(0.8 * 1.4)
    text = said(account)
    assert text.startswith("In forward, code of the script (besides layers) took about 1.12 s of the run's")
    assert "MoCo.negatives (moco.py:53 → torch.stack) 60 % and learn (moco.py:60 → list) 20 % of forward." in text
    assert (
        "Less of it could save at most 1.12 s (predicted from stack samples, not tried)." in text
        and "Nothing" not in text
    )
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert told.startswith("Next: do the work besides layers before backward (MoCo.negatives, moco.py:53) less often")


@pytest.mark.parametrize(("looks", "forward"), [(18, 100), (60, 100)])
def test_what_matters_to_the_run_is_a_cause_if_enough_looks_say_it(looks: int, forward: int) -> None:
    run = _run(forward=500)
    run.lines.append(_looks(STACKS._replace(looks=looks), forward=forward))
    account = run.account()
    assert "own-lines" in {one.code for one in account.causes}
    assert "Nothing in the loops" not in said(account)


def test_a_metric_is_named_as_one() -> None:
    run = _run()
    run.lines.append(_looks(LineLooks("a/score.py", "RunningScore.update", 48, "", 60)))
    assert "RunningScore.update (score.py:48) 60 % of forward. By its name, it keeps a metric. Less" in said(
        run.account()
    )


SOURCE = ["def knn(x, k):", "    dist = torch.cdist(x, x)", "    return dist.argsort(dim=-1)[:, :, :k]", ""]


def test_an_operation_that_does_too_much_is_named_with_the_other_one(tmp_path: Path) -> None:
    file = tmp_path / "net.py"
    file.write_text("\n".join(SOURCE))
    sorts = LineLooks(str(file), "knn", 3, "", 60)
    run = _run()
    run.lines.append(replace(_looks(), forward_lines=[sorts, sorts._replace(line=2, looks=20)]))
    account = run.account()
    (cause,) = (one for one in account.causes if one.code == "own-lines")
    assert cause.recoverable_s == pytest.approx(0.6 * 1.4)  # distances are needed
    assert "knn (net.py:3) 60 % of forward. Less of it could save at most 840 ms" in said(account)
    told = next_move(move_of_run(None, account.causes, 4)) or ""
    assert "change net.py:3 (knn, 100 % of this work) to the first k without a full sort" in told


@pytest.mark.parametrize(
    ("function", "is_one"),
    [
        ("BestF1.compute", True), ("MacroAUC.update", True), ("mean_iou", True), ("RunningScore.update", True),
        ("DiceLoss.forward", False), ("dice_loss", False), ("ScoreNet.forward", False), ("attention_scores", False),
        ("MetricLearner.embed", False), ("MetricTrainer.training_step", False), ("train_with_metrics", False),
        ("Net.forward", False), ("step", False),
    ],
)  # fmt: skip
def test_a_metric_counts_whatever_it_calls(function: str, is_one: bool) -> None:
    """Operations of torch, too. A look at Python in it counts once."""
    line = LineLooks("a/f1.py", function, 12, "", 50)
    looks = replace(_looks(line._replace(calls="torch.cat", looks=20)), forward_lines=[line])
    assert [one.looks for one in _found(looks)] == [50 if is_one else 20]
    run = _run()
    run.lines.append(looks)
    told = next_move(move_of_run(None, run.account().causes, 4)) or ""
    assert ("A metric over all of the pass so far is enough at its end" in told) == is_one


@pytest.mark.parametrize(
    ("text", "looks", "named"),
    [
        ("big = F.interpolate(x[:, None], scale_factor=8)", 40, "→ F.interpolate"),
        ("x = torch.linalg.svd(x)[0]", 40, "→ torch.linalg.svd"),
        ("big = F.interpolate(x[:, None], scale_factor=8)", 20, ""),
        ("x = self.layer(F.relu(x))", 40, ""),
        ("x = F.relu(F.pad(x, 2))", 40, ""),  # which of them is not known
        ("loss = F.cross_entropy(compiled(x), y)", 40, ""),
        ("loss = F.mse_loss(x, y); loss.backward()", 40, ""),
        ("loss = F.cross_entropy(x.view(-1, 9), y.flatten())  # of all(y)", 40, "→ F.cross_entropy"),
        ("x = x + 1", 40, ""),
    ],
)
def test_an_operation_with_much_of_forward_is_named_where_training_is_told(
    tmp_path: Path, text: str, looks: int, named: str
) -> None:
    file = tmp_path / "net.py"
    file.write_text(text)
    run = _run()
    run.lines.append(replace(_looks(), forward_lines=[LineLooks(str(file), "Net.forward", 1, "", looks)]))
    account = run.account()
    assert "own-lines" not in {one.code for one in account.causes}
    assert ("besides layers: Net.forward (net.py:1 " in said(account)) == bool(named)
    assert named in said(account)


def test_a_loop_over_numbers_is_python_whatever_looks_find_there() -> None:
    """Its lines run too often for an operation of torch. One look finds them in Python, by chance."""
    aligns = LineLooks("a/net.py", "align", 12, "", 60)
    runs = LineRuns(1, "iteration", "before", True, 20_000_000, [LineRun("a/net.py", 12, 18_000)])
    run = _run()
    run.lines += [replace(_looks(aligns._replace(looks=1)), forward_lines=[aligns]), runs]
    account = run.account()
    assert {"own-lines"} == {one.code for one in account.causes} & {"own-lines", "many-operations"}
    assert "align (net.py:12) 60 % of forward" in said(account)


def test_a_model_that_runs_for_a_metric_is_told() -> None:
    """What else runs in that function is not counted again."""
    calls, inside = LineLooks("a/train.py", "accuracy", 55, "", 50), LineLooks("a/train.py", "accuracy", 40, "item", 15)
    looks = replace(_looks(inside), forward_lines=[inside._replace(calls="")], models_in=[calls, LEARNS])
    assert [(one.function, one.first, one.looks) for one in _found(looks)] == [("accuracy", 55, 50)]
    run = _run()
    run.lines.append(looks)
    account = run.account()
    assert "accuracy (train.py:55) 50 % of forward. By its name, it keeps a metric. A model runs there: for" in said(
        account
    )
    assert "over all of the pass" not in (next_move(move_of_run(None, account.causes, 4)) or "")


def test_what_few_looks_say_is_only_named_where_training_is_told() -> None:
    run = _run(forward=500)
    run.lines.append(_looks(STACKS._replace(looks=9), forward=30))
    account = run.account()
    assert "own-lines" not in {one.code for one in account.causes}
    text = said(account)
    assert text.startswith("Nothing in the loops")
    assert "Seen most often in forward, besides layers: MoCo.negatives (moco.py:53 → torch.stack) 30 %" in text


@pytest.mark.parametrize(
    ("how", "lines"),
    [
        ({"idle": 1, "waits": [1] * 3}, [STACKS]),  # a CUDA device works meanwhile, or not
        ({"host_to_device": 10}, [STACKS]),  # another device
        ({"spans": 10}, [STACKS]),  # a function of --span has a row of its own
        ({"forward": 20}, [STACKS]),  # a small phase
        ({}, [STACKS._replace(looks=9)]),  # a small part
    ],
)
def test_it_is_not_said(how: Any, lines: Any) -> None:
    run = _run(**how)
    run.lines.append(_looks(*lines))
    account = run.account()
    assert "own-lines" not in {one.code for one in account.causes}
    assert "besides layers" not in said(account)


def test_python_loops_are_told_once() -> None:
    run = _run()
    mines = PlaceLooks(37, ["mine"], 60, 40, 1_000_000, 900_000, after=True)
    run.lines.append(_looks(STACKS, places=[mines]))
    codes = {one.code for one in run.account().causes}
    assert "python-loops" in codes and "own-lines" not in codes
