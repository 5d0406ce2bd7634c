"""The next move of a whole run follows from the cause that could save most of it."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

import pytest
from simulated_ranks import NOTHING

from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, Cause
from pipebench.results.next_move import NextMove
from pipebench.watch.read import moves_of_run
from pipebench.watch.read.moves_of_run import after_a_signal, move_of_run

OF_ITERATION = NextMove("shorten-wait-part", 2.0, wait_part="receive", wait_part_s=0.002)


def _of_run(*causes: Cause) -> str | None:
    return next_move(move_of_run(OF_ITERATION, causes, 2.0))


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (Cause("start-up", 8.2, 7.0, 1), "set persistent_workers=True for loader 1."),
        (
            Cause("validation", 3.1, 2.6, 2, {"workers": 0, "waits_s": 2.6}),
            "load the batches of the loops that do not train (loader 2) faster, with workers or cheaper samples.",
        ),
        (
            Cause("validation", 3.1, 2.6, 2, {"workers": 1, "waits_s": 2.6}),
            "load the batches of the loops that do not train (loader 2) faster, with more workers or a cheaper stage.",
        ),
        (
            Cause("callbacks", 4.9, 4.9),
            "do the work besides training less often, or at less cost. Now it takes 4.90 s of the run.",
        ),
        (
            Cause("callbacks", 4.9, 4.9, values={"function": "save", "file": "/home/me/train.py", "line": 31}),
            "do the work besides training (save, called in train.py:31) less often, or at less cost. Now it takes 4.90 "
            "s of the run.",
        ),
        (
            Cause(
                "callbacks", 4.9, 4.9, values={"function": "rate", "by": "Meter.add", "file": "train.py", "line": 31}
            ),
            "do the work besides training (rate, by Meter.add in train.py:31) less often, or at less cost. Now it "
            "takes 4.90 s of the run.",
        ),
        (
            Cause("callbacks", 4.9, 4.9, values={"early_s": 0.01, "late_s": 0.04}),
            "do the work besides training less often, or at less cost. Now it takes 4.90 s of the run. As it takes "
            "longer and longer through a pass, it seems to work on all of the pass so far: once at the end of the pass "
            "is enough, or sums that each step adds to.",
        ),
        (
            Cause("dataset-anew", 9.0, 9.0, 1, {"function": "Xray.__init__", "file": "train.py", "line": 27}),
            "make the dataset of loader 1 once, before the epochs (Xray.__init__, train.py:27).",
        ),
        (
            Cause("threads-over-cores", 9.0, 9.0, 1, {"setting": "OPENBLAS_NUM_THREADS=1"}),
            "allow each worker of loader 1 one thread: OPENBLAS_NUM_THREADS=1.",
        ),
        (
            Cause("uneven-workers", 6.5, 3.4, 1, {"workers": 2}),
            "spread the work evenly over the 2 workers of loader 1: shuffle the data, or split it evenly.",
        ),
        (
            Cause("slow-worker", 6.5, 3.4, 1, {"workers": 2, "worker": 1, "slower": 7.96, "slow_part": "blocked"}),
            "find out why worker 1 of loader 1 takes 8.0 times as long for a sample as the other: it waits longer "
            "there (its disc, its connection, a lock, its shard; larger samples, if not shuffled).",
        ),
        (
            Cause("slow-worker", 6.5, 3.4, 1, {"workers": 3, "worker": 2, "slower": 2.0, "slow_part": "no-core"}),
            "find out why worker 2 of loader 1 takes 2.0 times as long for a sample as the others: it has no core for "
            "longer there (its affinity, other processes on its core).",
        ),
        (
            Cause("python-loops", 4.0, 4.0, 0),
            "do in tensor operations what Python loops do between the model and backward.",
        ),
        (Cause("periodic-stalls", 4.0, 4.0, 1), "raise prefetch_factor of loader 1."),
        (
            Cause("head-of-line", 4.0, 4.0, 1),
            "try in_order=False (torch 2.6 and later) for loader 1: the order of batches then varies.",
        ),
    ],
)
def test_the_next_move_is_about_what_could_save_most_of_the_run(cause: Cause, said: str) -> None:
    small = Cause("hand-off", 0.1, 0.1)
    assert _of_run(small, cause) == f"Next: {said}"


def test_what_may_be_a_wait_for_a_device_is_no_move_before_steps_that_get_slower() -> None:
    grows, even = Cause("slower-steps", 3.0, 3.0, 1), Cause("callbacks", 9.0, 9.0, values={"even": 1}, unsure=True)
    assert (_of_run(grows, even) or "").startswith("Next: find what the loop keeps")
    assert (_of_run(even) or "").startswith("Next: do the work besides training less often")


def test_the_sampler_to_make_faster_is_named() -> None:
    move = NextMove("shorten-wait-part", 2.0, wait_part="sampler", wait_part_s=0.002)
    place: dict[str, str | int | float] = {"function": "Balanced.__iter__", "file": "/home/me/train.py", "line": 17}
    for values, told in (
        (place, " (Balanced.__iter__, train.py:17)"),
        ({"function": "RandomSampler"}, " (RandomSampler)"),
        ({}, ""),
    ):
        said = next_move(move_of_run(move, [Cause("sampler", 9.0, 9.0, 1, {**values})], 2.0)) or ""
        assert said.startswith(f"Next: make the sampler faster{told}. Now")


def test_the_move_of_an_iteration_stays_if_it_saves_most_of_the_run() -> None:
    started = Cause("start-up", 8.0, 0.1, 1)  # one pass: its start-up is no waste
    assert move_of_run(OF_ITERATION, (started, Cause("hand-off", 0.5, 0.5)), 2.0) == OF_ITERATION


def test_without_a_cause_that_could_be_saved_there_is_no_move() -> None:
    assert move_of_run(OF_ITERATION, (Cause("training", 5.0), Cause("before-loops", 9.0)), 2.0) is None


def test_each_action_is_one_that_has_a_sentence_of_its_own() -> None:
    known = get_args(get_type_hints(NextMove)["action"])
    assert {*moves_of_run._OF_RUN.values(), moves_of_run._APART, "no-workers"} <= {*known}
    said = {action: next_move(NextMove(action, 2.0, 2, loader=1)) or "" for action in known}
    assert [action for action, told in said.items() if "make  cheaper" in told] == [
        "make-stage-cheaper", "shorten-wait-part",
    ]  # fmt: skip


def test_what_training_may_need_itself_is_no_setting() -> None:
    """Validation may be another use of a model, and then its cause says so in a value of its own."""
    move = move_of_run(None, [Cause("validation", 4.0, 3.0, 2, {"kept": 1, "waits_s": 3.0})], 2.0)
    assert move is not None and move.setting is None


@pytest.mark.parametrize("move", [None, NextMove("set-num-workers", 2.0, to_workers=1)])
def test_a_sampler_that_costs_most_is_the_next_step_also_without_workers(move):
    values = {"s_per_batch": 0.01, "function": "Sorted.__iter__", "file": "train.py", "line": 7}
    said = next_move(move_of_run(move, [Cause("sampler", 9.0, 9.0, 1, values), Cause("no-workers", 8.0, 2.0, 1)], 2.0))
    assert (
        said == "Next: make the sampler faster (Sorted.__iter__, train.py:7). Now this takes 10.0 ms of each iteration."
    )


def test_a_cheaper_stage_saves_no_more_than_its_part_of_loading() -> None:
    """A transform that is a third of it, beside workers that start anew for more."""
    stage = NextMove("make-stage-cheaper", 2.0, 2, stage="Crop", stage_kind="transform", stage_s=0.001, sample_s=0.003)
    start = Cause("start-up", 14.0, 12.6, 1)
    for share, action in ((0.33, "keep-workers"), (0.9, "make-stage-cheaper")):
        loading = Cause("stage", 20.0, 19.5, 1, {"stage_share": share})
        found = move_of_run(stage, (loading, start), 2.0)
        assert found is not None and found.action == action


def test_who_keeps_the_cores_busy_is_told_with_other_processes() -> None:
    values: dict[str, str | int | float] = {
        "workers": 1, "cores_used": 0.2, "script_cores": 0.1, "foreign_cores": 1.6, "core_s": 3.0, "sample_s": 0.01,
        "stage": "Rows.__getitem__", "kind": "getitem", "includes_read": 0, "stage_share": 0.9,
    }  # fmt: skip
    said = next_move(move_of_run(None, (Cause("stage", 20.0, 19.5, 1, values),), 2.0)) or ""
    assert "of 2, the workers use 0.2, the script's own process 0.1 and other processes 1.6." in said


@pytest.mark.parametrize(
    ("action", "saves_s", "stays"),
    [("keep-workers", 0.088, False), ("keep-workers", 0.6, True), ("shorten-wait-part", 0.088, True)],
)
def test_after_a_signal_a_start_of_workers_that_takes_little_is_no_next_move(
    action: str, saves_s: float, stays: bool
) -> None:
    account = Account(5.42, (), (Cause("start-up", 0.19, saves_s, 1),))
    move = NextMove(action, 2.0, loader=1)  # type: ignore[arg-type]
    found = replace(NOTHING, next_move=move, account=account)
    assert after_a_signal(found).next_move == (move if stays else None)
    assert after_a_signal(replace(NOTHING, account=account)).next_move is None
