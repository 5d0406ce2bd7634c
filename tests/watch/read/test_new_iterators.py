"""`next(iter(loader))` in each step: each new iterator throws away what the workers made ahead for the last one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from planted_runs import MS, Planted, said

from pipebench.render import layout
from pipebench.render.watch import parts
from pipebench.render.watch_verdict import verdict
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.gather import Process
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import FetchSums, LoaderFound, LoopSums, Moment, PassBegun, PassEnded, ProcessStarted
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

STEPS, WORKERS = 10, 2
SPENT = {"start-up": 100, "forward": 60, "backward": 40}  # milliseconds of each step


class Asked(Planted):
    """A loop whose every step takes a batch of a new iterator over loader 2."""

    def steps(
        self, steps: int = STEPS, *, persistent: bool = True, made: int = 4 * STEPS, busy: int = 60,
        workers: int = WORKERS, sampler: int = 0,
    ) -> None:  # fmt: skip
        self.lines.append(LoaderFound(2, "Labelled", workers, 4, "fork", 2, persistent))
        rows = [{**SPENT, "sampler": sampler}.get(name, 0) * MS for name in ROWS]
        for one in range(steps):
            self.lines += [
                PassBegun(2, one, self.now), PassEnded(2, "left", 0),
                TimeSpent(self.now, self.now + sum(rows), 0, "between", [SpentInPass(2, one, rows)], 0),
            ]  # fmt: skip
            self.now += sum(rows)
        sums = FetchSums(2, 1, self.now, batches=made, samples=8 * made, busy_ns=made * busy * MS)
        self.workers.append(Process([ProcessStarted(9, "worker", 0, 2, 0, "fork"), sums, Moment("end", self.now)]))


def _result(run: Planted) -> Any:
    lines = [*run.lines, TimeSpent(run.now, run.now + MS, MS, "after", [], 0), Moment("end", run.now + MS)]
    lived = 0, run.now + MS
    return summarise([Process(lines), *run.workers], WatchOptions(), 0, 4.0, Footprint(), lived=lived)


def test_it_is_a_cause_with_what_one_iterator_would_save() -> None:
    run = Asked()
    run.steps()
    account = run.account()
    cause = account.causes[0]
    assert (cause.code, cause.loader, cause.s) == ("new-iterators", 2, pytest.approx(1.0))
    # Two workers make a batch in 60 ms each: of the 100 ms of each start, a step would wait 30 ms at most.
    assert cause.recoverable_s == pytest.approx((STEPS - 1) * 0.07)
    assert said(account).startswith(
        "New iterators over loader 2 took 1.00 s of the run's 2.10 s (48 %): each of 10 gave one batch, as "
        "next(iter(loader)) does, and threw away what the workers had made ahead (40 batches were made for these 10). "
        "One iterator for all steps could save about 630 ms (predicted, not tried)."
    )
    (row,) = [one for one in account.rows if one.code == "start-up"]
    assert (row.recoverable_s, row.reason) == (cause.recoverable_s, "one-iterator")


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"persistent": False, "steps": 4}, "start-up"),  # its workers start each time, and few times
        ({"busy": 500}, "new-iterators"),  # the workers need so long for each batch: nothing is known to be saved
        ({"steps": 1}, ""),
    ],
)
def test_it_is_said_without_a_saving_or_is_none(how: Any, code: str) -> None:
    run = Asked()
    run.steps(**how)
    found = {one.code: one for one in run.account().causes if one.code not in ("training", "before-loops")}
    assert [*found] == [code] * bool(code)
    assert "new-iterators" not in found or found["new-iterators"].recoverable_s is None


def test_without_workers_it_is_the_sampler_that_begins_anew() -> None:
    """As where a new order of a million samples is drawn for each batch."""
    run = Asked()
    run.steps(workers=0, persistent=False, sampler=80, made=0)
    account = run.account()
    cause = account.causes[0]
    assert cause.code == "new-iterators" and cause.s == pytest.approx(1.8)
    assert (cause.recoverable_s or 0) >= 0.8
    assert "each of 10 gave one batch, as next(iter(loader)) does, and its sampler began anew for it." in said(account)


def test_with_new_workers_in_each_of_many_steps_it_is_told_where_no_other_loop_trains() -> None:
    """As in a learning-rate finder: what trains is in no loop over a loader."""
    run = Asked()
    run.steps(persistent=False)
    account = run.account()
    assert account.causes[0].code == "new-iterators" and "One iterator for all steps could save" in said(account)


@pytest.mark.parametrize(("steps", "code"), [(STEPS, "new-iterators"), (STEPS // 4, "start-up")])
def test_with_new_workers_in_each_step_it_is_no_validation(steps: int, code: str) -> None:
    """The loop around it takes 10 batches. In fewer steps, a single batch may be of a short validation."""
    run = Asked()
    run.loader(trains=False, wait_for_worker=50, forward=500, backward=500)
    place = next(n for n, one in enumerate(run.lines) if isinstance(one, LoopSums))
    run.lines[place] = replace(run.lines[place], turns=STEPS, trained=STEPS)
    run.steps(steps, persistent=False)
    account = run.account()
    causes = {one.code: one for one in account.causes}
    assert code in causes and "validation" not in causes
    if code == "new-iterators":
        assert "threw away what its new workers had made ahead" in said(account)
        assert causes[code].recoverable_s == pytest.approx((STEPS - 1) * 0.07)


def test_the_loop_around_it_is_not_judged_and_the_next_move_is_one_iterator() -> None:
    run = Asked()
    run.loader(passes=2, trains=False, wait_for_worker=50, other=10)
    run.steps()
    result = _result(run)
    assert (result.verdict.limit, result.verdict.single, result.verdict.loader) == ("no-iteration", "left", 2)
    assert "keep one iterator for all steps" in verdict(result.verdict)
    text = layout.text(parts(result), width=80)
    assert "New iterators over loader 2" in text and "nothing to judge" not in text
    assert result.next_move is not None and (result.next_move.action, result.next_move.loader) == ("keep-iterator", 2)
