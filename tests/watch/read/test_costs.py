"""The costs of a loop from its records: the lines are made by hand, so every figure is known."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

import pytest

from pipebench.predict.bounds import core_s
from pipebench.results.costs import KEPT, LoopCosts
from pipebench.watch.read.costs import loop_costs
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import (
    Arrival,
    FetchSums,
    HandedOver,
    LibraryThreads,
    LoaderFound,
    LoopSums,
    PassEnded,
    Pickled,
    ProcessStarted,
)
from pipebench.watch.record.record_file import MAKE, PHASES, PIN, RECEIVE, SAMPLER, SEND, UNPICKLE, WAIT_PARTS, WORKERS
from pipebench.watch.record.worker_lines import OneBatch, ToHandOver

MS = 1_000_000


def _fetch(begin: int, busy: int = 10, cpu: int = 6, **more: Any) -> FetchSums:
    """One batch of 8 samples; times in milliseconds."""
    known: dict[str, Any] = {"batches": 1, "samples": 8, "busy_ns": busy * MS, "cpu_ns": cpu * MS}
    single = [OneBatch(begin * MS, busy * MS, cpu * MS, more.get("core_wait_ns", 0))]
    return FetchSums(1, begin * MS, (begin + busy) * MS, **known | {"single": single} | more)


def _turn(number: int, wait: int = 3, step: int = 7, **more: Any) -> LoopSums:
    """One iteration; times in milliseconds. Of the wait, `parts` are named, and the rest is torch's own code."""
    parts = more.pop("parts", {WORKERS: wait})
    waited = [parts.get(place, 0) * MS for place in range(len(WAIT_PARTS))]
    phases = [wait * MS, 0, step * MS, *[0] * (len(PHASES) - 3)]
    known: dict[str, Any] = {"first": number, "begin": number * 10 * MS, "turns": 1, "phases_ns": phases}
    return LoopSums(1, 0, wait_parts_ns=waited, **known | more)


def _costs(
    fetches: list[list[FetchSums]],
    turns: list[LoopSums],
    workers: int | None = None,
    cpu_ms: int = 0,
    native_threads: int = 0,
) -> LoopCosts | None:
    """`cpu_ms` is the CPU time of the script's process in each iteration."""
    for number, one in enumerate(turns):
        one.process_cpu_ns = (number + 1) * cpu_ms * MS
    script = Process([ProcessStarted(1, "script", 0), *turns, *([] if workers != 0 else fetches[0])])
    made = [] if workers == 0 else fetches
    ended = LibraryThreads([], native_threads)
    inside = [Process([ProcessStarted(2 + one, "worker", 0, 1, one), *made[one], ended]) for one in range(len(made))]
    count = len(fetches) if workers is None else workers
    found = LoaderFound(1, "Photos", count, 8, "fork", 3 if count else None)
    return loop_costs(Run([script, *inside], ShownTime(), (1,)), found)


def test_a_batch_is_divided_into_computing_waiting_for_a_core_and_being_blocked() -> None:
    fetches = [_fetch(10 * one, busy=10, cpu=6, core_wait_ns=MS) for one in range(20)]
    found = _costs([fetches], [_turn(one) for one in range(20)])
    assert found is not None and found.cpu_s == pytest.approx([0.006] * 18)
    assert found.blocked_s == pytest.approx([0.003] * 18) and found.core_wait_s == pytest.approx(0.001)
    assert (found.workers, found.prefetch_factor, found.samples) == (1, 3, 8)


def test_samples_that_no_batch_holds_are_not_given_to_the_training() -> None:
    fetches = [_fetch(10 * one) for one in range(19)]
    last = _fetch(190, batches=2, samples=21, unused=5)
    found = _costs([[*fetches, last]], [_turn(one) for one in range(20)])
    assert found is not None and found.samples == 8


def test_batches_of_several_workers_stand_in_their_order() -> None:
    """The 1st and 2nd worker make batches of 10 and 20 ms in turn; the first two of each are start-up."""
    one, two = ([_fetch(begin + 40 * nth, busy, busy) for nth in range(8)] for begin, busy in ((0, 10), (1, 20)))
    found = _costs([one, two], [_turn(number) for number in range(16)])
    assert found is not None and found.cpu_s == pytest.approx([0.01, 0.02] * 6)


