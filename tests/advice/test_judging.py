"""The arithmetic of a trial, and the choice between gains."""

import math
import random
from dataclasses import replace

import pytest

from pipebench.advise import judging
from pipebench.advise.judging import (
    BETWEEN_RUNS,
    MOST_PAIRS,
    advisable,
    best,
    enough,
    foretold,
    gain,
    outcome,
    promised,
    ratios,
    together,
    unclear,
    varies,
)
from pipebench.results.advice import Cache, Change, Finding
from pipebench.stats import Speedup
from pipebench.watch.record.trial_lines import TrialWindow


def _finding(remedy, speedup, **settings):
    found = gain([0.99 * speedup, speedup, 1.01 * speedup])
    return Finding(Change(remedy, settings), outcome(found), found)


def test_batches_out_of_the_store_are_no_throughput():
    windows = [
        TrialWindow(2, 0, False, 2.0, 20),
        TrialWindow(2, 0, True, 1.0, 20, drained=8),
        TrialWindow(2, 1, False, 2.0, 9),
    ]
    assert ratios(windows) == [pytest.approx(12 / 10)]


def test_pairs_go_on_until_they_are_enough():
    assert not enough([]) and not enough([2.0]) and not enough([2.0, 2.0])
    assert enough([2.0, 2.0, 2.01]) and enough([0.8, 0.85]) and enough([1.0, 1.001, 0.999])
    assert enough([1.95, 2.0, 2.02])  # runs differ by more than this interval
    assert not enough([1.0, 1.03, 1.06])  # may still be a gain
    assert not enough([1.0, 2.0, 3.0]) and enough([1.0, 2.0] * 4)


@pytest.mark.parametrize(
    ("speedup", "low", "high", "expected"),
    [
        (2.0, 1.9, 2.1, "gain"),
        (1.02, 1.01, 1.03, "no-gain"),
        (1.3, 0.99, 1.6, "unclear"),
        (1.0, 0.98, 1.02, "no-gain"),
        (0.8, 0.7, 0.9, "slower"),
    ],
)
def test_a_gain_excludes_a_slow_down_and_is_worth_an_edit(speedup, low, high, expected):
    assert outcome(Speedup(speedup, low, high, 0.95)) == expected


def test_two_pairs_are_a_gain_only_if_they_leave_no_doubt():
    """Ratios of two pairs that are equal by chance look precise. As found on a script: a "gain" of 1.00 to 2.37."""
    for two, three in ((gain([1.20, 1.201]), gain([1.20, 1.202, 1.201])), (gain([1.5, 1.6]), gain([1.5, 1.6, 1.55]))):
        assert outcome(two, 2) != "gain" and outcome(three, 3) == "gain"
    assert outcome(gain([4.0, 4.05]), 2) == "gain"


def test_a_promise_holds_what_differs_between_runs():
    told = promised(Speedup(2.0, 2.0, 2.0, 0.95))
    assert told.low == pytest.approx(2.0 * math.exp(-1.96 * 2 * BETWEEN_RUNS))  # large gains differ more
    assert promised(Speedup(1.0, 1.0, 1.0, 0.95)).low == pytest.approx(math.exp(-1.96 * BETWEEN_RUNS))
    assert told.low * told.high == pytest.approx(4.0)
    wide = promised(Speedup(2.0, 1.0, 4.0, 0.95))
    assert wide.low < 1.0 and wide.high > 4.0
    # Surely faster in this process, but by no more than another run differs.
    assert outcome(Speedup(1.06, 1.05, 1.07, 0.95)) == "no-gain"


def test_of_nearly_equal_gains_the_cheaper_is_the_advice():
    rungs = [_finding("num_workers", 1.9, num_workers=4), _finding("num_workers", 1.95, num_workers=8)]
    assert best(rungs) == 0
    assert best([*rungs, _finding("num_workers", 3.0, num_workers=16)]) == 2
    assert best([_finding("num_workers", 1.0, num_workers=4)]) is None


def test_together_holds_the_best_of_each_and_must_be_more_than_one_alone():
    found = [
        _finding("num_workers", 1.9, num_workers=4),
        _finding("num_workers", 2.5, num_workers=8),
        _finding("prefetch_factor", 1.2, prefetch_factor=8),
        _finding("pin_memory", 0.9, pin_memory=True),
    ]
    both = together(found)
    assert both.settings == {"num_workers": 8, "prefetch_factor": 8}
    assert best([*found, _finding("together", 2.55, **both.settings)]) == 1
    assert best([*found, _finding("together", 2.9, **both.settings)]) == 4
    assert together([*found, _finding("together", 2.9, **both.settings)]) is None and together(found[:2]) is None
    better = [*found, _finding("together", 2.9, **both.settings), _finding("num_workers", 3.5, num_workers=16)]
    assert together(better).settings == {"num_workers": 16, "prefetch_factor": 8}


