"""Workers that take cores from training while the loop hardly waits for a batch, on a machine that others use, too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import host, loader, result, worker
from planted_runs import MS

from pipebench.predict.bounds import on_free_cores_s
from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, AccountRow
from pipebench.results.beginning import beginning
from pipebench.results.costs import LoopCosts
from pipebench.results.watched import Verdict
from pipebench.watch.read.causes import causes
from pipebench.watch.read.cores_taken import cores_taken, held_up
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.of_causes import Seen
from pipebench.watch.record.lines import LoopSums, ProcessStarted

# A batch takes 120 ms of a core, and an iteration of training 60 ms: 180 ms, or 90 ms on two cores.
COSTS = LoopCosts(1, 2, 2, 64.0, 0.8, (0.120,) * 40, (0.0,) * 40, (0.03,) * 40, 0.060)


def _seen(
    foreign: float = 1.8, waited_s: float = 24.0, waits: float = 0.8, each: float = 0.07, costs: Any = COSTS
) -> Seen:
    """40 iterations of 0.8 s. Two workers and the script get `each` of a core, and want one."""
    lines: list[Any] = [
        LoopSums(1, 0, one, one * 800 * MS, 1, 1, [0] * 7, process_cpu_ns=(one + 1) * MS,
                 core_wait_ns=int(one * waited_s / 39 * 1e9))
        for one in range(40)
    ]  # fmt: skip
    own = loader(workers=2, script_cores=each, iterations=39, sample_s=0.02)
    made = [worker(one, busy_s=32.0, cpu_s=2.0, core_wait_s=30.0, busy_share=0.95, cores=each) for one in range(2)]
    found = result(own, workers=made, host=host(foreign, 2), costs=(costs,))
    rows = AccountRow("wait-for-worker", waits, 1), AccountRow("backward", 32.0 - waits, 1)
    return Seen(
        Run([Process([ProcessStarted(1, "script", 0), *lines])], ShownTime(), (1,)), found, Account(32.0, rows), {}
    )


def test_cheaper_loading_gives_training_the_cores_that_workers_take() -> None:
    (cause,) = cores_taken(_seen())
    assert (cause.s, cause.values["both_s"], cause.values["alone_s"]) == pytest.approx((24.0, 0.09, 0.06), rel=0.02)
    assert cause.recoverable_s == pytest.approx(24.0 * 0.14 / 1.94)  # beside others, only their part of the wait
    assert SENTENCES[cause.code](cause, cause.values, "24.0 s of the run's 32.0 s (75 %)") == (
        "The loop itself waited for a core: 24.0 s of the run's 32.0 s (75 %). For each batch, its 2 workers and "
        "training need 90.0 ms of 2 cores, and training alone takes 60.0 ms; 98 % of loading is "
        "Photos.__getitem__ (getitem). Without other processes, loading that costs hardly anything could make the "
        "loop about 1.50× as fast (predicted, not tried)."
    )
    move = move_of_run(None, [cause], 2.0)
    assert next_move(move) == (
        "Next: make Photos.__getitem__ cheaper; it takes 19.6 ms of the 20.0 ms of a sample. No whole core is free: of "
        "2, the workers use 0.1 and wait for 1.8 more, the script's own process 0.1 and other processes 1.8."
    )


@pytest.mark.parametrize(
    "how",
    [
        {"foreign": 0.5},  # cores are idle
        {"waited_s": 2.0},  # the loop has a core when it wants one
        {"waits": 10.0, "waited_s": 8.0},  # it waits for batches: that is another cause
        {"each": 0.65, "foreign": 0.1},  # the script uses the cores itself: others say it
        {"costs": replace(COSTS, cpu_s=(0.002,) * 40)},  # batches are cheap
        {"costs": replace(COSTS, step_cpu_s=5.0)},  # training is all
        {"costs": replace(COSTS, device_s=5.0)},  # it waits for the device
        {"costs": replace(COSTS, cpu_s=(0.12,) * 4)},  # too few batches
    ],
)
def test_nothing_is_said_where_cores_do_not_limit_training(how: dict[str, Any]) -> None:
    assert [*cores_taken(_seen(**how))] == []


# A batch takes 200 ms of a core, and an iteration of training 250 ms: two cores are enough, and one is not.
_FITS = LoopCosts(1, 2, 2, 8.0, 0.53, (0.200,) * 40, (0.0,) * 40, (0.25,) * 40, 0.250)


def test_workers_that_take_the_cores_which_others_leave_are_a_cause_beside_these() -> None:
    (cause,) = cores_taken(_seen(foreign=1.0, each=0.3, costs=_FITS))
    assert cause.recoverable_s == pytest.approx(24.0 * 0.6 / 1.6)
    assert SENTENCES[cause.code](cause, cause.values, "24.0 s of the run's 52.0 s (46 %)") == (
        "The loop itself waited for a core: 24.0 s of the run's 52.0 s (46 %). Cores in use, of 2: other processes "
        "1.0, its 2 workers 0.6, the script's own process 0.3. For each batch, its 2 workers and training need 450 ms "
        "of the 1.0 cores that others leave, and training alone takes 250 ms; 98 % of loading is Photos.__getitem__ "
        "(getitem). Beside these processes, loading that costs hardly anything could make the loop up to 1.80× as fast "
        "(predicted, not tried). Without them it would bring little: a quiet machine tells."
    )


def test_a_long_wait_for_a_core_comes_before_nothing_is_worth_a_change() -> None:
    seen = _seen(waited_s=10.0, costs=replace(COSTS, cpu_s=(0.002,) * 40))
    found = causes(seen.run, seen.result, seen.account, {})
    (cause,) = (one for one in found if one.code != "training")
    assert (cause.code, cause.s) == ("held-up", pytest.approx(10.0))
    account = replace(seen.account, causes=found)
    begins = beginning(replace(seen.result, account=account, verdict=Verdict("training")))
    assert not begins.nothing and begins.code == "other-cause" and begins.causes[0] == cause
    assert SENTENCES[cause.code](cause, cause.values, "10.0 s of the run's 32.0 s (31 %)") == (
        "The loop itself waited for a core: 10.0 s of the run's 32.0 s (31 %). Cores in use, of 2: other processes "
        "1.8, its 2 workers 0.1, the script's own process 0.1. What limits training does not show so: watch it on a "
        "quiet machine."
    )
    alone = cause.values | {"foreign_cores": 0.0, "workers": 0, "script_cores": 1.9}
    assert SENTENCES[cause.code](cause, alone, "a part").endswith(
        "Cores in use, of 2: the script's own process 1.9. What limits training does not show so: give it more "
        "cores, or let it use fewer threads, and watch again."
    )


def test_of_a_script_that_was_ended_the_load_of_others_is_not_known() -> None:
    seen = _seen(waited_s=10.0)
    unknown = replace(seen, result=replace(seen.result, host=None))
    (cause,) = held_up(unknown)
    assert SENTENCES[cause.code](cause, cause.values, "a part").endswith(
        "its 2 workers 0.1, the script's own process 0.1; what other processes used is not known. What limits training "
        "does not show so: watch it on a quiet machine."
    )


def test_a_short_wait_for_a_core_is_no_cause() -> None:
    assert [*held_up(_seen(waited_s=5.0))] == []


def test_on_enough_cores_training_is_as_fast_as_alone() -> None:
    both_s, alone_s = on_free_cores_s(COSTS, 4)
    assert both_s == alone_s == pytest.approx(0.06)
