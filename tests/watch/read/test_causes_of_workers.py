"""Causes that depend on how much each worker has to do, and on whether it could have a core."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from made_up_loop import loader, worker
from planted_runs import MS, TRAINS, TURNS, Planted, said

from pipebench.host.machine import Load
from pipebench.render.watch_causes import SENTENCES
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.read.account import MadeInLoop, account
from pipebench.watch.read.causes import _resting
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.record.lines import FetchSums, LoopSums, NewStage, StageName


@pytest.mark.parametrize(
    ("alone", "cores", "saved"),
    [
        ({}, 1.0, 3.0),
        ({1: MadeInLoop(1.0)}, 1.0, 0.0),
        ({1: MadeInLoop(0.25)}, 1.0, 2.25),
        ({1: MadeInLoop(1.0)}, 2.0, 2.0),  # 3 s of making and 1 s of training take 2 s on two cores
        ({1: MadeInLoop(0.25)}, 2.0, 3.0),
        ({1: MadeInLoop(1.0)}, 8.0, 3.0),
        ({1: MadeInLoop(1.0, 1.25)}, 2.0, 1.5),  # training uses two cores: 5 s of work take 2.5 s on two
        ({1: MadeInLoop(1.0, 1.25)}, 4.0, 2.75),
        ({1: MadeInLoop(1.0, 0.75)}, 1.0, 1.0),  # training waits for a device
        ({1: MadeInLoop(1.0, 0.5)}, 0.5, 0.0),  # its share of a core is all that it may use
        ({1: MadeInLoop(1.0, 2.01)}, 2.0, 1.5),  # some of it is threads that spin while batches are made
    ],
)
def test_workers_save_no_more_than_the_cores_allow(alone: dict[int, MadeInLoop], cores: float, saved: float) -> None:
    """On one core they would compute in turns with the loop, as it does now."""
    run = Planted()
    run.loader(workers=0, passes=10, make_batch=300, backward=100)
    found = account(Run([Process(run.lines)], ShownTime(), (1,)), (0, run.now), {}, alone, cores=cores)
    assert found is not None
    row = next(one for one in found.rows if one.code == "make-batch")
    assert row.s == pytest.approx(3.0) and row.recoverable_s == pytest.approx(saved)


def test_start_up_and_the_end_of_a_pass_are_no_time_in_which_workers_could_make_batches() -> None:
    run = Planted()
    run.loader(workers=0, passes=10, start_up=500, make_batch=300, backward=100, end_of_pass=100)
    alone = {1: MadeInLoop(1.0, 1.25)}
    found = account(Run([Process(run.lines)], ShownTime(), (1,)), (0, run.now), {}, alone, cores=2.0)
    assert found is not None
    row = next(one for one in found.rows if one.code == "make-batch")
    assert row.recoverable_s == pytest.approx(1.5)  # as without them


@pytest.mark.parametrize(("both_cores", "saved"), [(False, 5.0), (True, 0.0)])
def test_what_workers_save_is_known_by_the_cores_that_training_uses(both_cores: bool, saved: float) -> None:
    """5 s of making batches on one core, and 5 s of training on one of two cores, or on both: 10 s beside a worker."""
    run, turn = Planted(), 50 * MS
    run.loader(workers=0, make_batch=5000, backward=5000)
    lines = [one for one in run.lines if not isinstance(one, LoopSums)]
    for number in range(TURNS):
        used = (number + 1) * turn * (3 if both_cores else 2)
        phases, begin = [turn, 0, 0, turn, 0, 0, 0], run.first_pass[0] + number * 2 * turn
        lines.append(LoopSums(1, 0, number, begin, 1, 1, phases, None if number else turn, process_cpu_ns=used))
    made = {"batches": TURNS, "samples": TURNS, "busy_ns": TURNS * turn, "cpu_ns": TURNS * turn}
    run.lines = [*lines, FetchSums(1, 0, run.now, **made, stages_ns={1: TURNS * turn})]
    row = next(one for one in run.account(2).rows if one.code == "make-batch")
    assert row.s == pytest.approx(5.0) and row.recoverable_s == pytest.approx(saved)


def _seen(cores: float = 8.0) -> Any:
    account = Account(40.0, (AccountRow("wait-for-worker", 20.0, 1),))
    host = SimpleNamespace(usable_cores=cores)
    return SimpleNamespace(account=account, result=host, rows=lambda loader: account.rows, script_cores=lambda one: 0.5)


@pytest.mark.parametrize(("passes", "batches", "uneven"), [(4, (8, 4, 4, 4), False), (4, (20, 4, 4, 4), True)])
def test_one_batch_more_a_pass_is_no_uneven_work(
    passes: int, batches: tuple[int, ...], uneven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of nine batches, one of eight workers makes two: it is busy twice as long, and nobody can change that."""
    most = max(batches)
    made = [worker(place, busy_s=float(one), busy_share=one / most, batches=one) for place, one in enumerate(batches)]
    monkeypatch.setattr("pipebench.watch.read.causes._uneven_batches", lambda *_: [])
    seen = _seen()
    whole = Cause("", 10.0, 10.0, 1, {"workers": 4, "busy": 0.5})
    mean = sum(batches) / most / len(batches)
    found = [*_resting(seen, loader(passes=passes, workers=4), made, whole, mean)]
    assert ("uneven-workers" in [one.code for one in found]) is uneven


