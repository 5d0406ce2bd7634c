"""What rounds support: the lowest of their minima, the interval that a family asks for, nothing from too few."""

import math
import random

import numpy as np
import pytest

from pipebench.compare import permutation
from pipebench.compare.permutation import differs, judge, round_times
from pipebench.results.comparison import reachable, rounds_needed, wanted_confidence


def rounds_of(rng, count, change=0.0, placement=0.01, pairs=20, spoilt=0.0):
    """Rounds whose processes lie well or badly by `placement`, whose readings only ever get slower."""
    made = []
    for _ in range(count):
        base, head = (1 + rng.gauss(0, placement) for _ in range(2))
        head *= 1 + change
        if rng.random() < spoilt:
            head *= 2
        made.append([(base * (1 + rng.expovariate(20)), head * (1 + rng.expovariate(20))) for _ in range(pairs)])
    return made


def test_a_round_gives_the_middle_ratio_and_the_middle_level_of_its_pairs():
    pairs = [(1.0, 2.0), (8.0, 16.0), (2.0, 4.0), (1.0, 1.0), (2.0, 40.0), (2.0, 4.0)]
    assert round_times(pairs) == pytest.approx((2.0, 4.0))
    assert round_times([(head, base) for base, head in pairs]) == pytest.approx((4.0, 2.0))
    with pytest.raises(ValueError):
        round_times([])


def test_who_reads_first_is_faster_and_says_nothing_of_the_sides():
    """By a fifth, in turn: no median of all pairs tells which of the two kinds it is of."""
    rng = random.Random(7)

    def pairs(head, count):
        turns = [((0.8, head), (1.0, 0.8 * head))[number % 2] for number in range(count)]
        return [(base * rng.uniform(1, 1.01), head * rng.uniform(1, 1.01)) for base, head in turns]

    for count in (6, 24, 25):
        base, head = round_times(pairs(1.03, count))
        assert head / base == pytest.approx(1.03, rel=0.01)


def test_a_lottery_of_placement_that_both_sides_draw_from_is_no_change():
    """Half the processes of either side are 18 % slower, as a buffer that straddles cache lines makes them."""
    rng = random.Random(5)
    for change, told in ((0.0, False), (0.08, True)):
        drawn = [[rng.choice((1.0, 1.18)) * rng.uniform(1, 1.01) for _ in range(2)] for _ in range(36)]
        rounds = [[(base, (1 + change) * head)] for base, head in drawn]
        assert (judge(rounds, 6).told, differs(rounds, 6)) == (told, told)


def test_a_family_of_six_asks_more_of_each_and_so_more_rounds():
    assert wanted_confidence(1) == pytest.approx(0.99)
    assert wanted_confidence(6) == pytest.approx(1 - 0.01 / 6)
    assert [rounds_needed(wanted_confidence(count)) for count in (1, 6, 61, 200)] == [10, 14, 17, 20]


@pytest.mark.parametrize("benchmarks", [1, 2, 6, 10, 30, 61, 80, 100, 160, 200])
def test_so_many_rounds_that_all_say_the_same_tell_it_and_one_less_do_not(benchmarks):
    """Whatever the machine does: from round to round it varies by far more than the change of a tenth."""
    needed, rng = rounds_needed(wanted_confidence(benchmarks)), random.Random(10)
    speeds = [math.exp(rng.uniform(0, 3)) for _ in range(needed)]
    rounds = [[(one, one * (1.1 + 0.002 * rng.random()))] for one in speeds]
    assert judge(rounds, benchmarks).exceeds(0.05) and differs(rounds, benchmarks)
    fewer = judge(rounds[1:], benchmarks)
    assert not fewer.enough and fewer.head_over_base.confidence == reachable(needed - 1) < fewer.wanted