@pytest.mark.parametrize(("kind", "again"), [({}, 0), ({"knock_out": True}, None), ({"gives_up": True}, None)])
def test_only_a_change_that_may_be_advised_is_tried_again(kind, again):
    scattered = (0.8, 1.6, 1.0, 1.5)
    found = Finding(Change("one", {}, **kind), "unclear", gain(scattered), scattered)
    assert unclear([found]) == again


def test_what_only_differs_between_runs_is_not_tried_again():
    """It is sure in this process, and too little for another one: no pair would be made, again and again."""
    sure = (1.085, 1.1, 1.087, 1.11, 1.1)
    assert outcome(gain((1.08, 1.1, 1.12))) == "unclear" and enough((1.08, 1.1, 1.12), 10)
    assert unclear([Finding(Change("one", {}), "unclear", gain(sure), sure)]) is None


@pytest.mark.parametrize("by", ["windows", "passes"])
def test_what_noise_hides_is_tried_again_until_more_pairs_would_not_help(by):
    some = (1.61, 1.17, 0.777, 1.54, 1.57, 1.1, 1.5)

    def of(ratios):
        return [Finding(Change("one", {}), "unclear", gain(ratios), ratios, by)]

    assert unclear(of(some)) == unclear(of(3 * some)) == 0
    assert unclear(of(4 * some)) is None


def test_an_advice_that_is_only_roughly_known_is_tried_again():
    rough, sharp = (1.2, 2.4, 1.5, 2.2, 1.9), (1.5, 1.52, 1.51)

    def of(*trials, **how):
        changes = [Change(f"change {place}", {}, **how) for place in range(len(trials))]
        gains = [promised(gain(one)) for one in trials]
        return [Finding(one, "gain", told, found) for one, told, found in zip(changes, gains, trials, strict=True)]

    assert unclear(of(rough)) == 0 and unclear(of(sharp)) is None
    assert unclear(of(sharp, rough)) == 1 and unclear(of(rough, (4.0, 4.1, 4.05))) is None  # not the one to follow
    assert unclear(of(rough, knock_out=True)) is None and unclear(of(rough, gives_up=True)) is None
    assert unclear(of(6 * rough)) is None


def _chosen(true_gains, noise, pairs, chance):
    """What `best` chooses, where the logarithms of pairs scatter by `noise`, and so many pairs fit into the budget."""
    found = []

    def tried(true_gain, earlier=()):
        nonlocal pairs
        known, most = [*earlier], len(earlier) + MOST_PAIRS
        while pairs and not enough(known, most):
            known.append(true_gain * math.exp(chance.gauss(0.0, noise)))
            pairs -= 1
        told = gain(known)
        kind = outcome(told, len(known)) if told else "not-tried"
        return Finding(Change("change", {}), kind, promised(told) if told else None, tuple(known))

    for one in true_gains:
        found.append(replace(tried(one), change=Change(f"change {len(found)}", {})))
    while pairs and (place := unclear(found)) is not None:
        found[place] = replace(tried(true_gains[place], found[place].ratios), change=found[place].change)
    return best(found)


def test_fewer_gains_by_chance_are_advised_and_no_fewer_real_ones(monkeypatch):
    """Five changes that bring nothing, and four of them with one that brings twice, on a very noisy machine."""

    def counted(true_gains, wanted, runs):
        chance = random.Random(11)
        return sum(_chosen(true_gains, 0.8, 80, chance) in wanted for _ in range(runs))

    def both():
        return counted([1.0] * 5, range(5), 200), counted([1.0] * 4 + [2.0], [4], 60)

    now = both()
    monkeypatch.setattr(judging, "_ROUGH", math.inf)
    before = both()
    assert 0 < now[0] <= before[0] / 2 and now[1] >= before[1]


@pytest.mark.parametrize(("of_workers", "of_cache", "place"), [(3.0, 3.1, 0), (3.0, 3.6, 1)])
def test_a_cache_must_gain_clearly_more_than_workers_do(of_workers, of_cache, place):
    """It takes memory, and gains nothing in the first pass."""

    def found(speedup, change):
        return Finding(change, "gain", Speedup(speedup, 0.9 * speedup, 1.1 * speedup, 0.95), 3 * (speedup,))

    workers, cache = Change("num_workers", {"num_workers": 8}), Change("cache", {}, edits={"cache": {}})
    for order in ((0, 1), (1, 0)):
        both = [(found(of_workers, workers), found(of_cache, cache))[one] for one in order]
        assert best(both) == order.index(place)


