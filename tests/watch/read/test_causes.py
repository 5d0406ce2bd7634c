"""The causes of large rows: records with one planted cause, whose figures and code are then asserted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from planted_runs import MS, TRAINS, TURNS, Planted, said

from pipebench.host.machine import Load
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.hand_off import HandOff
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.causes import Seen, hand_off
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.moves_of_run import move_of_run
from pipebench.watch.record.lines import Arrival, HandedOver, LoopSums, Moment, Pickled, ProcessStarted


def test_a_healthy_run_has_no_cause_but_training() -> None:
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=20, other=10)
    account = run.account()
    assert [one.code for one in account.causes] == ["training"]
    assert account.causes[0].values == {"phase": "backward", "phase_s": 0.5}
    assert said(account) == (
        "Nothing in the loops of this run, 1.13 s long, is worth a change. Training itself took 1.00 s of the run's "
        "1.13 s (88 %), most of it backward: 500 ms."
    )


@pytest.mark.parametrize(
    ("backward", "said_of_it"), [(500, "most of it backward: 500 ms."), (490, "the largest part backward: 490 ms.")]
)
def test_only_half_of_training_is_most_of_it(backward: int, said_of_it: str) -> None:
    run = Planted()
    run.loader(forward=400, backward=backward, optimiser=600 - backward, wait_for_worker=20)
    assert said(run.account()).endswith(said_of_it)


def test_the_cause_that_could_save_most_comes_first_though_another_took_longer() -> None:
    run = Planted()
    run.loader(**TRAINS, sampler=1000)
    run.loader(2, trains=False, wait_for_worker=600, other=2400)
    sampler, validation = run.account().causes[:2]
    assert (sampler.code, validation.code) == ("sampler", "validation")
    assert sampler.at_most_s > validation.at_most_s and sampler.s < validation.s


def test_start_up_of_each_pass() -> None:
    run = Planted()
    run.loader(passes=9, start_up=800, end_of_pass=100, forward=100)
    made = HandedOver(0, 3, 0, 0, 30 * MS, 0, 40 * MS, 1, 0, 0, 0, 0, 0)
    run.worker(handed=[made._replace(number_of_pass=one) for one in range(9)])
    account = run.account()
    cause = account.causes[0]
    assert (cause.code, cause.loader, cause.s) == ("start-up", 1, pytest.approx(8.1))
    # All but the first start-up, without the 40 ms that a first batch takes, and all but the last end.
    assert cause.recoverable_s == pytest.approx(8 * 0.76 + 8 * 0.1)
    assert said(account).startswith(
        "Starting 2 workers (fork), their first batches and their end took 8.10 s of the run's 9.10 s (89 %): 9 passes "
        "over loader 1. persistent_workers=True could save about 6.88 s (predicted, not tried)."
    )


def test_start_up_saves_nothing_where_no_setting_lets_workers_live_on() -> None:
    run = Planted()
    run.loader(passes=9, start_up=800, end_of_pass=100, forward=100, can_persist=False)
    assert run.causes()["start-up"].recoverable_s is None
    assert said(run.account()) == (
        "Starting 2 workers (fork), their first batches and their end took 8.10 s of the run's 9.10 s (89 %): 9 passes "
        "over loader 1. Its library starts workers anew in each pass, also with persistent_workers=True."
    )


def test_workers_that_persist_have_nothing_to_save() -> None:
    run = Planted()
    run.loader(passes=9, start_up=10, forward=100, persistent=True)
    assert "start-up" not in run.causes()


def test_of_validation_only_the_waits_count() -> None:
    """The start-up of its workers is a cause of its own, and comes first if it could save more."""
    run = Planted()
    run.loader(**TRAINS, passes=3)
    run.loader(2, trains=False, passes=3, start_up=500, wait_for_worker=100, other=800)
    started, validation = run.account().causes[:2]
    assert (started.code, validation.code) == ("start-up", "validation")
    assert (started.recoverable_s, validation.recoverable_s) == (pytest.approx(1.0), pytest.approx(0.3))


def test_a_saving_that_is_next_to_nothing_is_neither_told_nor_the_next_step() -> None:
    run = Planted()
    run.loader(**TRAINS, passes=3)
    run.loader(2, trains=False, passes=3, wait_for_worker=2, other=800)
    account = run.account()
    assert account.causes[0].recoverable_s == pytest.approx(0.006)
    assert said(account).endswith("took 2.41 s of the run's 5.51 s (44 %): 3 passes over loader 2.")
    assert move_of_run(None, account.causes, 4.0) is None


def test_validation_is_one_row_with_its_own_inside() -> None:
    run = Planted()
    run.loader(**TRAINS)
    run.loader(2, trains=False, passes=3, wait_for_worker=200, other=800)
    account = run.account()
    assert (account.causes[0].code, account.causes[0].s) == ("validation", pytest.approx(3))
    assert account.causes[0].values["waits_s"] == pytest.approx(0.6)
    (row,) = [one for one in account.rows if one.code == "validation"]
    assert {one.code: one.s for one in row.inside} == {
        "wait-for-worker": pytest.approx(0.6),
        "other": pytest.approx(2.4),
    }
    assert (
        "Loops that do not train (such as validation) took 3.00 s of the run's 4.10 s (73 %): 3 passes over loader 2."
        in said(account)
    )


def test_a_loop_that_trains_nothing_has_no_validation_and_its_work_is_no_waste() -> None:
    run = Planted()
    run.loader(trains=False, other=1000, wait_for_worker=10)
    assert run.causes() == {}


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ({"sampler": 300}, "sampler"),
        ({"other": 300}, "callbacks"),
        ({"pin": 300}, "pin"),
        ({"host_to_device": 300}, "host-to-device"),
        ({"make_batch": 300, "workers": 0}, "no-workers"),
    ],
)
def test_a_large_row_is_a_cause(rows: dict[str, int], code: str) -> None:
    run = Planted()
    run.loader(**TRAINS, **rows)
    found = run.causes()
    assert [one for one in found if one != "training"] == [code]
    assert found[code].s == found[code].recoverable_s == pytest.approx(0.3)
    assert found[code].on_device == (code == "host-to-device")


def test_a_batch_is_of_the_whole_run_as_the_rows_are() -> None:
    """The account holds the warm-up, so its batches count for the time of each."""
    run = Planted()
    run.loader(**TRAINS, sampler=300, passes=2)
    run.lines.append(Moment("warm", run.now - 1300 * MS))
    (found,) = [one for one in run.account(warmup=TURNS).causes if one.code == "sampler"]
    assert found.s == pytest.approx(0.6)
    assert found.values == {"s_per_batch": pytest.approx(0.003), "batches": 2 * TURNS}


def test_waiting_for_a_thread_that_makes_batches_leads() -> None:
    """The loop takes batches from a queue, and the making of the next goes on beside it: no row is "make-batch"."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=2000, workers=0)
    account = run.account()
    assert account.causes[0].code == "no-workers"
    assert account.causes[0].s == account.causes[0].recoverable_s == pytest.approx(2)
    assert said(account).startswith(
        "Waiting for batches took 2.00 s of the run's 3.10 s (64 %): loader 1 has no workers, and one thread beside "
        "the loop makes them. num_workers=2 or more could save up to 2.00 s (predicted, not tried)."
    )


