"""How long readings and whole comparisons are, and what is said of it before they begin."""

import itertools
import math

import pytest

from pipebench.compare import looking, rounds, schedule
from pipebench.compare.schedule import READING_S, Row, renewals
from pipebench.results.comparison import Comparison


class Clock:
    def __init__(self):
        self.s = 0.0

    def __call__(self):
        return self.s


class Paced:
    """A side that needs `call_s` for a call, and before each reading waits for a processor as `waits` says."""

    taken_again = 0

    def __init__(self, clock, call_s, waits=(0.0,)):
        self.clock, self.call_s, self.calls, self.waits = clock, call_s, [], itertools.cycle(waits)

    def send(self, *_):
        pass

    receive = leave = send

    def read_once(self, identity, calls):
        self.calls.append(calls)
        waited = next(self.waits)
        seconds = calls * self.call_s + (waited or 0.0)
        self.clock.s += seconds
        return seconds, waited


def a_round(base_s, head_s):
    clock = Clock()
    sides = [Paced(clock, base_s), Paced(clock, head_s)]
    row = Row("one")
    row.size([base_s, head_s], 0.0)
    return rounds._round(row, sides, sides, {}, clock)[0], sides, clock.s


def test_equal_sides_take_equally_many_calls_in_a_reading():
    pairs, sides, _ = a_round(10e-6, 12e-6)
    assert sides[0].calls == sides[1].calls and sides[0].calls[0] == round(READING_S / 10e-6)
    assert pairs[0] == pytest.approx((50 * 10e-6, 50 * 12e-6))


@pytest.mark.parametrize(("waits", "known"), [((0.004, 0.0, 0.001), True), ((0.004, None), False)])
def test_waiting_for_a_processor_is_left_out_if_all_of_it_is_known(waits, known):
    clock, row = Clock(), Row("one")
    sides = [Paced(clock, 10e-6), Paced(clock, 20e-6, waits)]
    row.size([10e-6, 20e-6], 0.0)
    row.add(*rounds._round(row, sides, sides, {}, clock))
    row.add(*rounds._round(row, [Paced(clock, 10e-6)] * 2, [Paced(clock, 10e-6), Paced(clock, 20e-6)], {}, clock))
    assert row.waits_known is known
    assert max(head for _, head in row.rounds[0]) == pytest.approx(50 * 20e-6 + 0.004)
    first = {round(head / base, 3) for base, head in row.judged[0]}
    assert (first == {2.0}) is known


@pytest.mark.parametrize(("base_s", "head_s"), [(1e-6, 1e-3), (1e-3, 1e-6)])
def test_a_side_that_is_a_thousand_times_slower_does_not_block_the_other(base_s, head_s):
    """With as many calls as the faster side needs, one reading of the slower takes 0.5 s, and a round 1.5 s."""
    pairs, sides, lasted = a_round(base_s, head_s)
    assert lasted < 2 * schedule.ROUND_S
    assert {len(set(side.calls)) for side in sides} == {1} and sides[0].calls != sides[1].calls
    assert all(base / head == pytest.approx(base_s / head_s) for base, head in pairs)


def test_a_round_of_long_readings_ends_with_one_pair():
    assert len(a_round(3.0, 3.0)[0]) == 1
    assert len(a_round(0.1, 0.1)[0]) == schedule.LEAST_PAIRS


def measured(costs_s, expected_s, budget_s, may_be_later):
    """The rows after all rounds, what was said, and when it ended; a round costs each row its own time."""
    clock, said, rows = Clock(), [], [Row(f"row {index}", expected_s=one) for index, one in enumerate(expected_s)]
    costs = {row.identity: cost for row, cost in zip(rows, costs_s, strict=True)}

    def one_round(row, *_):
        clock.s += costs[row.identity]
        return ((1.0, 1.0),), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "_round", one_round)
        rounds._measure(rows, [], {}, budget_s, may_be_later, 1000, lambda done, of, what: said.append(what), clock)
    return rows, said, clock.s