@pytest.mark.parametrize("benchmarks", [1, 60, 61, 200])
@pytest.mark.parametrize("count", [20, 40])
def test_a_head_that_is_five_times_as_slow_is_told_in_a_family_of_any_size(benchmarks, count):
    found = judge(rounds_of(random.Random(2), count, change=4.0, pairs=4), benchmarks)
    assert found.exceeds(3.0) and found.head_over_base.high < 1 / 4.5
    assert not differs(rounds_of(random.Random(2), count, pairs=4), benchmarks)


def shapes_of_rounds(count):
    """The logarithms of rounds of two sides: alike, apart, and with far ones; few and many."""
    rng = np.random.default_rng(5)
    for number in range(count):
        rounds = int(rng.integers(10, 40))
        level = rng.normal(0, (0.001, 0.05, 1.0)[number % 3], rounds)
        apart = rng.standard_t(2, rounds) * rng.choice([0.001, 0.02, 0.2])
        own = rng.normal(0, 0.02, rounds) if number % 4 == 0 else level
        yield own, level + apart + rng.normal(0, 0.3)


def test_exchanges_that_cannot_be_as_large_are_passed_over_and_no_others():
    rng = np.random.default_rng(6)
    for base, head in shapes_of_rounds(60):
        signs = 1 - 2 * rng.integers(0, 2, (500, len(base)))
        unlike = permutation._unlike(base, head)
        level, half = (base + head) / 2, signs * (head - base) / 2
        every = np.abs(permutation._difference(level - half, level + half, unlike))
        there = abs(permutation._difference(base, head, unlike))
        assert permutation._as_large(base, head)(signs).tolist() == np.flatnonzero(every >= there - 1e-12).tolist()


@pytest.mark.parametrize("way", [-1, 1])
def test_an_interval_ends_where_the_test_turns(way):
    for base, head in shapes_of_rounds(20):
        middle = head - permutation._difference(base, head, permutation._unlike(base, head))
        reach = permutation._reach(base, middle, way * math.log(8), 0.01 / 6)
        assert permutation._possible(base, middle + way * (reach - 0.0003), 0.01 / 6)
        assert permutation._possible(base, middle + way * reach, 0.01 / 6) == (reach == pytest.approx(math.log(8)))


def test_too_few_rounds_tell_nothing_however_clear_they_look():
    few = judge(rounds_of(random.Random(1), 9, change=1.0))
    assert few.head_over_base.speedup < 1 / 1.8
    assert not few.enough and not few.told and not few.exceeds(0.05)


def test_a_clear_change_is_told_and_gates_only_where_the_whole_interval_is_above():
    found = judge(rounds_of(random.Random(2), 24, change=0.06), benchmarks=6)
    assert found.told and found.rounds == 24
    assert found.exceeds(0.01) and not found.exceeds(0.06)
    faster = judge(rounds_of(random.Random(2), 24, change=-0.5), benchmarks=6)
    assert faster.told and not faster.exceeds(0.0)


def test_rounds_that_a_neighbour_spoilt_do_not_widen_the_interval():
    found = judge(rounds_of(random.Random(3), 24, change=0.06, spoilt=0.1), benchmarks=6)
    assert found.told and found.head_over_base.low > 1 / 1.2


def test_equal_code_is_called_changed_in_under_one_family_in_a_hundred():
    """`tools/noise.py simulate` counts thousands; these few find a test that is broken."""
    rng = random.Random(4)
    alarms = 0
    for _ in range(30):
        alarms += any(differs(rounds_of(rng, 24, pairs=4), benchmarks=6) for _ in range(6))
    assert alarms <= 2  # of 30; three or more have a chance of 0.3 % at 1 %


@pytest.mark.parametrize(("apart", "told"), [(0.011, False), (-0.011, False), (0.045, True), (-0.045, True)])
def test_what_two_servers_of_equal_code_may_be_apart_is_never_told(apart, told):
    """However precise the rounds are: the difference is in all of them, so no exchange of rounds shows it."""
    rng = random.Random(6)
    rounds = [[(1.0, (1 + apart) * rng.uniform(1, 1.002))] for _ in range(36)]
    assert (judge(rounds, 6).told, differs(rounds, 6)) == (told, told)


