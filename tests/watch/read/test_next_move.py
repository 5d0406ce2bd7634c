"""The next move follows what was measured: cores by their use, the hand-off by its time, workers by what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_up_costs import made
from made_up_loop import host, loader, result, worker

from pipebench.render.watch_verdict import next_move, verdict
from pipebench.results.batches import DeviceIdle
from pipebench.results.costs import LoopCosts
from pipebench.results.hand_off import HandOff
from pipebench.results.next_move import NextMove
from pipebench.results.watched import (
    StageResult,
    Verdict,
    WaitPart,
    WatchResult,
)
from pipebench.watch.read.moves import among_ranks, in_its_words
from pipebench.watch.read.verdict import diagnose

MS = 1_000_000


def _diagnosed(result: WatchResult) -> tuple[Verdict, NextMove]:
    found, move = diagnose(result)
    assert move is not None
    return found, move


SLEEPING = (worker(0, cpu_s=0.02, cores=0.02), worker(1, cpu_s=0.02, cores=0.02))


def test_workers_that_sleep_leave_room_for_more_where_the_loop_uses_its_measured_share() -> None:
    _, move = _diagnosed(result(loader(script_cores=0.5), workers=SLEEPING))
    assert move.action == "raise-num-workers"
    assert next_move(move) == (
        "Next: raise num_workers above 2. The workers are always busy. Of 2 usable cores, the workers use 0.0 and the "
        "script's own process 0.5."
    )


def test_more_workers_of_a_stream_that_asks_for_none_come_with_how_to_divide_it() -> None:
    """Eight workers would each give all samples: eight times the work, and the same samples."""
    alike = loader(script_cores=0.5, undivided=True)
    run = result(alike, workers=SLEEPING)
    found, first = _diagnosed(run)
    move = in_its_words(first, replace(run, loaders=(alike,), verdict=found))
    assert move is not None and move.undivided
    assert "(get_worker_info), so each would give all" in (next_move(move) or "")
    assert next_move(replace(move, to_workers=1)) == next_move(replace(move, to_workers=1, undivided=False))


@pytest.mark.parametrize("workers", [0, 1])
def test_where_workers_would_share_an_open_file_each_is_to_open_it_first(workers: int) -> None:
    """Two workers that move one position read other bytes than they asked for."""
    kept = loader(script_cores=0.5, workers=workers, kept_open=True)
    run = result(kept, workers=SLEEPING[:workers])
    found, first = _diagnosed(run)
    said = next_move(in_its_words(first, replace(run, loaders=(kept,), verdict=found))) or ""
    assert said.startswith("Next: first let each worker open the file or connection itself (in its first __getitem__,")
    assert ", and forked workers would share it. Then " in said and "num_workers" in said


def test_workers_that_wait_for_a_core_leave_no_room_for_more_though_nobody_knows_who_has_it() -> None:
    workers = [replace(one, cpu_s=0.23, cores=0.23, core_wait_s=0.77) for one in SLEEPING]
    _, move = _diagnosed(result(loader(script_cores=0.5), workers=workers))
    assert move.action == "make-stage-cheaper"


def test_workers_that_wait_for_the_core_of_their_rank_are_not_said_to_wait_for_what_serves_more() -> None:
    """They compute half of the time and have no core in the other half, as on one core that a rank has pinned."""
    workers = [replace(one, cpu_s=0.45, cores=0.45, core_wait_s=0.55) for one in SLEEPING]
    costs = made(cpu=0.01, core_wait_s=0.012, step=0.001, workers=2, iteration_s=0.011)
    _, move = _diagnosed(result(loader(script_cores=0.1), cores=1.0, workers=workers, costs=(costs,)))
    assert move.action == "make-stage-cheaper" and move.predicted is not None and move.predicted.speedup < 1.3
    assert "Of 1 core, the workers use 0.9 and wait for 1.1 more" in (next_move(move) or "")
    raised = replace(move, action="raise-num-workers", foreign_cores=None, workers=3)
    assert "mostly wait" not in (next_move(raised) or "")
    assert "mostly wait" in (next_move(replace(raised, wanted_cores=0.0)) or "")


def test_a_rank_is_not_promised_the_cores_that_its_siblings_then_need() -> None:
    """Each of two ranks uses 0.8 of two cores. If the job goes faster, so does the other rank."""
    workers = [replace(one, cpu_s=0.3, cores=0.35) for one in SLEEPING]
    costs = made(cpu=0.003, blocked=0.007, step=0.001, workers=2, iteration_s=0.011)
    alone = result(loader(script_cores=0.1), workers=workers, costs=(costs,), host=host(0.1, 2))
    alone = replace(alone, verdict=Verdict("data", loader=1))
    _, promised = _diagnosed(alone)
    assert promised.predicted is not None and promised.predicted.speedup > 1.5
    found = among_ranks(replace(alone, next_move=promised, host=host(0.9, 2)), [alone], 0.8, 2.0)
    assert found.host is not None and found.host.foreign_cores == pytest.approx(0.1)
    assert found.host.sibling_cores == pytest.approx(0.8)
    move = found.next_move
    assert move is not None and move.predicted is not None
    assert move.predicted.high <= 1.9 / 1.6 + 1e-9
    assert "other ranks of the job 0.8 and other processes 0.1" in (next_move(move) or "")


def test_a_batch_that_is_received_late_for_want_of_a_core_is_no_slow_hand_off() -> None:
    parts = (WaitPart("receive", 0.008, 0.7), WaitPart("wait-for-worker", 0.004, 0.3))
    small = HandOff(0.0001, 0.0001, 500.0, 50, tensors_per_batch=1.0)
    rested = [replace(one, busy_share=0.8) for one in SLEEPING]
    for core_wait_s, part in ((0.0, "receive"), (0.5, None)):
        workers = [replace(one, core_wait_s=core_wait_s) for one in rested]
        found, _ = diagnose(result(loader(), workers=workers, wait_parts=parts, hand_off=small))
        assert found.wait_part == part


@pytest.mark.parametrize(
    ("script", "busy", "computes", "action"),
    [
        (0.1, 0.8, 0.9, "raise-num-workers"),
        (0.7, 0.8, 0.9, None),  # 14 ms of CPU time explain 8 ms
        (0.1, 0.3, 0.9, None),
        (0.1, 0.8, 0.1, None),  # they sleep, and keep no lock
    ],
)
def test_a_batch_for_which_the_script_does_not_work_waits_for_the_worker_that_sends_it(
    script: float, busy: float, computes: float, action: str | None
) -> None:
    """Its thread waits for the lock of an interpreter that computes."""
    parts = (WaitPart("unpickle", 0.008, 0.7), WaitPart("wait-for-worker", 0.004, 0.3))
    small = HandOff(0.0001, 0.0001, 500.0, 50, tensors_per_batch=1.0)
    workers = [worker(n, busy_share=busy, cpu_s=computes, cores=0.4) for n in range(2)]
    found, move = diagnose(
        result(loader(script_cores=script), cores=8.0, workers=workers, wait_parts=parts, hand_off=small)
    )
    assert found.wait_part == (None if action else "receive")
    assert move is not None and move.action == (action or "shorten-wait-part")
    assert ("in the script's own process" in verdict(found)) == (action is None)


def test_where_other_processes_have_the_cores_the_verdict_is_not_about_workers_that_rest() -> None:
    parts = (WaitPart("receive", 0.008, 0.8), WaitPart("wait-for-worker", 0.002, 0.2))
    small = HandOff(0.0001, 0.0001, 500.0, 50, tensors_per_batch=1.0)
    rested = [replace(one, busy_share=0.01) for one in SLEEPING]
    run = result(loader(script_cores=0.1), workers=rested, wait_parts=parts, hand_off=small, host=host(1.9, 2))
    found, move = diagnose(run)
    assert (found.wait_part, move) == ("receive-without-core", None)
    assert verdict(found).endswith(
        "75 % of the wait is receiving and unpickling batches for longer than their size explains: hardly a core is "
        "idle. Its 2 workers mostly rest."
    )
    alone, _ = diagnose(replace(run, host=host(0.0, 2)))
    assert alone.wait_part == "receive"


def test_another_worker_that_sleeps_needs_no_whole_core() -> None:
    _, move = _diagnosed(result(loader(script_cores=1.4), workers=SLEEPING))
    assert move.action == "raise-num-workers"


def test_where_the_cores_are_used_up_each_use_is_said() -> None:
    workers = (worker(0, cores=0.7), worker(1, cores=0.7))
    _, move = _diagnosed(result(loader(script_cores=0.3, sample_s=0.0051), workers=workers, host=host(0.4, 2)))
    assert next_move(move) == (
        "Next: make Photos.__getitem__ cheaper; it takes 5.00 ms of the 5.10 ms of a sample. No whole core is "
        "free: of 2, the workers use 1.4, the script's own process 0.3 and other processes 0.4."
    )


@pytest.mark.parametrize(("foreign", "machine", "action"), [
    (1.5, 2, "make-stage-cheaper"), (1.5, 64, "raise-num-workers"), (0.0, 2, "raise-num-workers"),
])  # fmt: skip
def test_other_processes_count_where_they_use_the_same_cores(foreign: float, machine: int, action: str) -> None:
    """Two workers get 0.4 of a core each: because others use the rest, or because they wait for something."""
    workers = (worker(0, cores=0.4), worker(1, cores=0.4))
    found = result(loader(script_cores=0.2), workers=workers, host=host(foreign, machine))
    assert _diagnosed(found)[1].action == action


def test_threads_of_a_library_in_the_workers_count_as_use() -> None:
    """The thread that makes batches is blocked, because it waits for the others."""
    workers = (worker(0, cpu_s=0.1, cores=0.9), worker(1, cpu_s=0.1, cores=0.9))
    assert _diagnosed(result(loader(script_cores=0.2), workers=workers))[1].action == "make-stage-cheaper"


# --- without workers


def test_workers_are_not_advised_where_a_batch_is_made_faster_than_handed_over() -> None:
    cheap = loader(workers=0, sample_s=0.0001, wait_s_per_iteration=0.0005)
    parts = (WaitPart("make-batch", 0.0004, 0.8), WaitPart("rest", 0.0001, 0.2))
    _, move = _diagnosed(result(cheap, wait_s=0.0005, wait_parts=parts))
    assert (move.action, move.workers, move.batch_s) == ("make-stage-cheaper", 0, 0.0004)
    assert str(next_move(move)).endswith(
        "Workers would hardly help: a batch is made in 400 µs, and to hand one over from a worker takes about 2.00 ms."
    )


def test_workers_are_not_advised_where_hundreds_of_tensors_would_cross() -> None:
    costs = (replace(made(cpu=0.008, workers=0), tensors=301.0, hand_over_s=0.09),)
    _, move = _diagnosed(replace(result(loader(workers=0)), costs=costs))
    assert move.action == "make-stage-cheaper" and move.hand_off_s == 0.09


def test_workers_are_advised_where_a_batch_takes_longer() -> None:
    _, move = _diagnosed(result(loader(workers=0)))
    assert move == NextMove("set-num-workers", 2.0)


def test_one_thread_that_makes_batches_does_not_take_turns_with_the_loop() -> None:
    waits = result(loader(workers=0), wait_parts=(WaitPart("wait-for-worker", 0.012, 1.0),))
    _, move = _diagnosed(waits)
    assert move == NextMove("workers-for-thread", 2.0, to_workers=2)
    assert next_move(move) == (
        "Next: set num_workers to 2 or more. Now one thread beside the loop makes all batches, on 2 usable cores."
    )
    assert diagnose(replace(waits, usable_cores=1.0))[1] is None


# --- the hand-off


def _handing_over(pickled_s: float, cpu_s: float, **more: Any) -> WatchResult:
    """100 batches in two workers, each made in 20 ms."""
    feeder = StageResult("queue feeder thread", "serialise", 1, 400, pickled_s * 100 / 400, pickled_s / 0.02)
    stage = StageResult("Photos.__getitem__", "getitem", 1, 400, 0.005, 0.98)
    found = HandOff(pickled_s, cpu_s, 12.1e6, 100, array_bytes_per_batch=12e6)
    workers = (worker(0, busy_share=0.4), worker(1, busy_share=0.4))
    return result(loader(), stages=(feeder, stage), hand_off=replace(found, **more), workers=workers)


def test_a_hand_off_that_takes_longer_than_making_a_batch_is_the_verdict() -> None:
    found, move = _diagnosed(_handing_over(0.03, 0.028))
    assert (found.hand_off_s, found.batch_s) == (pytest.approx(0.03), pytest.approx(0.02))
    assert verdict(found) == (
        "The loop waits for data 60 % of each iteration (12.0 ms of 20.0 ms). Its 2 workers take longer to hand a "
        "batch over than to make it: the feeder thread of a worker pickles for 30.0 ms, and making the batch takes "
        "20.0 ms. Both run side by side."
    )
    assert move.action == "make-hand-off-cheaper"
    _, other = _diagnosed(_handing_over(0.03, 0.028, carried="Scan.cloud", carried_share=0.99))
    assert (next_move(other) or "").startswith("Next: hand over no Scan.cloud, if training does not use it: objects in")
    assert next_move(move) == (
        "Next: let batches hold tensors instead of NumPy arrays (`torch.from_numpy` copies nothing). 12.1 MB of a "
        "batch go through the pipe; tensors travel in shared memory."
    )


def test_other_objects_are_not_called_arrays() -> None:
    _, move = _diagnosed(_handing_over(0.03, 0.028, array_bytes_per_batch=80.0))
    assert next_move(move) == (
        "Next: make batches cheaper to pickle, with fewer or plainer objects. 12.1 MB of a batch go through the pipe."
    )


@pytest.mark.parametrize(("pickled_s", "cpu_s"), [(0.019, 0.019), (0.03, 0.015)], ids=["faster", "waits for the lock"])
def test_a_hand_off_that_is_not_the_longer_one_is_not_named(pickled_s: float, cpu_s: float) -> None:
    found, move = diagnose(_handing_over(pickled_s, cpu_s))
    assert found.hand_off_s is None and found.stage == "Photos.__getitem__"
    assert move is None  # the workers are busy 40 % of the time


def test_a_slow_hand_off_that_nobody_waits_for_is_not_the_verdict() -> None:
    result = _handing_over(0.03, 0.028)
    found, move = diagnose(replace(result, wait_share=0.02))
    assert found.limit == "training" and found.hand_off_s is None and move is None


@pytest.mark.parametrize(("pipe_bytes", "busy", "part"), [
    (10e6, 1.0, "receive"),  # large batches
    (424.0, 0.2, "receive"),  # workers rest, so they are not what a small batch waits for
    (424.0, 1.0, None),
])  # fmt: skip
def test_a_small_batch_of_workers_that_never_rest_waits_for_them_until_it_is_received(
    pipe_bytes: float, busy: float, part: str | None
) -> None:
    spent = {"receive": 0.006, "unpickle": 0.004, "wait-for-worker": 0.002}
    waits = tuple(WaitPart(name, one, one / 0.012) for name, one in spent.items())
    workers = tuple(replace(one, busy_share=busy) for one in (worker(0), worker(1)))
    handed = HandOff(0.0, 0.0, pipe_bytes, 50, tensors_per_batch=2)
    found, move = diagnose(result(loader(), wait_parts=waits, workers=workers, hand_off=handed))
    assert found.wait_part == part
    assert (move is not None and move.action == "shorten-wait-part") == (part is not None)


def _costs(workers: int, cpu_s: float, blocked_s: float, step_s: float) -> LoopCosts:
    """A loop whose step keeps one core busy. Its batches take this CPU time, and are blocked for so long."""
    of_batch = (cpu_s,) * 16, (blocked_s,) * 16
    iteration_s = step_s + max(0.0, (cpu_s + blocked_s) / max(1, workers) - step_s)
    return LoopCosts(1, workers, 2, 8.0, iteration_s, *of_batch, (step_s,) * 16, step_s)


@pytest.mark.parametrize(("workers", "costs", "to"), [
    (1, (0.030, 0.0, 0.010), 2),  # 1.3 of 2 cores are busy: the second worker has what is left
    (2, (0.001, 0.079, 0.010), 8),  # workers that sleep need no core
])  # fmt: skip
def test_more_workers_are_the_move_if_their_simulation_gains_for_certain(workers: int, costs: Any, to: int) -> None:
    busy = tuple(worker(one, cores=0.9 if workers == 1 else 0.1) for one in range(workers))
    one = loader(workers=workers, script_cores=0.9)  # by the cores alone, no other worker would be free
    _, move = _diagnosed(result(one, workers=busy, costs=(_costs(workers, *costs),)))
    assert (move.action, move.to_workers, move.stage) == ("raise-num-workers", to, None)
    assert move.predicted is not None and move.predicted.low > 1.0
    said = next_move(move) or ""
    assert said.startswith(f"Next: raise num_workers from {workers} to {to}. The workers are always busy")
    assert said.endswith(
        "this was not tried." if workers == 1 else "this assumes that what they wait for serves more of them, too."
    )


def test_a_gain_that_other_processes_would_pay_for_is_said_to_be_one() -> None:
    """Two threads of others want the cores: four workers get a larger share of them than one."""
    costs = replace(_costs(1, 0.030, 0.0, 0.010), core_wait_s=0.030, iteration_s=0.06)
    one = loader(workers=1, script_cores=0.2)
    _, move = _diagnosed(result(one, workers=(worker(0, cores=0.5),), host=host(1.2, 2), costs=(costs,)))
    assert move.action == "raise-num-workers"
    said = next_move(move) or ""
    assert "Without other processes, the loop is predicted" in said
    assert "What it may gain more beside them would be taken from them." in said


def test_where_the_simulation_gains_nothing_a_free_core_is_no_reason_for_more_workers() -> None:
    """Two workers and the step are all that 2 cores can do, although a figure of the cores says less."""
    busy = (worker(0, cores=0.4), worker(1, cores=0.4))
    one = loader(script_cores=0.4, sample_s=0.0051)
    _, move = _diagnosed(result(one, workers=busy, costs=(_costs(2, 0.050, 0.0, 0.020),)))
    assert move.action == "make-stage-cheaper" and move.stage == "Photos.__getitem__"
    assert move.predicted is not None and move.predicted.speedup < 1.05
    said = next_move(move) or ""
    assert (
        "of a sample. More workers would hardly help (4: predicted " in said
        and "not tried). Of 2 cores, the workers use 0.8 and " in said
    )


def test_too_few_batches_for_a_simulation_leave_the_cores_to_judge() -> None:
    few = replace(_costs(2, 0.001, 0.079, 0.01), cpu_s=(0.001,) * 7)
    _, move = _diagnosed(result(loader(script_cores=1.9), workers=SLEEPING, costs=(few,)))
    assert (move.action, move.predicted) == ("make-stage-cheaper", None)


def test_without_workers_the_move_says_how_many_to_begin_with() -> None:
    costs = _costs(0, 0.030, 0.0, 0.010)
    _, move = _diagnosed(result(loader(workers=0), costs=(replace(costs, iteration_s=0.04),)))
    assert move.action == "set-num-workers" and move.to_workers in (1, 2)
    assert (next_move(move) or "").startswith(
        f"Next: set num_workers to {move.to_workers}. Now loading and the loop's own work "
    )


@pytest.mark.parametrize(
    ("script_cores", "action"), [(None, "set-num-workers"), (1.5, "set-num-workers"), (1.95, "make-stage-cheaper")]
)
def test_without_a_simulation_first_workers_are_the_move_only_if_the_script_leaves_cores(script_cores, action) -> None:
    """Where training itself uses all cores, workers and training would take turns as now."""
    _, move = _diagnosed(result(loader(workers=0, script_cores=script_cores, sample_s=0.0051)))
    assert move.action == action
    if action == "make-stage-cheaper":
        assert (next_move(move) or "").endswith("No whole core is free: of 2, the script's own process uses 1.9.")


def test_workers_are_not_advised_where_their_simulation_gains_nothing() -> None:
    """The advice was a number of workers with which the loop was predicted to be no faster, or slower."""
    costs = replace(_costs(0, 0.001, 0.0, 0.050), iteration_s=0.051)
    _, move = _diagnosed(result(loader(workers=0, sample_s=0.0051), costs=(costs,)))
    assert move.action == "make-stage-cheaper" and move.predicted is not None and move.predicted.speedup < 1.05
    said = next_move(move) or ""
    assert f"of a sample. Workers are not certain to help ({move.to_workers}: predicted " in said
    assert said.endswith("not tried).")
    sure = replace(move, predicted=replace(move.predicted, high=1.04))
    assert "Workers would hardly help (" in (next_move(sure) or "")


def test_a_device_that_never_idles_is_said_to_wait_for_nothing_though_the_host_does() -> None:
    """The host's wait of 12 ms is hidden behind the device."""
    idle = DeviceIdle(0.0, 0.0, 100)
    found = diagnose(result(loader(), device_idle=idle))[0]
    assert (found.limit, found.waits, found.wait_share, found.wait_s) == ("training", "device", 0.0, 0.0)
    assert found.phase not in (None, "wait")
