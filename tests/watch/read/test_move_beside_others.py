"""The next move on a busy machine: what other processes take is told apart from what the loader needs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_loop import host, loader, result, worker

from pipebench.render.watch_verdict import next_move
from pipebench.results.costs import LoopCosts
from pipebench.results.hand_off import HandOff
from pipebench.results.next_move import NextMove
from pipebench.results.watched import WaitPart
from pipebench.watch.read.verdict import diagnose

SLEEPING = tuple(worker(one, cpu_s=0.02, cores=0.02) for one in range(2))


def _slept(core_wait_s: float) -> LoopCosts:
    """Two workers whose batches sleep for 60 ms. With `core_wait_s`, their wake-ups wait for a core."""
    of_batch = (0.002,) * 16, (0.060,) * 16
    iteration_s = (0.062 + core_wait_s) / 2
    return replace(LoopCosts(1, 2, 2, 2.0, iteration_s, *of_batch, (0.022,) * 16, 0.002), core_wait_s=core_wait_s)


def _move(foreign: float, core_wait_s: float) -> NextMove | None:
    waiting = [replace(one, core_wait_s=0.1) for one in SLEEPING] if core_wait_s else SLEEPING
    found = result(
        loader(script_cores=0.1, s_per_iteration=0.031),
        workers=waiting,
        host=host(foreign, 2),
        costs=(_slept(core_wait_s),),
    )
    return diagnose(found)[1]


def test_workers_that_sleep_are_to_be_more_though_others_leave_no_core_now() -> None:
    """Beside so many others even a stage that took no time would bring nothing."""
    move = _move(1.9, core_wait_s=0.05)
    assert move is not None and move.predicted is not None and move.alone is not None
    assert move.predicted.low < 1.0 < 1.3 < move.alone.speedup
    assert move.action == "raise-num-workers"
    said = next_move(move) or ""
    assert "Without the other processes, the loop is predicted to be 1." in said and "and beside them" in said
    assert said.endswith("serves more of them, too.") and "taken from" not in said


@pytest.mark.parametrize("foreign", [0.0, 0.4])
def test_where_others_use_little_nothing_is_said_of_a_machine_without_them(foreign: float) -> None:
    move = _move(foreign, core_wait_s=0.0)
    assert move is not None and move.alone is None and "Without the other" not in (next_move(move) or "")


def test_a_stage_that_computes_is_still_to_become_cheaper_and_what_others_take_is_said() -> None:
    computing = tuple(worker(one, cpu_s=0.8, core_wait_s=0.2, cores=0.75) for one in range(2))
    costs = replace(LoopCosts(1, 2, 2, 2.0, 0.036, (0.05,) * 16, (0.0,) * 16, (0.01,) * 16, 0.01), core_wait_s=0.01)
    _, move = diagnose(
        result(loader(script_cores=0.3, sample_s=0.025), workers=computing, host=host(0.6, 2), costs=(costs,))
    )
    assert move is not None and move.action == "make-stage-cheaper" and move.alone is not None
    said = next_move(move) or ""
    assert "other processes 0.6." in said and "without other processes, not tried)" in said


def _computed(workers: int, foreign: float | None, cpu_s: float = 0.114) -> NextMove:
    """Workers that compute, and get a tenth of the core that each wants: the rest is for others on two cores."""
    wait_s, batches = 9 * cpu_s, 40
    made = [
        worker(one, busy_s=batches * 10 * cpu_s, cpu_s=batches * cpu_s, core_wait_s=batches * wait_s, cores=0.1)
        for one in range(workers)
    ]
    costs = LoopCosts(1, workers, 2, 32.0, 10 * cpu_s / workers, (cpu_s,) * 40, (0.0,) * 40, (0.001,) * 40, 0.005)
    one = loader(workers=workers, script_cores=0.03, sample_s=0.03)
    used = {} if foreign is None else {"host": host(foreign, 2)}
    found = result(one, workers=made, costs=(replace(costs, core_wait_s=wait_s),), **used)
    move = diagnose(found)[1]
    assert move is not None
    return move


def test_workers_that_would_only_take_cores_from_others_are_no_step() -> None:
    """On two cores, 16 workers are predicted to be much faster than two beside others, and no faster without them."""
    move = _computed(2, 1.79)
    assert move.action == "make-stage-cheaper" and move.fair is move.alone and move.alone is not None
    assert move.alone.speedup < 1.1
    assert "without other processes, not tried)" in (next_move(move) or "")


def test_the_figure_of_a_step_is_that_of_a_machine_without_others() -> None:
    """A second core is a gain without others, too. Beside them, more workers would get more of theirs."""
    move = _computed(1, 1.79)
    assert (move.action, move.to_workers) == ("raise-num-workers", 2) and move.alone is not None
    assert move.predicted is not None and 1.1 < move.alone.speedup < 2.01
    said = next_move(move) or ""
    assert f"Without other processes, the loop is predicted to be {move.alone.speedup:.2f}×" in said
    assert f"{move.predicted.speedup:.2f}×" not in said or move.predicted.speedup == move.alone.speedup


def test_nothing_is_predicted_of_workers_that_wait_for_cores_while_the_load_is_unknown() -> None:
    """As after a signal that ended the script: nobody counted what others used."""
    move = _computed(2, None)
    assert move.action == "make-stage-cheaper" and move.predicted is None and move.alone is None
    assert "No whole core is free: of 2, the workers use 0.2 and wait for 1.8 more" in (next_move(move) or "")


@pytest.mark.parametrize(("foreign", "part"), [(0.0, "receive"), (1.8, None)])
def test_a_batch_is_received_late_where_others_use_all_cores(foreign: float, part: str | None) -> None:
    """The workers rest and hardly wait for a core. It is the loop's own thread that waits for one."""
    parts = (WaitPart("receive", 0.009, 0.9), WaitPart("wait-for-worker", 0.001, 0.1))
    small = HandOff(0.0001, 0.0001, 500.0, 50, tensors_per_batch=1.0)
    rested = [replace(one, busy_share=0.8) for one in SLEEPING]
    found, _ = diagnose(
        result(loader(script_cores=0.1), workers=rested, wait_parts=parts, hand_off=small, host=host(foreign, 2))
    )
    assert found.wait_part == part
