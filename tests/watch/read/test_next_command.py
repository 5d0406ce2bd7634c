"""The command that the report names next is of what the user started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_trials import watched
from render import made_up

from pipebench.render.watch_verdict import next_command, verdict
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.next_move import NextMove
from pipebench.results.watched import DeviceIdle, PhaseResult, Verdict


@pytest.mark.parametrize(
    ("started", "own"),
    [
        ("'my train.py' --lr 3", "'my train.py' --lr 3"),
        ("-m mypackage.train", "-m mypackage.train"),
        ("train.py --data /a/folder/with/a/long/name --epochs 90", "train.py ..."),
        ("'my train.py' --data /a/folder/with/a/long/name --epochs 90", "'my train.py' ..."),
        ("/home/somebody/experiments/of/this/year/train.py --epochs 3", ".../train.py ..."),
        ("-m mypackage.training.second --data /a/folder/with/a/name", "-m mypackage.training.second ..."),
        ("-- torchrun train.py", "-- torchrun train.py"),
        ("-- torchrun --nproc-per-node 8 --rdzv-backend c10d train.py --lr 3", "-- torchrun ... train.py ..."),
        ("-- torchrun --nproc-per-node 8 --standalone -m mypackage.train", "-- torchrun ... -m mypackage.train"),
        ("-- bash run_all.sh --with-everything --and-more --and-still-more", "-- bash ..."),
        ("-- torchrun --token '… --nproc-per-node 8 --standalone --x train.py", "-- torchrun ... train.py"),
        ("train\x1b[2J.py", "train\\x1b[2J.py"),
        (" " * 60, "..."),
        ("", "train.py"),
    ],
)
def test_the_next_command_is_of_what_the_user_started(started: str, own: str) -> None:
    raised = NextMove("raise-num-workers", 2.0, 2)
    found = replace(watched(), next_move=raised, verdict=Verdict("data"), started=started)
    for of_command in {False, bool(started)}:
        said = next_command(found, of_command=of_command)
        assert (said or "").startswith(f"Then: `pipebench advise {own}` tries what helps while it trains.")
    untold = replace(found, verdict=Verdict("no-loader"), spans=())
    assert f"`pipebench watch --span __main__:FUNCTION {own}`" in (next_command(untold, of_command=False) or "")


@pytest.mark.parametrize(("loops_s", "longer"), [(6.2, True), (60.0, False)])
def test_a_short_training_is_said_to_be_too_short_for_trials(loops_s: float, longer: bool) -> None:
    account = Account(loops_s + 3, (AccountRow("before-loops", 3.0), AccountRow("forward", loops_s, 1)))
    found = replace(
        watched(), next_move=NextMove("raise-num-workers", 2.0, 2), verdict=Verdict("data"), account=account
    )
    said = next_command(found, of_command=False) or ""
    assert ("let it train for half a minute or more: here, the loops took 6.20 s." in said) is longer


def test_in_a_loop_without_a_loader_no_span_is_asked_for_where_the_line_is_known() -> None:
    cause = Cause("callbacks", 3.0, 3.0, values={"file": "train.py", "line": 70, "function": "Meter.update"})
    found = replace(watched(), verdict=Verdict("no-loader"), spans=(), started="train.py")
    known = replace(found, account=replace(made_up.account(), causes=(cause,)))
    assert next_command(known, of_command=False) is None


@pytest.mark.parametrize(("phase", "asked"), [("forward", True), ("before-backward", True), ("optimiser", False)])
def test_no_span_of_data_is_asked_for_where_another_part_is_the_largest(phase: str, asked: bool) -> None:
    """A loop of which the optimiser takes most has a small row for data and forward."""
    found = replace(watched(), verdict=Verdict("no-loader", phase=phase), spans=(), started="train.py")
    said = next_command(replace(found, account=made_up.account()), of_command=False) or ""
    assert ("--span" in said) is asked


def test_where_no_change_is_certain_the_bound_comes_next_with_its_price() -> None:
    verdict = Verdict("data", wait_share=0.4)
    found = replace(watched(), next_move=None, verdict=verdict, bound=None, started="train.py --lr 3")
    assert next_command(found, of_command=False) == (
        "Then: `pipebench watch --bound --yes-discard-weights train.py --lr 3` measures how much faster training could "
        "be. It spoils the weights."
    )
    measured = replace(found, bound=made_up.bound())
    assert next_command(measured, of_command=False) is next_command(found, of_command=True) is None
    little = replace(found, verdict=replace(verdict, wait_share=0.15))  # ready batches would gain no more
    assert next_command(little, of_command=False) is None


@pytest.mark.parametrize("limit", ["data", "training"])
def test_no_command_finds_what_a_loop_keeps(limit: Any) -> None:
    """Neither ready batches nor waits for a device are what makes steps slower and slower."""
    idle = DeviceIdle(0.1, 0.1, 3)
    found = replace(watched(), verdict=Verdict(limit, wait_share=0.4), bound=None, started="train.py", device_idle=idle)
    for move in (NextMove("keep-less", 2.0), None):
        said = next_command(replace(found, next_move=move), of_command=False)
        assert (said is None) == (move is not None)


def test_no_command_is_named_for_a_block_of_code() -> None:
    raised = NextMove("raise-num-workers", 2.0, 2)
    found = replace(watched(), next_move=raised, verdict=Verdict("data"), bound=None, started="", spans=())
    assert next_command(found, of_command=True) is None
    assert next_command(replace(found, verdict=Verdict("not-followed")), of_command=True) is None


def test_where_nothing_was_watched_what_the_script_starts_comes_next() -> None:
    """As of a script that starts its ranks by `torch.multiprocessing.spawn`."""
    nothing = replace(watched(), verdict=Verdict("nothing-watched"), next_move=None, started="main.py --lr 3", status=0)
    said = "If it starts other programs: `pipebench watch -- python main.py --lr 3` watches these, too."
    assert next_command(nothing, of_command=False) == said and next_command(nothing, of_command=True) is None
    for other in ({"started": ""}, {"started": "-- torchrun main.py"}, {"status": 1}):
        assert next_command(replace(nothing, **other), of_command=False) is None  # type: ignore[arg-type]


def test_where_nothing_trains_nothing_that_needs_a_training_comes_next() -> None:
    """As of a script that only evaluates: `advise` would find no loop that trains."""
    for limit, move in (("data", NextMove("raise-num-workers", 2.0, 2)), ("training", None), ("data", None)):
        found = replace(watched(), next_move=move, verdict=Verdict(limit, trains=False), started="evaluate.py")  # type: ignore[arg-type]  # the limits above
        assert next_command(found, of_command=False) is None
    assert verdict(Verdict("training", wait_share=0.01, trains=False)).startswith("Data does not limit the loop:")


def test_lines_that_wait_for_a_device_are_looked_for_where_there_was_one() -> None:
    found = replace(watched(), next_move=None, verdict=Verdict("training"), device_idle=None, loop=(), account=None)
    assert next_command(found, of_command=False) is None
    waits = Account(2.0, (), causes=(Cause("training", 1.0, values={"device_s": 1.0}),))
    for seen in (
        {"device_idle": DeviceIdle(0.1, 0.1, 3)}, {"loop": (PhaseResult("host-to-device", 0.1, 0.1),)},
        {"account": waits},
    ):  # fmt: skip
        said = next_command(replace(found, **seen), of_command=False)
        assert said == "Then: `pipebench syncs MODULE:STEP` lists the lines where training waits for the device."