@pytest.mark.parametrize(
    ("times", "samples", "found"),
    [
        ((8.0, 8.0, 0.0), (200, 200), ("slow-worker", "computes", 8.0)),
        ((8.0, 1.0, 0.0), (200, 200), ("slow-worker", "blocked", 8.0)),
        ((8.0, 1.0, 6.0), (200, 240), ("slow-worker", "no-core", 9.6)),
        ((8.0, 1.0, 0.0), (400, 200), ("uneven-workers", None, None)),  # it makes more
    ],
)
def test_a_worker_that_takes_longer_for_a_sample_has_not_more_work(
    times: tuple[float, float, float], samples: tuple[int, int], found: tuple[str, str | None, float | None]
) -> None:
    busy, cpu, no_core = times
    made = [
        worker(0, busy_s=1.0, cpu_s=1.0, busy_share=0.1, samples=samples[1]),
        worker(1, busy_s=busy, cpu_s=cpu, busy_share=0.95, core_wait_s=no_core, samples=samples[0]),
    ]
    seen = _seen()
    whole = Cause("waiting", 20.0, 20.0, 1, {"workers": 2, "busy": 0.5})
    (cause,) = _resting(seen, loader(passes=1, workers=2), made, whole, 0.525)
    slower = cause.values.get("slower")
    assert (cause.code, cause.values.get("slow_part"), slower and pytest.approx(slower)) == found
    assert cause.values["worker"] == 1
    assert cause.recoverable_s == pytest.approx(20.0 * (0.85 if slower else 0.425))
    said = SENTENCES[cause.code](cause, cause.values, "20.0 s of the run's 40.0 s (50 %)")
    assert ("Worker 1 takes 8.0 times as long for a sample as the other (40.0 ms)" in said) == (slower == 8.0)


@pytest.mark.parametrize(
    ("busy", "no_core", "cores", "found"),
    [
        (0.75, 400, 2, True),
        (0.75, 50, 2, False),  # within the scatter
        (0.75, 400, 8, False),  # cores are idle: others keep it waiting
        (0.95, 400, 2, False),  # they never rest, so it waits for batches: another cause has that
    ],
)
def test_workers_that_rest_at_times_may_keep_training_from_a_core(busy, no_core, cores, found: bool) -> None:
    run = Planted()
    run.loader(**TRAINS, passes=2, no_core=no_core, cpu=600)
    for number in range(2):
        run.worker(number, busy=busy, process_cpu_ns=int(busy * 1900 * MS))
    causes = {one.code: one for one in run.account(cores).causes}
    assert ("stage" in causes) is found
    if found:
        assert causes["stage"].s == causes["stage"].values["core_s"] == causes["stage"].recoverable_s
        assert "for a core that the workers used: 400 ms" in said(run.account(cores))


