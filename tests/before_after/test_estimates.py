"""Intervals between two runs, against runs that are drawn with a known answer. No clock is involved."""

import math
import random

import pytest

from pipebench.before_after import estimates
from pipebench.before_after.estimates import Estimate, judged, narrowest, of_earlier, of_interval, of_rows, of_values
from pipebench.results.before_after import BeforeAfter, Row, Side
from pipebench.results.comparison import GATE_FAILED, NO_RESULT
from pipebench.results.earlier_runs import Figures, between
from pipebench.results.report import BetweenRuns

ROWS, PROCESSES, TRIALS = 10, 6, 100
SPREAD, DRIFT = 0.03, 0.05  # of processes, and of runs


class Machine:
    """A machine whose runs drift: all rows of a run alike (`common`), or each row by itself."""

    def __init__(self, seed, common=True):
        self.rng, self.common = random.Random(seed), common

    def _levels(self):
        """The cost of each row in one run."""
        drift = self.rng.gauss(0, DRIFT)
        return [(drift if self.common else self.rng.gauss(0, DRIFT)) + math.log(row + 1) for row in range(ROWS)]

    def run(self, slower=()):
        """The values of the processes of each row; `slower` has factors of its first rows."""
        factors = [*slower, *[1.0] * (ROWS - len(slower))]
        return [
            [factor * math.exp(level + self.rng.gauss(0, SPREAD)) for _ in range(PROCESSES)]
            for level, factor in zip(self._levels(), factors, strict=True)
        ]

    def earlier(self, runs):
        """What so many runs before the base know, the base not among them. None: there are none."""
        of_mean = SPREAD / math.sqrt(PROCESSES)
        costs = [
            {str(row): math.exp(level + self.rng.gauss(0, of_mean)) for row, level in enumerate(self._levels())}
            for _ in range(runs)
        ]
        return between([Figures("", "", one, {}) for one in costs])


def _compared(base, head, known, limit=0.0):
    pairs = [(of_values(ours), of_values(theirs)) for ours, theirs in zip(base, head, strict=True)]
    floor = narrowest([of_earlier(known), of_rows(pairs)], len(pairs))
    rows = tuple(
        Row("", str(place), "s", 1.0, 1.0, judged(*pair, floor, ROWS), True) for place, pair in enumerate(pairs)
    )
    return BeforeAfter("run", Side("a"), Side("b"), rows, floor=floor, fail_above=limit)


@pytest.mark.parametrize("earlier", [0, 3, 8])
@pytest.mark.parametrize("common", [True, False])
def test_all_intervals_of_a_family_hold_the_truth_as_often_as_they_say(earlier, common):
    """Nothing changed. The gate of 0 % fails if any row is called slower: with every floor, in at most 5 % of pairs."""
    machine, missed, alarms = Machine(earlier, common), 0, 0
    for _ in range(TRIALS):
        found = _compared(machine.run(), machine.run(), machine.earlier(earlier))
        missed += any(row.judgement.head_over_base.told for row in found.rows)
        alarms += found.gate == GATE_FAILED
    assert missed / TRIALS <= estimates.ALARMS
    assert alarms <= missed


def test_a_change_of_exactly_the_limit_fails_no_gate():
    machine, alarms = Machine(5), 0
    for _ in range(TRIALS):
        alarms += _compared(machine.run(), machine.run([1.05] * ROWS), machine.earlier(6), 0.05).gate == GATE_FAILED
    assert alarms / TRIALS <= estimates.ALARMS


def test_one_slow_row_is_told_without_any_earlier_run():
    """It stands out from the others. A change of all rows alike does not, and is not told from a slow hour."""
    machine = Machine(7)
    told = [_compared(machine.run(), machine.run([8.0]), None, 0.05).exceeding for _ in range(100)]
    assert sum(one == (": 0",) for one in told) > 75
    assert not any(_compared(machine.run(), machine.run([8.0] * ROWS), None).exceeding for _ in range(100))


def test_with_earlier_runs_a_change_of_all_rows_alike_is_told():
    machine, told = Machine(8), 0
    for _ in range(100):
        told += len(_compared(machine.run(), machine.run([2.0] * ROWS), machine.earlier(10), 0.05).exceeding) == ROWS
    assert told > 90


def test_without_any_floor_nothing_is_told_and_the_gate_has_no_result():
    one = judged(Estimate(0.0, 0.001), Estimate(1.0, 0.001), None, 1)
    assert not one.enough and not one.told
    found = BeforeAfter("run", Side("a"), Side("b"), (Row("", "x", "s", 1.0, 2.7, one, True),), fail_above=0.05)
    assert found.gate == NO_RESULT and found.rows[0].verdict == "run-to-run difference unknown"


def test_an_estimate_that_holds_the_difference_of_runs_needs_no_floor():
    base, head = (of_interval(one, one * 0.97, one * 1.03, 0.99, whole=True) for one in (1.0, 1.5))
    found = judged(base, head, None, 1, faster_is_less=False)
    assert found.told and found.head_over_base.speedup == pytest.approx(1.5)


def test_two_earlier_runs_say_less_than_ten():
    few, many = (of_earlier(BetweenRuns(runs, 0.1, 0.1)) for runs in (2, 10))
    assert estimates.reach(few, 5) > 5 * estimates.reach(many, 5)
    assert of_earlier(BetweenRuns(2, 0.1, 0.1), BetweenRuns(10, 0.1, 0.1)) == many


def test_a_value_alone_has_no_error():
    assert of_values([1.0]) is None and of_values([1.0, 0.0]) is None
    assert of_interval(1.0, 0.0, 2.0, 0.95) is None