def test_hand_off() -> None:
    run = Planted()
    run.loader(**TRAINS, receive=200, unpickle=100)
    run.worker(pickled=Pickled(50 * MS, 40 * MS, 50, 50 * 409_600))
    found = run.causes()["hand-off"]
    assert found.s == pytest.approx(0.3) and found.values["pipe_bytes_per_batch"] == 409_600


def test_a_small_batch_that_arrives_late_waited_for_a_core() -> None:
    """424 bytes, as seen on a machine whose cores were all used: receiving took a quarter of each iteration."""
    run = Planted()
    run.loader(**TRAINS, receive=200, unpickle=100)
    run.worker(pickled=Pickled(50 * MS, 40 * MS, 50, 50 * 424))
    assert "hand-off" not in run.causes()


@pytest.mark.parametrize(("tensors", "s"), [(2, 0.002), (42, 0.3)])
def test_two_small_tensors_are_no_hand_off_that_could_be_cheaper(tensors: int, s: float) -> None:
    loader = SimpleNamespace(loader=1)
    handed = HandOff(0.001, 0.001, 424, 100, tensors_per_batch=tensors)
    result: Any = SimpleNamespace(hand_off=handed, loaders=(loader,), loaders_in_loop=(1,))
    run = Run([Process([ProcessStarted(1, "script", 0), LoopSums(1, 0, turns=100)])], ShownTime(), (1,))
    account = Account(2.0, (AccountRow("receive", 0.1, 1, 0.1), AccountRow("unpickle", 0.2, 1, 0.2)))
    (found,) = hand_off(Seen(run, result, account, {}))
    assert found.s == found.recoverable_s == pytest.approx(s, rel=0.1)


def test_what_a_small_batch_takes_too_long_to_arrive_is_a_wait_for_workers_that_never_rest() -> None:
    """Workers that compute keep the lock that the thread needs which sends the descriptors."""
    run = Planted()
    run.loader(**TRAINS, receive=500, unpickle=400, wait_for_worker=100, cpu=100)
    for number in range(2):
        run.worker(number, busy=0.98, cpu=0.95, pickled=Pickled(50 * MS, 40 * MS, 50, 50 * 424))
    found = {code: one for code, one in run.causes(2).items() if code != "training"}
    assert set(found) == {"stage"} and found["stage"].values["used_up"]
    assert found["stage"].recoverable_s == pytest.approx(1.0, rel=0.01)
    assert found["stage"].values["late_s"] == pytest.approx(0.9, rel=0.01)