def test_the_estimate_is_said_before_the_first_round_and_counts_each_benchmark_by_itself():
    """Two benchmarks need 11 rounds each: 11 of 60 s with the start of their workers, and 11 of 1 s."""
    rows, said, end = measured([60.0, 1.0], [60.0, 1.0], 171.0, True)
    assert said[0] == said[-1] == "comparing for about 12 min"
    assert [len(row.rounds) for row in rows] == [11, 11]
    assert end == 11 * 61


def test_a_budget_that_is_too_short_says_at_the_start_what_a_judgement_needs():
    _, said, end = measured([60.0, 1.0], [60.0, 1.0], 100.0, False)
    assert said[0] == "comparing for about 2 min; a judgement needs --budget 710"
    assert end <= 100.0


def test_less_than_a_minute_is_said_in_seconds_and_never_below_zero():
    _, said, _ = measured([5.0], [5.0], 38.0, False)
    assert said[0] == "comparing for about 38 s; a judgement needs --budget 60"
    rows, said, _ = measured([5.0, 5.0], [5.0, 5.0], -191.0, False)
    assert said[0] == "comparing for about 0 s; a judgement needs --budget 120"
    assert [len(row.rounds) for row in rows] == [1, 0]  # one at least


def test_what_else_the_budget_is_used_for_is_in_the_one_that_a_judgement_needs():
    said = schedule.expectation([Row("one", expected_s=5.0)], 10.0, False, 1000, 0.0, used_s=100.0)
    assert said == "comparing for about 10 s; a judgement needs --budget 160"


def sized_within(budget_s, costs_s, monkeypatch):
    """The rows after sizing; each takes its time to be armed, and as long for a look and for a round."""
    clock, rows = Clock(), [Row(f"row {index}") for index in range(len(costs_s))]
    costs = dict(zip((row.identity for row in rows), costs_s, strict=True))

    def both(servers, method, *given):
        clock.s += costs[given[0]] if method == "arm" else 0.0
        return [{}, {}] if method == "arm" else [False, False]

    def take(row, answers, labels, armed_s):
        row.armed_s = row.expected_s = armed_s

    monkeypatch.setattr(rounds, "both", both)
    monkeypatch.setattr(rounds, "_take", take)
    rounds._size_all(rows, [], {}, None, lambda *_: None, True, clock, schedule.Budget(budget_s, clock))
    return rows, clock.s


@pytest.mark.parametrize(
    ("budget_s", "costs_s", "live", "spent_s"),
    [
        (100.0, [10.0, 10.0, 10.0, 10.0], [True, True, False, False], 30.0),  # each of two needs 30 s more
        (110.0, [10.0, 60.0, 1.0], [True, False, False], 70.0),
        (20.0, [50.0, 1.0], [True, False], 50.0),  # the first one is never left out
        (math.inf, [50.0, 50.0], [True, True], 100.0),
    ],
)
def test_sizing_stops_at_the_budget_and_leaves_out_what_does_not_fit(budget_s, costs_s, live, spent_s, monkeypatch):
    rows, spent = sized_within(budget_s, costs_s, monkeypatch)
    assert ([row.live for row in rows], spent) == (live, spent_s)


def test_what_was_left_out_is_named_with_the_budget_that_it_needs_and_passes_no_gate():
    rows = [Row("a/b/c", armed_s=1.0, expected_s=1.0), Row("x/y/z", left_out=True)]
    for _ in range(11):
        rows[0].add(((1.0, 1.0),))
    rows[0].spent_s = 11.0
    rounds._leave_out(rows, schedule.whole_s(rows, 1000))
    changes = tuple(rounds._changes(rows))
    assert changes[1].notes == ("left out, because it does not fit into the budget: give --budget 30",)
    assert changes[1].verdict == "not measured"
    assert Comparison("base", "head", changes, 0.05).gate == "no result"


