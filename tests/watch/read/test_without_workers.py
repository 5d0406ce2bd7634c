"""Batches that are made inside the loop: workers are the remedy, unless handing a batch over takes longer."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_costs import made
from made_up_loop import result
from made_up_trials import watched

from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_verdict import next_move as said
from pipebench.results.account import Account, AccountRow
from pipebench.watch.read.gather import Run, ShownTime
from pipebench.watch.read.moves import next_move
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.read.without_workers import no_workers, with_one_tensor


@pytest.mark.parametrize(
    ("tensors", "cpu_s", "code"),
    [(2.0, 0.01, "no-workers"), (301.0, 0.01, "many-tensors"), (301.0, 0.5, "no-workers"), (None, 0.01, "no-workers")],
)
def test_many_tensors_are_the_cause_where_they_take_longer_to_cross(
    tensors: float | None, cpu_s: float, code: str
) -> None:
    found = watched()
    loader = replace(found.loaders[0], workers=0)
    costs = replace(made(cpu=cpu_s, workers=0), tensors=tensors, hand_over_s=0.09, loader=loader.loader)
    seen = Seen(Run([], ShownTime(), ()), replace(found, loaders=(loader,), costs=(costs,)), Account(1.0, ()), {})  # type: ignore[arg-type]
    (cause,) = no_workers(seen)
    assert cause.code == code and cause.values.get("tensors", tensors) == tensors


def test_workers_that_would_share_an_open_file_are_not_promised() -> None:
    found = watched()
    loader = replace(found.loaders[0], workers=0, kept_open=True)
    account = Account(9.0, (AccountRow("make-batch", 3.0, loader.loader, 1.0, "more-overlap"),))
    seen = Seen(Run([], ShownTime(), ()), replace(found, loaders=(loader,)), account, {})  # type: ignore[arg-type]
    told = SENTENCES["no-workers"](next(iter(no_workers(seen))), {"kept_open": 1}, "3 s")
    assert told.endswith(
        "Workers that each open the file or connection themselves could save up to 1.00 s, less what their start "
        "takes (predicted, not tried)."
    )


@pytest.mark.parametrize(("forward_s", "fewest"), [(0.1, 2), (2.0, 1)])
def test_one_worker_saves_only_what_the_loop_does_meanwhile(forward_s: float, fewest: int) -> None:
    found = watched()
    loader = replace(found.loaders[0], workers=0)
    rows = (
        AccountRow("make-batch", 3.0, loader.loader, 1.5, "more-overlap"),
        AccountRow("start-up", 2.0, loader.loader),
        AccountRow("forward", forward_s, loader.loader),
    )
    seen = Seen(Run([], ShownTime(), ()), replace(found, loaders=(loader,)), Account(9.0, rows), {})  # type: ignore[arg-type]
    (cause,) = no_workers(seen)
    assert cause.values["fewest"] == fewest
    told = SENTENCES["no-workers"](cause, cause.values, "3 s")
    assert f"num_workers={fewest} or more could save up to 1.50 s" in told


@pytest.mark.parametrize(
    ("tensors", "reason", "saved"),
    [(2.0, "more-overlap", 1.0), (301.0, "one-tensor", 3.0), (None, "more-overlap", 1.0)],
)
def test_the_account_says_what_saves_the_making_of_batches(tensors: float | None, reason: str, saved: float) -> None:
    found = watched()
    loader = replace(found.loaders[0], workers=0)
    costs = replace(made(cpu=0.01, workers=0), tensors=tensors, hand_over_s=0.09, loader=loader.loader)
    rows = (
        AccountRow("make-batch", 3.0, loader.loader, 1.0, "more-overlap"),
        AccountRow("forward", 1.0, loader.loader),
    )
    told = with_one_tensor(Account(4.0, rows), replace(found, loaders=(loader,), costs=(costs,)))
    assert told is not None and told.rows[1] == rows[1]
    assert (told.rows[0].reason, told.rows[0].recoverable_s) == (reason, saved)


@pytest.mark.parametrize(
    ("hand_over_s", "saved", "by"), [(0.001, 1.0, "num_workers=2"), (0.09, 3.0, "Cheaper samples")]
)
def test_cheaper_samples_save_it_where_a_worker_needs_longer_to_hand_over_than_to_make(
    hand_over_s: float, saved: float, by: str
) -> None:
    found = watched()
    loader = replace(found.loaders[0], workers=0)
    costs = replace(made(cpu=0.01, workers=0), tensors=2.0, hand_over_s=hand_over_s, loader=loader.loader)
    account = Account(9.0, (AccountRow("make-batch", 3.0, loader.loader, 1.0, "more-overlap"),))
    seen = Seen(Run([], ShownTime(), ()), replace(found, loaders=(loader,), costs=(costs,)), account, {})  # type: ignore[arg-type]
    (cause,) = no_workers(seen)
    assert cause.recoverable_s == saved
    told = SENTENCES["no-workers"](cause, cause.values, "3 s")
    assert f" {by}" in told and f" could save up to {saved:.2f} s" in told
    assert ("Workers would hardly help." in told) == (saved == 3.0)


@pytest.mark.parametrize(("passes", "again", "starts"), [(60, 59, True), (2, 1, False), (60, 0, False), (1, 0, False)])
def test_workers_that_start_in_each_short_pass_are_not_proposed(passes: int, again: int, starts: bool) -> None:
    """A pass has 2 batches of 20 ms, and the loop's own work takes 1 ms: to start a worker takes longer."""
    found = watched()
    loader = replace(
        found.loaders[0], workers=0, passes=passes, again=again, iterations=120, s_per_iteration=0.021,
        wait_s_per_iteration=0.02,
    )  # fmt: skip
    account = Account(9.0, (AccountRow("make-batch", 2.4, loader.loader, 2.4, "more-overlap"),))
    seen = Seen(Run([], ShownTime(), ()), replace(found, loaders=(loader,)), account, {})  # type: ignore[arg-type]
    (cause,) = no_workers(seen)
    assert ("starts" in cause.values) == starts
    told = SENTENCES["no-workers"](cause, cause.values, "2.4 s")
    assert ("Workers that start in each of its 60 passes would take longer than they save. Faster" in told) == starts
    move = next_move(result(loader), loader)
    assert move is not None and (move.lacks == "starts") == starts
    assert ("Workers would take longer to start than they save in a pass." in (said(move) or "")) == starts