def test_single_batches_are_scaled_to_the_mean_of_all() -> None:
    """Later lines hold many batches that were twice as fast: the sample keeps its shape, and gets their mean."""
    fetches = [_fetch(10 * one, 10, 10) for one in range(12)]
    fetches.append(_fetch(200, 450, 450, batches=90, samples=720, single=[]))
    found = _costs([fetches], [_turn(one) for one in range(12)])
    assert found is not None and len(found.cpu_s) == 10
    assert fmean(found.cpu_s) == pytest.approx((10 * 0.01 + 90 * 0.005) / 100)


def test_batches_that_share_a_line_stand_in_the_order_of_their_begins() -> None:
    """Two workers make batches of 10 and 20 ms in turn; each worker writes them together at its end."""
    lines = []
    for first, busy in ((0, 10), (1, 20)):
        single = [OneBatch((first + 40 * nth) * MS, busy * MS, busy * MS, 0) for nth in range(2, 8)]
        settling = [_fetch(first + 40 * nth, busy, busy) for nth in range(2)]
        all_of_it = {"batches": 6, "samples": 48, "busy_ns": 6 * busy * MS, "cpu_ns": 6 * busy * MS, "single": single}
        lines.append([*settling, _fetch(first + 80, 200, **all_of_it)])
    found = _costs(lines, [_turn(number) for number in range(16)])
    assert found is not None and found.cpu_s == pytest.approx([0.01, 0.02] * 6)


def test_what_is_kept_is_bounded() -> None:
    found = _costs([[_fetch(10 * one) for one in range(2000)]], [_turn(one) for one in range(2000)])
    assert found is not None and len(found.cpu_s) == len(found.blocked_s) == len(found.step_s) == KEPT


def test_the_parts_of_the_wait_go_where_they_are_spent() -> None:
    parts = {WORKERS: 1, SAMPLER: 2, SEND: 1, RECEIVE: 3, UNPICKLE: 4}
    turns = [_turn(one, wait=13, step=7, parts=parts) for one in range(20)]  # 2 ms have no name
    found = _costs([[_fetch(10 * one) for one in range(20)]], turns, cpu_ms=15)
    assert found is not None and found.iteration_s == pytest.approx(0.02)
    assert (found.own_s, found.send_s, found.receive_s) == pytest.approx((0.004, 0.001, 0.007))
    assert found.step_s[0] == pytest.approx(0.007) and found.step_cpu_s == pytest.approx(0.003)


@pytest.mark.parametrize(("cpu_ms", "no_core_ms", "received_s"), [(9, 0, 0.0005), (4, 0, 0.008), (4, 5, 0.0005)])
def test_a_small_batch_is_received_late_because_its_worker_computes(
    cpu_ms: int, no_core_ms: int, received_s: float
) -> None:
    """One small tensor explains 0.5 ms. A worker that sleeps keeps no lock, so there the time was spent.

    One that has no core, as in the pauses of a quota, does not sleep.
    """
    fetches, turns = [], []
    for nth in range(20):
        handed = HandedOver(nth, 0, nth, 10 * nth * MS, 10 * (nth + 1) * MS, 0, 0, 7, 0, 1, 5000, 0, 0)
        fetches.append(_fetch(10 * nth, cpu=cpu_ms, core_wait_ns=no_core_ms * MS, handed=[handed]))
        turns.append(_turn(nth, wait=9, parts={WORKERS: 1, RECEIVE: 8}, arrivals=[Arrival(nth, 1, 0, 0, 0, 0, 0, 0)]))
    found = _costs([fetches], turns, cpu_ms=12)
    assert found is not None and found.receive_s == pytest.approx(received_s)
    assert found.late_s == pytest.approx(0.008 - received_s)


