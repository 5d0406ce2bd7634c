"""Training that workers hold up: its own thread has no core, or a helper of its operations has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_loop import host, loader, result, worker

from pipebench.render.watch_causes import SENTENCES
from pipebench.render.watch_verdict import next_move
from pipebench.results.account import Account, AccountRow
from pipebench.results.host_use import ThreadPool
from pipebench.watch.read.causes import short_of_cores, waiting
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.read.of_causes import Seen, without_core_s
from pipebench.watch.record.lines import LoopSums, ProcessStarted


def _seen(
    *, helper_s: float = 6.0, own_s: float = 1.0, script: float = 0.7, threads: int = 2, waits: float = 0.5,
    busy: float = 0.92, each: float = 0.6, foreign: float = 0.1, **more: Any,
) -> Seen:  # fmt: skip
    """41 iterations of 0.25 s, the first of which is start-up: of 10 s, `waits` for batches."""
    share = waits / 10
    lines: list[Any] = [
        LoopSums(
            1, 0, one, one * 250_000_000, 1, 1, [int(share * 250e6), 0, 0, int((1 - share) * 250e6), 0, 0],
            process_cpu_ns=1 + int(one * script * 250e6), core_wait_ns=int(one * own_s / 40 * 1e9),
            helper_wait_ns=int(one * helper_s / 40 * 1e9),
        )
        for one in range(41)
    ]  # fmt: skip
    pools = (ThreadPool("script", "torch", threads, "torch.set_num_threads(1)"),)
    own = loader(
        workers=2, script_cores=script, iterations=40, sample_s=0.02, s_per_iteration=0.25,
        wait_s_per_iteration=0.25 * share,
    )  # fmt: skip
    made = [worker(one, busy_s=9.2, cpu_s=8.0, busy_share=busy, cores=each) for one in range(2)]
    used = replace(host(foreign, 2), pools=pools)
    found = result(own, workers=made, host=used, **more)
    rows = AccountRow("wait-for-worker", waits, 1, recoverable_s=waits), AccountRow("backward", 10 - waits, 1)
    run = Run([Process([ProcessStarted(1, "script", 0), *lines])], ShownTime(), (1,))
    return Seen(run, found, Account(10.0, rows), {})


def _held_up(**how: Any) -> float:
    seen = _seen(**how)
    return without_core_s(seen, seen.in_loop[0])


def test_waits_for_a_helper_without_a_core_count_besides_its_own() -> None:
    assert _held_up(helper_s=4.0) == pytest.approx(1.0 + 4.0, rel=0.01)
    assert _held_up(helper_s=4.0, threads=1) == pytest.approx(1.0, rel=0.01)  # no helper computes for torch


def test_training_waits_for_a_helper_no_longer_than_it_takes_besides_its_own_work() -> None:
    """9.5 s of training with 7 s of CPU time take 3.5 s at least on two threads; the loop itself waits for 1 s."""
    assert _held_up(helper_s=9.0) == pytest.approx(1.0 + 9.5 - 3.5 - 1.0, rel=0.01)
    assert _held_up(helper_s=9.0, script=2.0) == pytest.approx(1.0, rel=0.01)  # it has both cores


def test_busy_workers_that_hold_training_up_ask_for_a_cheaper_stage_though_the_loop_hardly_waits() -> None:
    (cause,) = waiting(_seen())
    assert cause.code == "stage"
    assert cause.s == cause.recoverable_s == pytest.approx(0.5 + 6.0, rel=0.1)
    assert "for a core that the workers used. Faster loading could save" in SENTENCES["stage"](
        cause, cause.values, "6.50 s"
    )
    move = next_move(move_of_run(None, [cause], 2.0)) or ""
    assert move.startswith("Next: make Photos.__getitem__ cheaper; it takes 19.6 ms of the 20.0 ms of a sample.")


def test_cores_that_others_use_as_well_leave_the_workers_their_part() -> None:
    """Workers use 0.6 cores, the script 0.7 and others 0.6: so half of the wait is for cores of others."""
    (cause,) = waiting(_seen(each=0.3, foreign=0.6))
    assert cause.values["core_s"] == pytest.approx(_held_up() / 2, rel=0.01)
    (cause,) = waiting(_seen(each=0.3, foreign=0.0))  # cores are idle
    assert "core_s" not in cause.values


def test_workers_that_rest_at_times_ask_for_it_too() -> None:
    (cause,) = short_of_cores(_seen(busy=0.78))
    move = next_move(move_of_run(None, [cause], 2.0)) or ""
    assert move.startswith("Next: make Photos.__getitem__ cheaper")
    assert move.endswith(
        "No whole core is free: of 2, the workers use 1.2, the script's own process 0.7 and other processes 0.1."
    )