@pytest.mark.parametrize(
    ("allowed", "wanted", "found"),
    [
        (({0}, {0}), 500, True),  # both on one core of four
        (({0}, {1}), 500, False),  # each on a core of its own
        (({0, 1, 2, 3}, {0, 1, 2, 3}), 500, False),
        (({0}, {0}), 50, False),  # one core is enough for them
        ((set(), set()), 500, False),  # nothing is known
    ],
)
def test_workers_that_may_not_use_all_cores_are_told(allowed, wanted: int, found: bool) -> None:
    """Two workers, always busy, want a core for `wanted` ms of a second and have none."""
    run = Planted()
    run.loader(wait_for_worker=600, **TRAINS)
    for number in range(2):
        run.worker(number, cpu=0.5, core_wait_ns=wanted * 1_000_000)
    seen = Footprint({20 + number: Held(cores=frozenset(one)) for number, one in enumerate(allowed)})
    causes = {one.code: one for one in run.account(footprint=seen).causes}
    assert ("few-cores" in causes) is found
    if found:
        assert causes["few-cores"].values["allowed"] == 1 and causes["few-cores"].recoverable_s == pytest.approx(0.6)
        assert "may all together run on 1 core only: their affinity is set." in said(run.account(footprint=seen))


def test_a_stage_whose_library_computes_in_threads_of_its_own_is_the_cause() -> None:
    """As a decoder of videos does: the thread that makes the batch mostly waits for them."""
    run = Planted()
    run.loader(wait_for_worker=600, passes=2, cpu=500, **TRAINS)
    for number in range(2):
        run.worker(number, busy=0.97, cpu=0.24, core_wait_ns=300 * MS, process_cpu_ns=1280 * MS)
    assert "stage" in {one.code for one in run.account(2).causes}


@pytest.mark.parametrize(
    ("figures", "competes"),
    [({"process_cpu_ns": 1900 * MS}, True), ({"core_wait_ns": 300 * MS}, True), ({"process_cpu_ns": 1000 * MS}, False)],
)
def test_threads_of_libraries_compete_only_if_hardly_a_core_is_idle(figures: dict[str, int], competes: bool) -> None:
    """Two workers of five threads on four cores. Where two cores are idle, the threads make them faster."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, cpu=200)
    for number in range(2):
        run.worker(number, threads=4, cpu=0.6, **figures)
    found = run.causes()
    assert ("threads-over-cores" in found, "stage" in found) == (competes, not competes)
    assert not competes or found["threads-over-cores"].values["threads"] == 5


def test_threads_that_use_the_cores_up_are_the_one_cause() -> None:
    """Two cores. Half of what two workers use is used by native threads: less work of theirs is no other cause."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, passes=2, cpu=200)
    for number in range(2):
        run.worker(number, threads=4, cpu=0.45, process_cpu_ns=940 * MS)
    codes = {one.code for one in run.account(2).causes}
    assert "threads-over-cores" in codes and not codes & {"cores-used-up", "stage"}


@pytest.mark.parametrize(("others", "saved"), [(0.0, 0.4), (15.0, 0.2)])
def test_fewer_workers_do_not_save_the_waits_that_other_processes_cause(others: float, saved: float) -> None:
    """Two passes. The loop's thread has no core for 400 ms; six workers use 1.5 cores, and the others none or 1.5."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=200, passes=2, workers=6, no_core=400, cpu=300)
    for number in range(6):
        run.worker(number, busy=0.1, process_cpu_ns=250 * MS)
    found = run.account(2, Footprint(load=Load(10.0, others, 0.0), machine_cores=2))
    one = next(cause for cause in found.causes if cause.code == "workers-compete")
    assert (one.s, one.recoverable_s) == pytest.approx((0.4, saved), rel=0.05)


@pytest.mark.parametrize(
    ("kind", "idle", "cpu", "code", "told"),
    [
        ("transform", 1000, 1.0, "stage", True),
        ("transform", 1000, 0.7, "cores-used-up", True),
        ("transform", 100, 1.0, "stage", False),
        ("decode", 1000, 1.0, "stage", False),
        ("transform", None, 0.7, "cores-used-up", False),
    ],
)
def test_a_transform_that_an_idle_device_could_do(
    kind: str, idle: int | None, cpu: float, code: str, told: bool
) -> None:
    """The device idles for so many ms of 2 s, while two workers use nearly all of 1.5 cores."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, cpu=100, idle=idle)
    for number in range(2):
        run.worker(number, cpu=cpu)
    first = NewStage(1, StageName(kind, "Normalize"))
    run.workers = [
        Process([first if isinstance(one, NewStage) and one.number == 1 else one for one in worker.lines])
        for worker in run.workers
    ]
    account = run.account(1.5)
    assert code in [one.code for one in account.causes]
    text = said(account)
    wanted = "Or do Normalize on the device, for a whole batch, if its samples have one size by then: it idles for 50 %"
    assert (wanted in text) == ("on the device" in text) == told
    assert "not more workers" in text or "More workers do not help" in text
