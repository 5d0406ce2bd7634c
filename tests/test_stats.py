"""Statistics against simulated data with a known answer."""

import random

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
