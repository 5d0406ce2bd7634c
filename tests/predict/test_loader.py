"""The simulated DataLoader: loops whose throughput is known, and properties that hold for every loop."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest
from made_up_costs import made, setting

from pipebench.predict.bounds import bounds
from pipebench.predict.loader import short_pass, simulate
from pipebench.results.costs import LoopCosts, Passport, Tried


@pytest.mark.parametrize(("workers", "expected"), [(0, 1 / 0.11), (1, 10.0), (2, 20.0), (5, 50.0), (16, 100.0)])
def test_workers_that_sleep_add_up_until_the_loop_is_the_limit(workers: int, expected: float) -> None:
    costs = made(blocked=0.1, step=0.01)
    assert simulate(costs, setting(workers, cores=1)).batches_per_s == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("workers", "cores", "expected"), [(1, 2, 10.0), (2, 2, 20.0), (8, 2, 20.0), (8, 0.5, 5.0)])
def test_workers_that_compute_are_limited_by_the_cores(workers: int, cores: float, expected: float) -> None:
    assert simulate(made(cpu=0.1), setting(workers, cores)).batches_per_s == pytest.approx(expected, rel=0.02)


def test_threads_that_wake_often_get_less_of_several_cores() -> None:
    """They waited for 4 % of their CPU time where cores were free: 2.5 times as much of all cores is lost."""
    often, rarely = made(cpu=0.1, core_wait_s=0.004), made(cpu=0.1)
    for workers, cores, share in ((8, 2, 0.9), (8, 1, 1.0), (1, 2, 1.0), (8, 1.5, 1.0)):
        less = (
            simulate(often, setting(workers, cores)).batches_per_s
            / simulate(rarely, setting(workers, cores)).batches_per_s
        )
        assert less == pytest.approx(share, rel=0.01)
    worst = simulate(made(cpu=0.1, core_wait_s=0.05), setting(8, 2)).batches_per_s
    assert worst == pytest.approx(0.85 * 20.0, rel=0.02)


def test_the_loop_shares_the_cores_with_its_workers() -> None:
    """Two workers and a loop that computes, on two cores: 0.1 + 0.05 core-seconds a batch."""
    costs = made(cpu=0.1, step=0.05, step_cpu_s=0.05)
    assert simulate(costs, setting(4, cores=2)).batches_per_s == pytest.approx(2 / 0.15, rel=0.02)
    assert simulate(costs, setting(4, cores=9)).batches_per_s == pytest.approx(1 / 0.05, rel=0.02)


def test_a_step_on_several_cores_is_slower_on_fewer() -> None:
    costs = made(step=0.02, step_cpu_s=0.08)
    assert simulate(costs, setting(1, cores=4)).batches_per_s == pytest.approx(50.0)
    assert simulate(costs, setting(1, cores=1)).batches_per_s == pytest.approx(12.5)


def test_one_slow_batch_holds_up_those_that_are_ready() -> None:
    """Every 8th batch takes 0.8 s, the others nothing. Only what was made ahead bridges it."""
    costs = made(blocked=[0.8] + [0.0] * 7, step=0.05)
    short, long = (simulate(costs, setting(2, prefetch=ahead)).batches_per_s for ahead in (1, 8))
    assert short == pytest.approx(8 / (0.8 + 6 * 0.05), rel=0.02)
    assert long == pytest.approx(8 / 0.8, rel=0.02)


def test_workers_of_equal_cost_do_not_march_in_step() -> None:
    """4 workers, 20 ms blocked and 10 ms on a core: 2 cores are busy two thirds of the time, so few have to wait."""
    costs = made(cpu=0.01, blocked=0.02)
    assert simulate(costs, setting(4, cores=2)).batches_per_s > 0.92 * 4 / 0.03


def test_slow_batches_that_all_go_to_one_worker() -> None:
    """With 2 workers every slow batch goes to the first one, and with 3 they are spread."""
    costs = made(blocked=[0.3, 0.1] * 6)
    assert simulate(costs, setting(2)).batches_per_s == pytest.approx(2 / 0.3, rel=0.02)
    assert simulate(costs, setting(3)).batches_per_s > 1.7 * 2 / 0.3


def test_the_serial_part_of_the_loop_is_no_faster_with_more_workers() -> None:
    costs = made(blocked=0.1, own_s=0.004, send_s=0.001, receive_s=0.005)
    assert simulate(costs, setting(64)).batches_per_s == pytest.approx(100.0, rel=0.01)


def test_a_batch_waits_for_the_lock_of_a_worker_that_computes_but_takes_no_core() -> None:
    """One worker computes all the time: each batch is received 4 ms later, and nothing of that is on a core."""
    costs = made(cpu=0.01, own_s=0.004, send_s=0.001, receive_s=0.001, late_s=0.004)
    assert simulate(costs, setting(1)).batches_per_s == pytest.approx(100.0, rel=0.01)
    slower = simulate(replace(costs, step_s=(0.005,)), setting(1)).batches_per_s
    assert 1 / 0.015 < slower < 0.95 / 0.011
    assert bounds(costs, setting(2, 1))["loop"] == pytest.approx(1 / 0.006)
    assert bounds(costs, setting(2, 1))["cores"] == pytest.approx(1 / 0.016)


def test_a_batch_of_a_worker_that_has_nothing_to_do_is_not_late() -> None:
    """The loop computes for 50 ms, so both workers have long filled their queues."""
    costs = made(cpu=0.01, step=0.05, late_s=0.02)
    assert simulate(costs, setting(2)).batches_per_s == pytest.approx(20.0, rel=0.01)


def test_a_worker_that_sleeps_gives_its_lock_away() -> None:
    costs = made(blocked=0.02, step=0.015, late_s=0.01)
    assert simulate(costs, setting(1)).batches_per_s == pytest.approx(50.0, rel=0.01)


def test_a_quota_that_is_not_used_up_slows_nothing() -> None:
    """A worker needs a third of a core, in pieces: half a core is enough, and each piece has a whole one."""
    costs = made(cpu=0.01, blocked=0.02)
    assert simulate(costs, setting(1, cores=0.5)).batches_per_s == pytest.approx(1 / 0.03, rel=0.02)


def test_a_quota_that_is_used_up_stops_all_until_its_period_ends() -> None:
    """0.15 core-seconds in each 0.1 s, on two cores: 75 ms of work and 25 ms of nothing."""
    assert simulate(made(cpu=0.005), setting(2, cores=1.5)).batches_per_s == pytest.approx(300.0, rel=0.02)
    assert simulate(made(cpu=0.005, step=0.1), setting(1, cores=0.25)).batches_per_s == pytest.approx(10.0, rel=0.01)


def test_a_pin_memory_thread_works_beside_the_loop() -> None:
    costs = made(step=0.02, receive_s=0.005, pin_s=0.02)
    assert simulate(costs, setting(4)).batches_per_s == pytest.approx(40.0, rel=0.01)


def test_pickling_limits_a_worker_if_it_takes_longer_than_making() -> None:
    costs = made(blocked=0.01, feeder_cpu_s=0.02, feeder_blocked_s=0.02)
    assert simulate(costs, setting(2)).batches_per_s == pytest.approx(50.0, rel=0.01)


def test_other_processes_take_their_share() -> None:
    """One thread of ours beside three others on two cores gets half a core."""
    assert simulate(made(cpu=0.1), setting(0, cores=2, others=3)).batches_per_s == pytest.approx(5.0)


def test_what_is_made_ahead_counts_only_once() -> None:
    """The store of finished batches is not throughput: the timed part begins after it was emptied."""
    assert simulate(made(blocked=0.1), setting(1, prefetch=50)).batches_per_s == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("workers", "ahead", "known"),
    [(0, 2, True), (64, 1024, True), (-1, 2, False), (2**62, 1, False), (64, 2**62, False), (0, 2**62, False)],
)
def test_a_setting_that_no_loader_has_is_refused_where_it_is_read(workers: int, ahead: int, known: bool) -> None:
    costs = made(cpu=0.1, workers=workers, prefetch_factor=ahead)
    assert all(one > 0 for one in costs.divisors()) == known
    tried = Passport(made(cpu=0.1), (), 2.0, tried=(Tried(workers, ahead, 1.0),))
    assert all(one > 0 for one in tried.divisors()) == known


def test_figures_that_no_run_has_together_are_refused_where_they_are_read() -> None:
    assert min(made(cpu=[0.1, 0.2], blocked=[0.1, 0.2]).divisors()) > 0
    assert min(replace(made(cpu=[0.1, 0.2]), blocked_s=(0.1,)).divisors()) == 0
    assert min(Passport(made(cpu=0.1), (), 2.0, tried=(Tried(1, 2, 1.0),) * 65).divisors()) == 0


def test_a_store_that_outlasts_the_simulation_is_not_filled() -> None:
    costs = made(cpu=[0.1, 0.3], blocked=[0.1, 0.2])
    deep, deeper = (simulate(costs, setting(1, prefetch=ahead)) for ahead in (4096, 2**40))
    assert deep == deeper


@pytest.mark.parametrize("more", [{"cpu": 1e9, "blocked": 1e9}, {"blocked": 1e9, "step": 2e9, "step_cpu_s": 1e9}])
def test_a_quota_beside_long_work_is_a_slower_core_and_ends(more: dict[str, float]) -> None:
    assert simulate(made(**more), setting(1, cores=0.5)).batches_per_s == pytest.approx(1 / 3e9, rel=0.05)


def test_no_cores_are_no_machine() -> None:
    with pytest.raises(ValueError):
        simulate(made(cpu=0.1), setting(1, cores=0))


def _any(chance: random.Random) -> LoopCosts:
    count = chance.randrange(1, 40)
    return made(
        cpu=[chance.expovariate(50) for _ in range(count)],
        blocked=[chance.expovariate(30) * (chance.random() < 0.5) for _ in range(count)],
        step=chance.expovariate(50),
        step_cpu_s=chance.expovariate(50),
        own_s=chance.expovariate(2000),
        send_s=chance.expovariate(5000),
        receive_s=chance.expovariate(1000),
        between_s=chance.expovariate(5000),
        feeder_cpu_s=chance.expovariate(2000),
        feeder_blocked_s=chance.expovariate(2000),
        pin_s=chance.choice([None, 0.001]),
        threads=chance.choice([1.0, 1.0, 2.5]),
        device_s=chance.choice([0.0, 0.03]),
    )


@pytest.mark.parametrize("seed", range(25))
def test_no_loop_is_faster_than_its_bounds(seed: int) -> None:
    """Over a whole run from its start, so that nothing was made before. Its batches may not fill the last turn."""
    chance = random.Random(seed)
    costs = _any(chance)
    place = setting(chance.randrange(6), chance.choice([0.5, 1, 2, 7]), chance.choice([1, 2, 5]))
    found = simulate(costs, place)
    whole = found.batches - found.batches % len(costs.cpu_s)
    least = min(bounds(costs, place).values())
    assert whole / found.seconds <= least * (1 + 1e-9) or math.isinf(least)


@pytest.mark.parametrize("seed", range(25))
def test_more_cores_and_fewer_others_are_never_slower(seed: int) -> None:
    """By more than what a change of the order of threads can move in a fair schedule."""
    chance = random.Random(seed)
    costs, workers = _any(chance), chance.randrange(6)
    rates = [simulate(costs, setting(workers, cores)).batches_per_s for cores in (0.5, 1, 2, 4, 64)]
    assert all(later >= 0.98 * before for before, later in itertools.pairwise(rates))
    assert simulate(costs, setting(workers, 2, others=1)).batches_per_s <= 1.02 * rates[2]


@pytest.mark.parametrize("seed", range(5))
def test_the_same_costs_give_the_same_answer(seed: int) -> None:
    costs = _any(random.Random(seed))
    assert simulate(costs, setting(3, 2)) == simulate(costs, setting(3, 2))


@pytest.mark.parametrize(("workers", "expected"), [(0, 1 / 0.404), (4, 10.0), (5, 12.5), (64, 12.5)])
def test_a_device_that_works_while_the_host_waits_for_a_batch_limits_the_loop(workers: int, expected: float) -> None:
    """The host starts work for 4 ms, and the device does it in 80 ms."""
    costs = made(blocked=0.4, step=0.004, device_s=0.08)
    assert simulate(costs, setting(workers)).batches_per_s == pytest.approx(expected, rel=0.01)
    assert bounds(costs, setting(workers or 1))["loop"] == pytest.approx(12.5)


@pytest.mark.parametrize(("workers", "pass_s"), [(1, 4.81), (2, 2.42), (4, 1.24), (12, 0.52), (16, 0.52)])
def test_each_pass_begins_without_a_batch(workers: int, pass_s: float) -> None:
    """12 batches of 0.4 s each, and steps of 10 ms: more than 12 workers have nothing to do."""
    whole = replace(setting(workers), turns=12)
    found = simulate(made(blocked=0.4, step=0.01), whole)
    assert found.batches % 12 == 0 and 12 / found.batches_per_s == pytest.approx(pass_s)


def test_nothing_is_made_ahead_beyond_a_pass() -> None:
    """Two workers compute on one core: a third batch of theirs would take half of it from the second one."""
    whole = replace(setting(2, cores=1), turns=2)
    assert 2 / simulate(made(cpu=0.1, step=0.3), whole).batches_per_s == pytest.approx(0.2 + 2 * 0.3, rel=0.01)


def test_a_pass_is_short_where_what_is_made_ahead_is_a_tenth_of_it() -> None:
    costs = made(blocked=0.4, turns=40)
    assert [short_pass(costs, workers, 2) for workers in (0, 1, 2)] == [None, None, 40]
    assert short_pass(replace(costs, turns=None), 64, 2) is None