def _unclear(*pairs, **more):
    change = Change("prefetch_factor", {"prefetch_factor": 8}, **more)
    return Finding(change, "unclear", gain(pairs), pairs, predicted=Speedup(1.3, 1.1, 1.5, 0.95))


def _untried(speedup, low, **more):
    change = Change("num_workers", {"num_workers": 4}, **more)
    return Finding(change, "not-tried", reason="budget", predicted=Speedup(speedup, low, 2 * speedup, 0.95))


@pytest.mark.parametrize(
    ("findings", "place"),
    [
        ([], None),
        ([_unclear(1.18, 1.3, 1.44)], 0),
        ([_unclear(1.18, 0.9, 1.44)], None),  # one pair was slower
        ([_unclear(1.3, 1.4)], None),  # two pairs
        ([_unclear(1.3, 1.4, asked_for=True)], 0),
        ([_unclear(1.04, 1.05, 1.06)], None),  # too little to name
        ([_unclear(1.04, 1.08, 1.07, 1.12, 1.06)], 0),  # but in each of five pairs
        ([_unclear(1.04, 1.045, 1.04, 1.06, 1.045)], None),
        ([_unclear(1.05, 1.09, 1.08), _unclear(1.04, 1.08, 1.07, 1.12, 1.06)], 1),  # the first does not hide it
        ([_unclear(1.05, 1.06, 1.05), _untried(1.5, 1.2)], None),
        ([_unclear(1.18, 1.3, 1.44, gives_up=True)], None),
        ([_untried(1.5, 1.2)], 0),
        ([_untried(1.5, 0.9)], None),
        ([replace(_untried(1.5, 0.9), ratios=(1.4,))], None),  # also where one pair agrees
        ([replace(_untried(1.5, 1.2), belied=True)], None),
        ([replace(_untried(1.5, 0.9), ratios=(1.0,))], None),
        ([_untried(1.5, 0.9, asked_for=True)], None),  # also where a cause of this run speaks for it
        ([_untried(1.5, 1.01, asked_for=True)], 0),
        ([_unclear(1.38, 3.0, 10.69)], None),  # pairs that scatter
        ([_untried(1.9, 1.5), _unclear(1.18, 1.3, 1.44)], 1),  # what was tried speaks first
    ],
)
def test_the_best_guess_where_nothing_was_shown(findings, place):
    assert foretold(findings) == place


def test_a_cache_that_takes_longer_to_fill_than_ten_passes_gain_is_no_advice():
    cache = Change("cache", {}, edits={"cache": {"name": "get"}})
    kept = Finding(cache, "gain", gain([1.5, 1.5, 1.5]), (1.5, 1.5, 1.5), cache=Cache(8.0, 100, 1e9, False, 40.0, 10.0))
    workers = Finding(Change("num_workers", {"num_workers": 4}), "gain", gain([1.3, 1.3, 1.3]), (1.3, 1.3, 1.3))
    assert kept.after(10).speedup < 1.0 and best(advisable([kept])) is None  # 100 s, or 40 s + 67 s
    assert together(advisable([kept, workers])) is None
    assert best(advisable([replace(kept, cache=replace(kept.cache, fill_s=20.0))])) == 0
    assert best(advisable([replace(kept, cache=replace(kept.cache, fill_s=None))])) == 0  # an older record


@pytest.mark.parametrize(
    ("pairs", "found"),
    [
        ((1.7, 1.9, 1.3), True),
        ((25.9, 18.7, 8.0), False),
        ((1.7, 1.9), False),
        ((1.7, 1.0, 1.3), False),
        ((1.05, 1.06, 1.2), False),
    ],
)
def test_what_looks_like_a_gain_is_not_put_off(pairs, found):
    assert judging.promises(pairs) is found


def test_a_cache_does_not_make_it_needless_to_tell_what_else_gains():
    cache = Change("cache", {}, edits={"cache": {"name": "get"}})
    kept = Finding(cache, "gain", gain([5.4, 5.3, 5.0]), (5.4, 5.3, 5.0))
    assert unclear([_unclear(1.7, 1.93, 1.3), kept]) == 0
    assert unclear([_unclear(1.7, 1.93, 1.3), replace(kept, change=Change("num_workers", {"num_workers": 4}))]) is None


def test_a_simulation_that_was_wrong_about_what_was_tried_is_no_ground_for_a_guess():
    tried = Finding(Change("num_workers", {"num_workers": 8}), "no-gain", gain([1.0, 1.01, 0.99]), (1.0, 1.01, 0.99))
    told = replace(tried, predicted=Speedup(1.85, 1.46, 2.4, 0.95))
    assert foretold([told, _untried(1.5, 1.2)]) is None
    assert foretold([replace(tried, predicted=Speedup(1.01, 0.9, 1.1, 0.95)), _untried(1.5, 1.2)]) == 1


