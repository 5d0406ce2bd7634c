"""Statistics against simulated data with a known answer."""

import math
import random
from statistics import stdev

import pytest

from pipebench import stats

# 1 - 2·P(Binomial(n, ½) < k), by hand: below six values not even the full range reaches 95 %
COVERED = {5: 0.9375, 6: 0.9688, 9: 0.9609, 12: 0.9614, 15: 0.9648, 30: 0.9572}


@pytest.mark.parametrize("count", COVERED)
def test_interval_of_the_median_covers_as_often_as_it_says(count):
    rng = random.Random(count)
    trials = 4000
    hits = 0
    claimed = 0.0
    for _ in range(trials):
        interval = stats.median_interval([rng.lognormvariate(0.0, 0.5) for _ in range(count)])  # true median: 1
        hits += interval.low <= 1.0 <= interval.high
        claimed = interval.confidence
    assert hits / trials == pytest.approx(claimed, abs=0.015)
    assert claimed == pytest.approx(COVERED[count], abs=5e-4)


def test_five_readings_admit_that_they_reach_less_than_95_percent():
    interval = stats.median_interval([5.0, 1.0, 4.0, 2.0, 3.0])
    assert (interval.median, interval.low, interval.high, interval.confidence) == (3.0, 1.0, 5.0, 0.9375)


def test_one_reading_supports_nothing():
    assert stats.median_interval([2.0]).confidence == 0.0


def _host(rng, pairs, times):
    """Two interleaved series on a shared host: slow drift of ±30 % common to both, and noise that only adds."""
    level, ours, theirs = 1.0, [], []
    for _ in range(pairs):
        level = min(1.3, max(0.7, level * rng.lognormvariate(0.0, 0.02)))
        ours.append(times * level * (1 + rng.expovariate(20)))
        theirs.append(level * (1 + rng.expovariate(20)))
    return ours, theirs


@pytest.mark.parametrize("pairs", [7, 15, 30, 60])
def test_identical_code_on_a_drifting_host_is_called_different_in_at_most_6_percent(pairs):
    rng = random.Random(pairs)
    told = sum(stats.compare(*_host(rng, pairs, 1.0)).told for _ in range(2000))
    assert told / 2000 <= 0.06


def test_a_known_speedup_is_found_and_lies_in_its_interval():
    rng = random.Random(1)
    found = [stats.compare(*_host(rng, 40, 0.8)) for _ in range(500)]
    assert sum(pytest.approx(one.speedup, rel=0.03) == 1.25 for one in found) > 480
    assert sum(one.low <= 1.25 <= one.high for one in found) > 0.93 * 500
    assert all(one.told for one in found)


def test_blocks_of_minima_tell_a_3_percent_change_that_medians_of_pairs_would_miss():
    rng = random.Random(2)
    told = sum(stats.compare(*_host(rng, 200, 1.03)).told for _ in range(300))
    assert told > 0.95 * 300


def test_scale_accounts_for_different_numbers_of_calls():
    assert stats.compare([3.0] * 6, [2.0] * 6, scale=1.5).speedup == 1.0


def test_series_of_different_length_were_not_interleaved():
    with pytest.raises(ValueError, match=r"^2 readings beside 1: they were not interleaved$"):
        stats.compare([1.0, 2.0], [1.0])


def test_smallest_change_is_the_wider_side_of_the_interval():
    assert stats.Speedup(1.0, 0.9, 1.05, 0.95).smallest_change == pytest.approx(1 / 0.9 - 1)


def test_half_the_time_is_a_speedup_of_two_and_twice_the_time_one_of_a_half():
    assert stats.compare([1.0] * 6, [2.0] * 6).speedup == 2.0
    assert stats.compare([2.0] * 6, [1.0] * 6).speedup == 0.5


@pytest.mark.parametrize("figures", [(0.0, 1.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, -1.0), (float("nan"), 1.0, 1.0)])
def test_a_speedup_that_no_readings_can_give_is_refused(figures):
    with pytest.raises(ValueError, match="above 0"):
        stats.Speedup(*figures, 0.95)


def test_summary_is_per_call():
    summary = stats.summarize([1.0, 2.0, 3.0], calls_per_reading=10, samples_per_call=4)
    assert (summary.median_s, summary.low_s, summary.high_s, summary.samples_per_s) == (0.2, 0.1, 0.3, 20.0)


def test_readings_needed_grows_with_the_square_of_the_width():
    readings = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98]
    assert stats.readings_needed(readings, 0.05) > len(readings)
    assert stats.readings_needed(readings, 0.025) == pytest.approx(4 * stats.readings_needed(readings, 0.05), abs=4)


def _processes(rng, count, readings=3, cost=1.0, between=0.08, noise=0.04):
    """Readings by process: each process has a factor of its own, and noise that only adds."""
    factors = [cost * rng.lognormvariate(0, between) for _ in range(count)]
    return [[factor * (1 + rng.expovariate(1 / noise)) for _ in range(readings)] for factor in factors]