@pytest.mark.parametrize("waits", [False, True])
def test_what_the_pin_memory_thread_does_is_counted_once_whether_the_loop_waits_for_it_or_not(waits: bool) -> None:
    """It receives a batch for 2 ms and pins it for 4, of the 15 ms that the script's process computes."""
    fetches, turns = [], []
    parts = {WORKERS: 1, RECEIVE: 2, PIN: 4} if waits else {WORKERS: 7}
    for nth in range(20):
        at = 10 * nth * MS
        handed = HandedOver(nth, 0, nth, at, at + 4 * MS, 0, 0, 7, 0, 1, 5000, 0, 0)
        arrival = Arrival(nth, 1, at, at, at, at + 2 * MS, at + 6 * MS, 3, begun=at)
        fetches.append(_fetch(10 * nth, cpu=4, handed=[handed]))
        turns.append(_turn(nth, wait=7, step=13, parts=parts, arrivals=[arrival]))
    found = _costs([fetches], turns, cpu_ms=15)
    assert found is not None and (found.receive_s, found.pin_s) == pytest.approx((0.002, 0.004))
    assert found.step_cpu_s == pytest.approx(0.009) and found.late_s == 0.0
    assert core_s(found, 1) - found.between_s == pytest.approx(0.004 + 0.015)


def test_a_loader_without_workers_makes_its_batches_in_the_loop() -> None:
    turns = [_turn(one, wait=13, step=7, parts={MAKE: 10, SAMPLER: 1, PIN: 2}) for one in range(20)]
    found = _costs([[_fetch(10 * one, cpu=6) for one in range(20)]], turns, workers=0, cpu_ms=16)
    assert found is not None and found.workers == 0 and found.made_s == pytest.approx(0.01)
    assert found.own_s == pytest.approx(0.001) and found.pin_s == pytest.approx(0.002)
    assert found.step_cpu_s == pytest.approx(0.016 - 0.006 - 0.003)


def test_the_time_that_the_loop_waited_for_a_core_is_no_cost() -> None:
    """All CPU time of the process is the step's, so all of its wait for a core is the step's too."""
    turns = [_turn(one, core_wait_ns=2 * MS * one) for one in range(20)]
    found = _costs([[_fetch(10 * one) for one in range(20)]], turns, cpu_ms=4)
    assert found is not None and found.step_s[0] == pytest.approx(0.005) and found.iteration_s == pytest.approx(0.01)


def test_the_serial_part_gives_its_share_of_that_wait() -> None:
    """The process computes 6 ms an iteration and waits for a core for 6 ms: half of each wall time was computing."""
    parts = {WORKERS: 1, RECEIVE: 8}
    turns = [_turn(one, wait=9, step=20, parts=parts, core_wait_ns=6 * MS * one) for one in range(20)]
    found = _costs([[_fetch(10 * one) for one in range(20)]], turns, cpu_ms=6)
    assert found is not None and (found.receive_s, found.step_cpu_s) == pytest.approx((0.004, 0.002))
    assert found.step_s[0] == pytest.approx(0.020 - 0.002)


def test_native_threads_pickling_and_reading_of_workers() -> None:
    """A worker's process computes 24 ms for 6 ms of the fetching thread, and pickles for 2 ms of which 1 is CPU."""
    fetches = [
        _fetch(10 * one, cpu=6, process_cpu_ns=25 * MS * (one + 1), read_bytes=800 * (one + 1),
               pickled=Pickled(2 * MS, MS, 1, 400))
        for one in range(20)
    ]  # fmt: skip
    found = _costs([fetches], [_turn(one) for one in range(20)], native_threads=3)
    assert found is not None and found.threads == pytest.approx(4.0)
    without = _costs([fetches], [_turn(one) for one in range(20)])
    assert without is not None and without.threads == 1.0
    assert (found.feeder_cpu_s, found.feeder_blocked_s) == pytest.approx((0.001, 0.001))
    assert (found.read_bytes, found.pipe_bytes) == pytest.approx((800, 400))


@pytest.mark.parametrize(("gap_ms", "expected"), [(0.2, 0.0002), (50, 0.0005)])
def test_between_two_batches_a_worker_does_little(gap_ms: float, expected: float) -> None:
    """A worker that waits for the loop has long gaps, which are no cost."""
    gap, fetches, turns = int(gap_ms * MS), [], []
    for nth in range(20):
        began = nth * (10 * MS + gap)
        handed = HandedOver(nth, 0, nth, began, began + 10 * MS, 0, 0, 7, 400, 1, 5000, 0, 0)
        fetches.append(_fetch(10 * nth, handed=[handed]))
        turns.append(_turn(nth, arrivals=[Arrival(nth, 1, 0, 0, 0, 0, 0, 0)]))
    found = _costs([fetches], turns)
    assert found is not None and found.between_s == pytest.approx(expected)
    assert found.shared_bytes == 5000


