"""What being watched adds to a sample, and the noise floor: from made-up runs with a known answer."""

from __future__ import annotations

import random

import pytest

from pipebench.calibrate import overhead

MS = 1_000_000


def _runs(first_us: float, later_us: float, start_us: float = 0.0, noise: float = 0.0) -> list[overhead.Run]:
    """Three runs of a loop of 1 ms a sample, with so much added to each; and noise, which only adds, on either side."""
    chance = random.Random(7)
    blocks, samples = overhead.BATCHES // overhead.BLOCK, overhead.BLOCK * overhead.BATCH
    first = overhead.FIRST // overhead.BLOCK

    def spent(added_us: float) -> tuple[int, int]:
        """Wall and CPU time: noise takes the core away, and the sample's own time stays what it is."""
        busy = 1 + (chance.random() * noise if chance.random() < 0.5 else 0.0)
        own = round((MS + added_us * 1000) * samples)
        return round(own * busy), own

    runs = []
    for _ in range(3):
        plain = [spent(0.0) for _ in range(blocks)]
        watched = [spent(first_us if number < first else later_us) for number in range(blocks)]
        began = round(start_us * 1000) * samples
        watched[0] = (watched[0][0] + began, watched[0][1] + began)
        runs.append((plain, watched))
    return runs


def test_what_is_added_is_told_for_the_first_batches_and_for_the_later_ones() -> None:
    first, first_cpu, later, later_cpu = overhead.slowdowns(_runs(20.0, 5.0), 5e-7)
    assert [one.clock for one in (first, first_cpu, later, later_cpu)] == ["wall", "cpu", "wall", "cpu"]
    assert first_cpu.added_s == pytest.approx(20e-6) and later_cpu.added_s == pytest.approx(5e-6)
    assert (first.batches, later.batches) == ("first 256 batches", "later batches")
    assert (first.added_s, first.low_s, first.high_s) == (pytest.approx(20e-6),) * 3
    assert (later.added_s, later.low_s, later.high_s) == (pytest.approx(5e-6),) * 3
    assert later.expected_s == pytest.approx(4e-6) and later.share == pytest.approx(0.005) and later.told
    assert (first.within, later.within) == (False, True)


def test_the_start_of_the_loop_is_not_left_out() -> None:
    first, _, later, _ = overhead.slowdowns(_runs(5.0, 5.0, start_us=16 * 10.0), 5e-7)
    assert first.added_s == pytest.approx(15e-6) and later.added_s == pytest.approx(5e-6)


def test_a_run_beside_other_work_does_not_count_where_another_was_alone() -> None:
    runs = _runs(5.0, 5.0)
    runs[1] = ([(2 * wall, cpu) for wall, cpu in runs[1][0]], [(3 * wall, cpu) for wall, cpu in runs[1][1]])
    first, _, later, _ = overhead.slowdowns(runs, 5e-7)
    assert (first.added_s, later.added_s) == (pytest.approx(5e-6), pytest.approx(5e-6))


def test_noise_that_hides_the_goal_is_said_and_not_judged() -> None:
    first, first_cpu, later, _ = overhead.slowdowns(_runs(9.0, 9.0, noise=0.5), 5e-7)
    assert first.low_s < 10e-6 < first.high_s and first.within is None and later.within is None
    assert first_cpu.within is True


def test_equal_readings_are_plain_neighbours_after_the_start() -> None:
    plain = ([100, 1, 2, 3, 4, 5], [100, 6, 7, 8, 9])
    runs: list[overhead.Run] = [([(wall, 0) for wall in one], [(0, 0) for _ in one]) for one in plain]
    one, other = overhead.equal(runs)
    assert [round(each * 1e9) for each in one] == [1, 3, 6, 8] and [round(each * 1e9) for each in other] == [2, 4, 7, 9]


def test_the_noise_floor_is_from_groups_of_equal_pairs() -> None:
    one = [1.0, 1.02, 0.98] * 20
    other = [1.0, 0.99, 1.01] * 20
    floors = overhead.noise(one, other)
    assert [(floor.pairs, floor.groups) for floor in floors] == [(10, 6), (20, 3)]
    assert floors[0].smallest_change == pytest.approx(0.0303, abs=1e-3) and floors[0].alarms == 0