def _flat(processes):
    return [reading for one in processes for reading in one], [len(one) for one in processes]


@pytest.mark.parametrize("count", [3, 5, 12])
def test_the_interval_contains_the_cost_that_another_run_finds_in_95_of_100_runs(count):
    rng, inside, narrow = random.Random(count), 0, 0
    for _ in range(2000):
        readings, counts = _flat(_processes(rng, count))
        found = stats.summarize(readings, 1, 1, counts)
        other = stats.summarize(_flat(_processes(rng, count))[0], 1, 1, counts).median_s
        inside += found.low_s <= other <= found.high_s
        half = (found.high_s / found.low_s) ** (0.5 / 2**0.5)  # the confidence interval for the mean is √2 narrower
        narrow += found.median_s / half <= other <= found.median_s * half
    assert inside / 2000 == pytest.approx(0.95, abs=0.015)
    assert narrow / 2000 < 0.91


def test_the_interval_of_one_process_misses_most_other_processes():
    rng, inside = random.Random(0), 0
    for _ in range(1000):
        (ours,), (theirs,) = _processes(rng, 1, readings=24), _processes(rng, 1, readings=24)
        found = stats.summarize(ours, 1, 1)
        inside += found.low_s <= stats.summarize(theirs, 1, 1).median_s <= found.high_s
    assert inside / 1000 < 0.4


def test_a_speed_up_over_processes_contains_that_of_another_run():
    """Each row has a factor of its own in each process, as the places of its buffers give it."""
    rng = random.Random(1)

    def run():
        pairs = [(_processes(rng, 1)[0], _processes(rng, 1, cost=2.0)[0]) for _ in range(6)]
        return stats.compare_processes([ours for ours, _ in pairs], [theirs for _, theirs in pairs])

    found = [(run(), run().speedup) for _ in range(1500)]
    assert sum(one.low <= other <= one.high for one, other in found) / 1500 == pytest.approx(0.95, abs=0.015)
    assert sum(one.low <= 2.0 <= one.high for one, _ in found) / 1500 > 0.98  # the truth is nearer than another run


@pytest.mark.parametrize(
    ("confidence", "degrees", "quantile"),
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 19, 2.093), (0.95, 30, 2.042), (0.999, 7, 5.408), (0.95, 1e9, 1.960)],
)
def test_students_t_is_that_of_the_tables(confidence, degrees, quantile):
    """NIST/SEMATECH e-Handbook, 1.3.6.7.2."""
    assert stats.student(confidence, degrees) == pytest.approx(quantile, abs=6e-4)


def test_the_interval_for_another_run_has_the_width_of_students_t():
    assert stats.width_of(20) == pytest.approx(2.093 * math.sqrt(2 / 20), abs=2e-4)
    found = stats.next_run([1.0, math.e**2])
    assert (found.median, found.high) == pytest.approx(
        (math.e, math.e ** (1 + math.sqrt(2) * math.tan(0.475 * math.pi)))
    )
    with pytest.raises(ValueError, match="2 of them"):
        stats.next_run([1.0])


def test_readings_of_one_process_keep_their_own_statistics():
    readings = [1.0, 2.0, 3.0, 2.5, 2.2, 1.8]
    assert stats.summarize(readings, 1, 1) == stats.summarize(readings, 1, 1, [6])
    assert stats.compare_processes([readings], [readings[::-1]]) == stats.compare(readings, readings[::-1])


def test_the_processes_needed_bring_the_width_that_was_asked_for():
    rng = random.Random(2)
    values = [rng.lognormvariate(0, 0.2) for _ in range(200)]
    needed = stats.processes_needed(values[:5], 0.10)
    assert needed > 5
    spread = stdev([math.log(value) for value in values[:5]])
    assert spread * stats.width_of(needed) <= math.log(1.1) < spread * stats.width_of(needed - 1)
    assert stats.processes_needed([1.0, 1.0, 1.0], 0.10) == 3


def test_the_share_of_readings_says_whether_more_of_them_would_help():
    rng = random.Random(3)
    placed = _processes(rng, 200, readings=4, between=0.2, noise=0.01)
    noisy = _processes(rng, 200, readings=4, between=0.001, noise=0.2)
    assert stats.share_of_readings(placed) < 0.1
    assert stats.share_of_readings(noisy) > 0.8
    assert stats.share_of_readings([[1.0], [2.0]]) is None  # single readings cannot tell


def test_readings_are_divided_into_processes_as_they_were_taken():
    assert stats.by_process([1, 2, 3], [2, 1]) == [[1, 2], [3]]
    assert stats.by_process([1, 2, 3], [2, 0, 1]) == [[1, 2], [3]]
    assert stats.by_process([1, 2, 3]) == [[1, 2, 3]]