def test_a_loop_of_which_nothing_was_seen_has_no_costs() -> None:
    assert _costs([[]], [_turn(0)]) is None and _costs([[_fetch(0)]], []) is None


@pytest.mark.parametrize(
    ("held", "hand_over_s"),
    [
        (ToHandOver(2, 4, 0, 0), 0.002),
        (ToHandOver(1, 301, 0, 0), 0.002 + 299 * 0.0003),
        (ToHandOver(2, 4, 2 * 10**7, 0), 0.002 + 0.007),
        (ToHandOver(1, 0, 0, 10**7), 0.002 + 0.04),
    ],
)
def test_what_workers_would_have_to_hand_over_is_assumed_by_what_batches_hold(
    held: ToHandOver, hand_over_s: float
) -> None:
    fetches = [_fetch(10 * one, held=held if one == 3 else ToHandOver()) for one in range(20)]
    found = _costs([fetches], [_turn(one, parts={MAKE: 3}) for one in range(20)], workers=0)
    assert found is not None and found.tensors == held.tensors / held.batches
    assert found.hand_over_s == pytest.approx(hand_over_s)
    unknown = _costs([[_fetch(10 * one) for one in range(20)]], [_turn(one) for one in range(20)], workers=0)
    assert unknown is not None and unknown.tensors is None and unknown.hand_over_s is None


def _idle(ms: float, waits: int = 1) -> DeviceIdleTime:
    return DeviceIdleTime(int(ms * MS), waits)


def test_a_device_works_for_an_iteration_less_its_idle_time_in_the_wait() -> None:
    """The host waits for 8 of 10 ms, and the device idles for 2 of them. Not each wait was measured."""
    turns = [_turn(one, wait=8, step=2, idle=_idle(2) if one % 2 else None) for one in range(20)]
    found = _costs([[_fetch(10 * one) for one in range(20)]], turns)
    assert found is not None and found.iteration_s == pytest.approx(0.010)
    assert found.device_s == pytest.approx(0.008)
    without = _costs([[_fetch(10 * one) for one in range(20)]], [_turn(one) for one in range(20)])
    assert without is not None and without.device_s == 0.0


def test_a_loop_on_a_device_that_nobody_sees_has_no_costs() -> None:
    """Batches are copied to a CUDA device, whose idle time is not known: the host's time would promise too much."""
    phases = [3 * MS, MS, 6 * MS, *[0] * (len(PHASES) - 3)]
    copied = [_turn(one, phases_ns=phases) for one in range(20)]
    assert _costs([[_fetch(10 * one) for one in range(20)]], copied) is None
    assert _costs([[_fetch(10 * one) for one in range(20)]], [replace(one, idle=_idle(1)) for one in copied])


@pytest.mark.parametrize(
    ("counts", "ends", "turns"),
    [
        ([12, 12, 6], [], 12),
        ([12, 6, 3], ["exhausted", "left", "left"], 6),  # the last one ended with the script, or goes on
        ([12, 6, 3], ["exhausted", "left", "exhausted"], 6),
        ([12], ["exhausted"], 12),
        ([12], ["left"], None),
        ([12], [], None),
    ],
)
def test_the_iterations_of_a_pass_are_known_of_those_that_are_over(
    counts: list[int], ends: list[Any], turns: int | None
) -> None:
    lines = [replace(_turn(one), number_of_pass=number) for number, many in enumerate(counts) for one in range(many)]
    script = Process([ProcessStarted(1, "script", 0), *lines, *(PassEnded(1, one, 0) for one in ends)])
    worker = Process([ProcessStarted(2, "worker", 0, 1, 0), *(_fetch(10 * one) for one in range(30))])
    found = loop_costs(Run([script, worker], ShownTime(), (1,)), LoaderFound(1, "Photos", 1, 8, "fork", 2))
    assert found is not None and found.turns == turns