def test_workers_whose_feeder_threads_pickle_longer_than_they_make() -> None:
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000)
    run.worker(busy=0.2, pickled=Pickled(900 * MS, 800 * MS, 50, 50 * 4096))
    found = [one for one in run.account().causes if one.code != "training"]
    assert [one.code for one in found] == ["pickling"]
    assert found[0].values["pickle_s"] == pytest.approx(0.9 / 51) and found[0].values["make_s"] == pytest.approx(
        0.4 / 51
    )


def _waiting(cores: float = 4, script_cpu: int = 200, **worker: Any) -> dict[str, Cause]:
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, cpu=script_cpu)
    for number in range(2):
        run.worker(number, **worker)
    return {code: one for code, one in run.causes(cores).items() if code != "training"}


def test_workers_that_sleep_while_cores_are_idle() -> None:
    found = _waiting(cpu=0.1)
    assert list(found) == ["workers-blocked"] and found["workers-blocked"].s == pytest.approx(1)
    assert found["workers-blocked"].values["cores_used"] == pytest.approx(0.2)


def _beside(foreign: float, **worker: Any) -> Account:
    """Two workers that are always busy, on two cores of which other processes use `foreign`."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, cpu=100)
    for number in range(2):
        run.worker(number, **worker)
    run.outside(10)
    return run.account(2, Footprint(load=Load(10.0, 10 * foreign, 0.0), machine_cores=2))


def test_workers_that_wait_for_a_core_do_not_sleep() -> None:
    """They use 0.84 of the 0.95 cores that the others leave."""
    account = _beside(1.0, cpu=0.42)
    assert "workers-blocked" not in [one.code for one in account.causes]
    assert "sleep" not in said(account) and "More workers" not in said(account)


def test_workers_that_wait_for_a_core_do_not_sleep_though_nobody_knows_who_has_it() -> None:
    """As on a busy machine, if the script was killed: what others used is not known then."""
    found = _waiting(2, cpu=0.23, core_wait_ns=770 * MS)
    assert "workers-blocked" not in found and list(_waiting(2, cpu=0.23)) == ["workers-blocked"]


def test_workers_that_sleep_beside_other_processes() -> None:
    """They use 0.02 of the 0.5 cores that the others leave."""
    account = _beside(1.45, cpu=0.01)
    assert "while 0.5 of 2 cores are idle" in said(account)
    assert account.causes[0].values["foreign_cores"] == pytest.approx(1.45)


def test_threads_of_libraries_count_as_cores_in_use() -> None:
    """A worker's own thread is on a core for 0.2 of the time; with the library's threads it uses 0.9 cores."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, cpu=100)
    for number in range(2):
        run.worker(number, cpu=0.2, process_cpu_ns=900 * MS)
    assert "workers-blocked" not in run.causes(2)


def test_workers_that_compute() -> None:
    found = _waiting()
    assert list(found) == ["stage"]
    values = found["stage"].values
    assert (values["stage"], values["stage_share"]) == ("load", pytest.approx(0.7, abs=0.01)) and not found[
        "stage"
    ].unsure


def test_workers_and_the_script_use_all_cores() -> None:
    found = _waiting(cores=2)
    assert list(found) == ["stage"] and found["stage"].values["used_up"] and not found["stage"].unsure


@pytest.mark.parametrize(("cores", "more"), [(2, 0.4), (4, 0.0)])
def test_cores_that_the_workers_take_from_training_could_be_saved_too(cores: int, more: float) -> None:
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, passes=2, no_core=400, cpu=200)
    for number in range(2):
        run.worker(number)
    account = run.account(cores)
    one = next(cause for cause in account.causes if cause.code == "stage")
    assert one.s == one.recoverable_s == pytest.approx(2.0 + more)
    assert ("400 ms of it for a core that the workers used" in said(account)) == bool(more)


def test_cores_that_other_processes_take_are_not_the_workers() -> None:
    """The workers use 2 cores, others 2."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, passes=2, no_core=400, cpu=200)
    for number in range(2):
        run.worker(number)
    run.outside(10)
    account = run.account(2, Footprint(load=Load(10.0, 20.0, 0.0), machine_cores=2))
    one = next(cause for cause in account.causes if cause.code == "stage")
    assert one.values["core_s"] == pytest.approx(0.2, rel=0.05)


@pytest.mark.parametrize(("workers", "process_cpu", "found"), [(6, 250, True), (2, 250, False), (6, 20, False)])
def test_more_workers_than_cores_take_them_from_the_loop(workers: int, process_cpu: int, found: bool) -> None:
    """Two passes. In each the loop's thread has no core for 400 ms. A worker uses a share of one, fetching or not."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=200, passes=2, workers=workers, no_core=400, cpu=300)
    for number in range(workers):
        run.worker(number, busy=0.1, process_cpu_ns=process_cpu * MS)
    account = run.account(2)
    one = {cause.code: cause for cause in account.causes}.get("workers-compete")
    assert (one is not None) == found
    if one is not None:
        assert one.s == one.recoverable_s == pytest.approx(0.4)
        assert "The loop itself waited for a core: 400 ms" in said(account)