def test_outputs_are_not_looked_at_where_the_budget_is_over(monkeypatch):
    clock, looked = Clock(), []
    budget = schedule.Budget(15.0, clock)

    def look(servers, what, lab):
        looked.append(what.identity)
        clock.s += 10.0

    monkeypatch.setattr(looking, "_first_look", look)
    rows = [Row(name, armed_s=1.0, expected_s=1.0) for name in ("one", "two", "three")]
    looking.look_at_all(rows, [], {}, True, lambda *_: None, budget.admits)
    assert looked == ["one"] and [row.live for row in rows] == [True, False, False]


def test_a_benchmark_that_no_longer_fits_leaves_the_time_to_the_others():
    rows, _, end = measured([60.0, 1.0], [60.0, 1.0], 100.0, False)
    assert [len(row.rounds) for row in rows] == [1, 40]
    assert end == 100.0


def test_the_start_of_workers_counts_in_what_a_round_is_expected_to_take():
    row = Row("loader")
    row.size([0.4, 0.4], armed_s=9.0)
    assert row.cost_s == pytest.approx(9.0 + schedule.LONG_S)
    row.add(((1.0, 1.0),))
    row.spent_s = 11.0
    assert row.cost_s == 11.0


def test_both_sides_of_a_round_lie_at_the_same_place_and_the_next_round_at_another():
    clock, told = Clock(), []
    sides = [Paced(clock, 10e-6), Paced(clock, 10e-6)]
    for side in sides:
        side.send = lambda method, *given: told.append(given) if method == "fork" else None
    row = Row("one")
    row.size([10e-6, 10e-6], 0.0)
    for _ in range(2):
        rounds._round(row, sides, sides, {}, clock)
    assert told[0] == told[1] != told[2] == told[3]


@pytest.mark.parametrize(("head", "alone"), [({"alone": True}, True), ({"alone": False}, False)])
def test_a_benchmark_runs_alone_if_it_does_on_both_sides(head, alone):
    answer = {"keys": ("a",), "work": (1, 0, 0), "once_s": 0.001, "library": None, "alone": True}
    row, told = Row("one"), []
    rounds._take(row, [answer, {**answer, **head}], ["base", "head"], 0.0)
    sides = [Paced(Clock(), 10e-6), Paced(Clock(), 10e-6)]
    sides[0].send = lambda method, *given: told.append(given) if method == "fork" else None
    with pytest.raises(StopIteration):
        rounds._round(row, sides, sides, {}, iter([0.0]).__next__)
    assert [given[1] for given in told] == [alone]


@pytest.mark.parametrize(
    ("seconds", "spare_s", "start_s", "at"),
    [
        (180.0, math.inf, 9.0, [36.0, 72.0, 108.0, 144.0]),
        (180.0, math.inf, 0.5, [30.0, 60.0, 90.0, 120.0, 150.0]),
        (180.0, 20.0, 9.0, [60.0, 120.0]),
        (180.0, -20.0, 9.0, []),
        (180.0, math.inf, 40.0, []),
        (180.0, math.inf, 0.0, []),
    ],
)
def test_servers_are_replaced_as_often_as_their_start_is_cheap(seconds, spare_s, start_s, at):
    assert renewals(seconds, spare_s, start_s) == pytest.approx(at)


def test_the_rounds_of_each_pair_of_servers_are_counted(monkeypatch):
    """Six pairs of servers in 180 s; a start takes 2 s, and a round of either benchmark 1 s."""
    clock, begun = Clock(), []

    class Starting:
        def begin_again(self):
            begun.append(clock.s)
            return 3

        def made_again(self, answers):
            clock.s += answers / 3  # two of them

    def one_round(row, *_):
        clock.s += 1.0
        return ((1.0, 1.0),), None

    monkeypatch.setattr(rounds, "_round", one_round)
    rows = [Row(name, expected_s=1.0) for name in ("one", "two")]
    rounds._measure(rows, [Starting(), Starting()], {}, 180.0, False, 1000, lambda *_: None, clock, 2.0)
    assert begun[::2] == [30.0, 60.0, 90.0, 120.0, 150.0]
    assert [sum(each) for each in zip(*(row.servers for row in rows), strict=True)] == [30, 28, 28, 28, 28, 28]
    assert all(len(row.rounds) == sum(row.servers) for row in rows)