@pytest.mark.parametrize(
    ("servers", "told"), [((), False), ((36,), False), ((18, 18), True), ((33, 3), False), ((9, 9, 9, 9), True)]
)
def test_what_servers_draw_averages_out_over_several_pairs(servers, told):
    """1.6 %, in all rounds: more than two pairs of servers are apart on average, and less than one pair may be."""
    rng = random.Random(6)
    rounds = [[(1.0, 1.016 * rng.uniform(1, 1.002))] for _ in range(36)]
    found = judge(rounds, 6, servers=servers)
    assert (found.told, differs(rounds, 6, servers=servers)) == (told, told)


@pytest.mark.parametrize(
    ("apart", "families"), [(1.015, ()), (1.0185, (1,)), (1.0225, (1, 6)), (1.0275, (1, 6, 61)), (1.03, (1, 6, 61))]
)
def test_what_servers_may_be_apart_has_the_confidence_that_a_family_needs(apart, families):
    rng = random.Random(6)
    rounds = [[(1.0, apart * rng.uniform(1, 1.0002))] for _ in range(36)]
    assert tuple(count for count in (1, 6, 61) if differs(rounds, count)) == families


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmarks", "servers", "draws", "most"),
    [
        (1, (10,), 3000, 46), (1, (10,) * 6, 1500, 26), (6, (14,), 1000, 19), (6, (6,) * 6, 500, 12),
        (61, (20,), 100, 5), (61, (6,) * 6, 100, 5),
    ],
)  # fmt: skip
def test_all_intervals_of_a_run_hold_together(benchmarks, servers, draws, most):
    """In 99 % of the runs. More misses than `most` have a chance of 0.3 % at 1 %, or less."""
    rng, missed = random.Random(11), 0
    for _ in range(draws):
        missed += any(differs(of_servers(rng, servers), benchmarks, servers=servers) for _ in range(benchmarks))
    assert missed <= most


def of_servers(rng, servers):
    """Rounds of equal code. Each server draws 0.46 % for all its rounds, so that two are 0.65 % apart."""
    made = []
    for rounds in servers:
        drawn = [rng.gauss(0, permutation.SERVERS / math.sqrt(2)) for _ in range(2)]
        for _ in range(rounds):
            disturbed = [rng.uniform(1, 2) if rng.random() < 0.05 else 1.0 for _ in range(2)]
            made.append([tuple(k * rng.gauss(1, 0.003) * math.exp(d) for k, d in zip(disturbed, drawn, strict=True))])
    return made


@pytest.mark.slow
def test_an_interval_and_whether_rounds_differ_agree():
    rng = random.Random(8)
    for _ in range(40):
        rounds = rounds_of(rng, 16, change=rng.uniform(-0.06, 0.06), pairs=4)
        servers = rng.choice([(), (8, 8), (4, 4, 4, 4)])
        assert judge(rounds, 6, servers=servers).told == differs(rounds, 6, servers=servers)


@pytest.mark.slow
def test_intervals_hold_a_change_where_servers_of_equal_code_are_apart():
    """Each pair of servers draws its own 0.6 % for all its rounds. One miss in 300 is expected."""
    rng = random.Random(9)
    missed = 0
    for _ in range(50):
        rounds = []
        for _ in range(4):
            drawn = 1.03 * (1 + rng.gauss(0, 0.006))
            rounds += [[(base, drawn * head)] for base, head in ((rng.gauss(1, 0.003), rng.gauss(1, 0.003)),) * 9]
        found = judge(rounds, 6, servers=(9, 9, 9, 9)).head_over_base
        missed += not found.low <= 1 / 1.03 <= found.high
    assert missed <= 1