def test_more_workers_are_no_guess_where_workers_compute():
    tried = Finding(Change("num_workers", {"num_workers": 4}), "unclear", gain([1.2, 1.8, 1.5]), (1.2, 1.8, 1.5))
    assert foretold([tried]) == 0
    assert foretold([tried, _unclear(1.18, 1.3, 1.44)], computing=True) == 1
    assert foretold([tried, _untried(1.5, 1.2)], computing=True) is None
    none = replace(_untried(1.5, 1.2), change=Change("num_workers", {"num_workers": 0}))
    assert foretold([tried, none], computing=True) == 1  # no workers leave the cores to other programs


def test_workers_that_could_live_on_are_a_guess_where_the_loader_is_made_anew():
    change = Change("persistent_workers", {"persistent_workers": True}, predicted=1.8)
    anew = Finding(change, "not-tried", reason="new-loader-each-pass")
    assert foretold([anew]) == 0 and foretold([replace(anew, reason="passes-overlap")]) is None


def test_what_a_cause_asks_for_and_only_a_changed_script_shows_is_a_guess():
    change = Change("as_tensors", {}, asked_for=True)
    found = Finding(change, "slower", gain([0.8, 0.82, 0.81]), (0.8, 0.82, 0.81), given_back=0.5)
    assert foretold([found]) == 0
    assert foretold([replace(found, given_back=0.1)]) is None  # it would still be slower
    assert foretold([replace(found, change=replace(change, asked_for=False))]) is None


def test_a_gain_that_differs_more_between_runs_is_promised_so():
    """It takes a loss away: the loss may be smaller in another run, but the change does not make that run slower."""
    found = Speedup(3.0, 2.7, 3.3, 0.95)
    usual, wide = promised(found), promised(found, 0.65)
    assert usual.low < wide.speedup == 3.0 and wide.high > 3.0 * math.exp(1.96 * 0.65) > 3 * usual.low
    assert wide.low == 1.0 < usual.low
    assert promised(found, 0.01) == usual  # no less than what differs between any two runs
    little = Speedup(1.02, 0.8, 1.3, 0.95)
    assert promised(little, 0.65).low == promised(little).low < 1.0


def test_gains_of_code_differ_more_between_runs_than_those_of_settings():
    """So do those of a loader that has no workers any more. What differs most in a change of several is that of all."""
    setting, code = Change("prefetch_factor", {"prefetch_factor": 8}), Change("cache", {}, edits={"cache": {}})
    assert varies(setting) == 0.0 < varies(code) == varies(Change("num_workers", {"num_workers": 0})) == 0.2
    assert varies(Change("one_thread", {}, edits={"cache": {}}, varies=0.65)) == 0.65
    found = Speedup(2.0, 1.9, 2.1, 0.95)
    usual, wide = (promised(found, varies(one)) for one in (setting, code))
    assert wide.low == pytest.approx(2 * math.exp(-math.hypot(math.log(2 / 1.9), 1.96 * 0.2)), rel=1e-3)
    assert wide.low < usual.low and usual.high < wide.high


def test_a_change_that_differs_between_runs_still_counts_as_known():
    sharp = (3.0, 3.02, 2.98)
    change = Change("one_thread", {}, varies=0.65)
    found = Finding(change, "gain", promised(gain(sharp), change.varies), sharp)
    assert (
        unclear([found]) is None
        and together([found, replace(found, change=Change("prefetch_factor", {"prefetch_factor": 8}))]).varies == 0.65
    )


def test_workers_that_live_on_save_no_start_in_the_first_pass():
    found = Finding(Change("persistent_workers", {"persistent_workers": True}, by_passes=True), "gain",
                    Speedup(3.0, 2.0, 4.0, 0.95), by="passes")  # fmt: skip
    assert found.after(1).speedup == pytest.approx(1.0) and found.after(10**6).low == pytest.approx(2.0, abs=1e-4)
    assert found.in_run().speedup == pytest.approx(10 / (1 + 9 / 3))
    together = replace(found, change=Change("together", {"persistent_workers": True, "num_workers": 4}))
    only = together.after(1)  # the other change may help the first pass as much, or not at all
    assert (only.low, only.high) == (pytest.approx(1.0), 4.0) and only.speedup == pytest.approx(math.sqrt(3))
    first = replace(found, change=Change("num_workers", {"persistent_workers": True, "num_workers": 4}))
    assert first.after(1).speedup == 3.0  # there were no workers before