def test_stalls_with_a_period_though_workers_rest() -> None:
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, waits=[8 * MS if n % 8 == 7 else 1_000 for n in range(TURNS)], workers=8)
    for number in range(8):
        run.worker(number, busy=0.4)
    account = run.account()
    (found,) = [one for one in account.causes if one.code != "training"]
    assert (found.code, found.values["period"]) == ("periodic-stalls", 8)
    assert "The loop stalls at every 8th batch, the number of workers: " in said(account)
    assert "busy only 40 % of the time: one worker's batches cost more, or all workers finish together." in said(
        account
    )


def test_slow_batches_that_hold_up_later_ones() -> None:
    """Each fourth batch comes 8 ms late, and the one after it has then been there for 7 ms."""
    arrived, handed = [], []
    for task in range(TURNS):
        asked = task * 10 * MS
        came = asked + 8 * MS if task % 4 == 3 else asked - 9 * MS if task % 4 == 0 else asked
        arrived.append(Arrival(task, 1, asked, came, max(asked, came), 0, 0, 0))
        handed.append(HandedOver(task, 0, 1 + task, 0, came - MS, 0, came, 1, 0, 0, 0, 0, 0))
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=250, arrived=arrived)
    run.worker(busy=0.4, handed=handed, pickled=Pickled(MS, MS, 50, 4096))
    found = {one.code: one for one in run.account().causes if one.code != "training"}
    assert list(found) == ["periodic-stalls", "head-of-line"] and all(one.unsure for one in found.values())
    assert found["periodic-stalls"].values["period"] == 4
    held = found["head-of-line"]
    assert held.values["period"] == 4
    # The batch of task 0 has no earlier one, and the last late one no later one.
    assert held.s == pytest.approx(24 * 0.007) and held.values["share"] == pytest.approx(0.24)


def test_workers_that_never_rest_gain_nothing_from_another_order() -> None:
    """Each second batch was there before the one that the loop waited for, as with any two equal workers."""
    arrived = [Arrival(n, 1, n * 10 * MS, n * 10 * MS + (-9 if n % 2 else 8) * MS, n * 10 * MS + 8 * MS, 0, 0, 0)
               for n in range(TURNS)]  # fmt: skip
    handed = [HandedOver(n, 0, 1 + n, 0, one.came - MS, 0, one.came, 1, 0, 0, 0, 0, 0) for n, one in enumerate(arrived)]
    for busy, named in ((0.4, True), (1.0, False)):
        run = Planted()
        run.loader(**TRAINS, wait_for_worker=400, arrived=arrived)
        run.worker(busy=busy, handed=handed, pickled=Pickled(MS, MS, 50, 4096))
        assert ("head-of-line" in run.causes()) == named


def test_a_worker_that_has_most_of_the_work() -> None:
    """No other order and no larger queue helps: one worker makes the slow batches all the time, the other rests."""
    run = Planted()
    waits = [20 * MS if n % 2 == 0 else 1_000 for n in range(TURNS)]
    run.loader(forward=400, wait_for_worker=1000, waits=waits)
    run.worker(0, busy=1.0)
    run.worker(1, busy=0.1, batches=5, samples=20)
    account = run.account()
    (found,) = [one for one in account.causes if one.code != "training"]
    assert (found.code, found.values["worker"]) == ("uneven-workers", 0)
    # Each would be busy 55 % of the 1.4 s.
    assert found.recoverable_s == pytest.approx(0.45 * 1.4, rel=0.01)
    assert "Worker 0 has most of the work: it is busy 100 % of the time, and the other 10 %." in said(account)


def test_waits_without_a_reason_are_only_named() -> None:
    found = _waiting(busy=0.4)
    assert list(found) == ["waiting"]


def test_what_rests_on_a_device_says_so() -> None:
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000, idle=250)
    run.worker(cpu=0.1)
    account = run.account()
    (wait,) = [one for one in account.rows if one.code == "wait-for-worker"]
    assert wait.on_device and wait.s == pytest.approx(1) and wait.recoverable_s == pytest.approx(0.25)
    assert all(one.on_device for one in account.causes) and "Not verified on a GPU." in said(account)
