"""What is tried, for how long, and what is advised: with a made-up script whose answers are planted."""

import math
from dataclasses import replace
from itertools import cycle, repeat

import pytest
from made_up_script import Planted, advice_on, caused
from made_up_trials import LOADER, host, seen, watched, worker

from pipebench.advise import judging
from pipebench.advise.conductor import LOOK_S, Conductor
from pipebench.advise.judging import MOST_PAIRS
from pipebench.advise.main_loader import main_loader
from pipebench.advise.trial import not_now
from pipebench.remedies import num_workers
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.advice import NO_LOADER, Change, Finding
from pipebench.stats import Speedup


def _workers(gains):
    return lambda order: gains.get(order.settings.get("num_workers"), 1.0)


def test_the_ladder_climbs_past_the_cores_while_it_helps_and_stops_where_it_does_not():
    run = Planted(_workers({4: 1.9, 8: 2.6, 16: 2.65}), seen(0.7))
    advice = advice_on(run, 400)
    tried = [one.settings["num_workers"] for one in run.orders if one.settings and "num_workers" in one.settings]
    assert tried == [4, 8, 16]
    assert advice.ended == "done" and advice.chosen.change.settings == {"num_workers": 8}
    assert advice.chosen.gain.low <= 2.6 <= advice.chosen.gain.high
    assert run.orders[-1].settings is None


def test_a_healthy_script_is_left_alone():
    run = Planted(lambda order: 1.0, seen(0.01))
    advice = advice_on(run)
    assert not advice.findings and advice.best is None and advice.ended == "done"
    assert [one.settings for one in run.orders] == [None, None]


@pytest.mark.parametrize(("ends_s", "ended"), [(1e9, "refused"), (50.0, "script-ended")])
def test_a_loop_without_a_loader_is_watched_until_the_budget_is_over(ends_s, ended):
    run = Planted(lambda order: 1.0, seen(0.5), ends_s, made=None)
    conductor = Conductor(run, {}, 60.0)
    conductor.conduct()
    advice = conductor.advice()
    assert (advice.ended, advice.refusal, run.orders) == (ended, NO_LOADER, [])
    assert advice.spent_s == pytest.approx(min(60.0, ends_s), abs=0.3)


def test_what_slows_down_is_given_up_after_two_pairs_and_never_advised():
    run = Planted(lambda order: 0.7, seen(0.5))
    advice = advice_on(run)
    assert advice.best is None and any(one.gain for one in advice.findings)
    assert [one.outcome for one in advice.findings] == ["slower"] * len(advice.findings)
    assert all(len(one.ratios) == 2 for one in advice.findings if one.gain)


def test_a_gain_whose_interval_holds_a_slow_down_is_noadvice_on():
    noise = iter([0.8, 1.6, 1.0, 1.5, 0.9, 1.4, 1.2] * 9)
    advice = advice_on(Planted(lambda order: next(noise), seen(0.5)))
    assert advice.findings[0].gain.speedup > 1.1 and advice.findings[0].outcome == "unclear"
    assert advice.best is None


def test_what_noise_hid_is_tried_again_while_there_is_time():
    noise = iter([0.8, 1.6, 1.0, 1.5, 0.9, 1.4, 1.2])
    gains = {4: lambda: next(noise, 1.25)}
    run = Planted(lambda order: gains.get(order.settings.get("num_workers"), lambda: 1.0)(), seen(0.5))
    first = advice_on(run, 400).findings[0]
    orders = [one for one in run.orders if one.settings and one.settings.get("num_workers") == 4]
    assert len(orders) > 1 and len(first.ratios) == len(orders) * MOST_PAIRS and first.outcome == "gain"
    assert first.ratios[MOST_PAIRS:] == (1.25,) * MOST_PAIRS * (len(orders) - 1)


def test_what_is_unclear_for_long_waits_until_the_others_were_tried():
    """A pair takes 12 s of 200: seven of them would be nearly half of the budget."""
    noise = cycle([0.8, 1.6, 1.0, 1.5, 0.9, 1.4, 1.2])
    run = Planted(lambda order: next(noise) if "num_workers" in order.settings else 1.4, seen(0.5), pair_s=12.0)
    advice = advice_on(run, 200)
    workers, ahead = advice.findings[:2]
    tried = [[*one.settings] for one in run.orders if one.settings]
    assert tried[:2] == [["num_workers"], ["prefetch_factor"]] and workers.reason == ""
    assert workers.outcome == "unclear" and ahead.outcome == "gain" and advice.chosen is ahead


def test_a_gain_that_noise_always_hides_stays_unclear_and_ends_the_search():
    noise = cycle([0.8, 1.6, 1.0, 1.5, 0.9, 1.4, 1.2])
    run = Planted(lambda order: next(noise), seen(0.5))
    advice = advice_on(run, 10_000)
    assert advice.ended == "done" and {one.outcome for one in advice.findings} == {"unclear"}
    assert all(len(one.ratios) <= 4 * MOST_PAIRS for one in advice.findings)


@pytest.mark.parametrize(("cause", "rungs"), [("storage", [4, 8, 16]), ("stage", [4])])
def test_where_workers_wait_the_ladder_goes_on_past_a_rung_that_noise_hides(cause, rungs):
    noise = cycle([0.8, 1.6, 1.0, 1.5, 0.9, 1.4, 1.2])
    gains = {4: noise, 8: repeat(1.9), 16: repeat(1.9)}
    shown = seen(0.5)
    account = Account(10.0, (), causes=(Cause(cause, 5.0),))
    shown = replace(shown, watched=replace(shown.watched, account=account))
    run = Planted(lambda order: next(gains.get(order.settings.get("num_workers"), repeat(1.0))), shown)
    advice = advice_on(run, 10_000)
    tried = [one.settings["num_workers"] for one in run.orders if one.settings and "num_workers" in one.settings]
    assert list(dict.fromkeys(tried)) == rungs
    assert (advice.best is not None) == (cause == "storage")


def test_where_workers_compete_for_the_cores_fewer_are_tried_first():
    shown = seen(0.6, num_workers=6)
    account = Account(10.0, (), causes=(Cause("workers-compete", 3.0),))
    run = Planted(_workers({2: 1.5, 1: 1.9}), replace(shown, watched=replace(shown.watched, account=account)))
    advice = advice_on(run, 400)
    tried = [one.settings["num_workers"] for one in run.orders if one.settings and "num_workers" in one.settings]
    assert tried == [2, 1] and advice.chosen.change.settings == {"num_workers": 1}


def test_more_workers_are_not_proposed_where_workers_compete_and_windows_cannot_tell():
    shown = seen(0.6, num_workers=6)
    account = Account(10.0, (), causes=(Cause("workers-compete", 3.0),))
    shown = replace(shown, watched=replace(shown.watched, account=account))
    fewer = Finding(Change("num_workers", {"num_workers": 2}), "not-tried", reason="workers-compute")
    assert num_workers.propose(shown, [fewer]) is None
    assert num_workers.propose(shown, [replace(fewer, reason="OSError: planted")]).settings == {"num_workers": 12}


def test_what_competing_workers_could_save_counts_though_the_loop_hardly_waits():
    shown = seen(0.1, num_workers=6, loader=replace(LOADER, later_startup_s=20.0))
    account = Account(10.0, (AccountRow("forward", 10.0, loader=1),), (Cause("workers-compete", 6.0, 6.0),))
    run = Planted(lambda order: 1.0, replace(shown, watched=replace(shown.watched, account=account)))
    advice_on(run, 400)
    assert next(one.settings for one in run.orders if one.settings) == {"num_workers": 2}


def test_what_was_gained_is_no_longer_to_be_gained():
    """Start-up could save less than waits could, but more than what is left of them once more workers have gained."""
    loader = replace(LOADER, later_startup_s=10.0)
    run = Planted(_workers({4: 1.4, 8: 1.6}), seen(0.5, batches=300, loader=loader))
    advice_on(run, 2000)
    tried = [one.settings for one in run.orders if one.settings]
    assert tried[:2] == [{"num_workers": 4}, {"persistent_workers": True}] and {"num_workers": 8} in tried


def test_the_budget_is_kept_and_what_was_not_tried_says_so():
    run = Planted(_workers({4: 1.5, 8: 1.9, 16: 2.4, 32: 3.0}), seen(0.8), pair_s=12.0)
    advice = advice_on(run, 100.0)
    assert run.clock <= 100.0 + 1
    left = [one for one in advice.findings if one.outcome == "not-tried"]
    assert advice.ended == "budget"
    assert left and all(one.reason == "budget" and one.gain is None for one in left)
    left_s = advice.budget_s - advice.spent_s
    assert all(one.needs_s > left_s for one in left if not one.ratios)


def test_threads_are_tried_where_a_library_may_use_many_and_not_where_only_torch_may():
    pools = host(("torch", 2, "torch.set_num_threads(1)"), ("OpenBLAS", 2, "OPENBLAS_NUM_THREADS=1"))
    run = Planted(lambda order: 6.0 if order.one_thread else 1.0, seen(0.9, used=pools, workers=(worker(threads=4),)))
    advice = advice_on(run)
    assert advice.chosen.change.one_thread and advice.chosen.change.pools == (
        "torch.set_num_threads(1)", "OPENBLAS_NUM_THREADS=1",
    )  # fmt: skip
    for nothing in (host(("torch", 2, "torch.set_num_threads(1)")), host(("OpenBLAS", 1, "OPENBLAS_NUM_THREADS=1"))):
        run = Planted(lambda order: 1.0, seen(0.9, used=nothing))
        advice_on(run)
        assert not any(one.one_thread for one in run.orders)


def test_gains_of_two_remedies_are_tried_together_and_kept_if_they_are_more():
    def speedup(order):
        return _workers({4: 1.5})(order) * (1.4 if order.settings.get("prefetch_factor") else 1.0)

    advice = advice_on(Planted(speedup, seen(0.6)), 300.0)
    assert advice.chosen.change.settings == {"num_workers": 4, "prefetch_factor": 8}
    alone = advice_on(Planted(lambda order: 1.5, seen(0.6)), 300.0)
    assert alone.chosen.change.settings == {"prefetch_factor": 8}  # as much, and no process more


def test_what_the_simulation_expects_little_of_is_tried_later():
    shown, low = seen(0.6), Speedup(1.05, 0.9, 1.2, 0.95)
    for foretold, first in (({}, {"num_workers": 4}), ({"{'num_workers': 4}": low}, {"prefetch_factor": 8})):
        run = Planted(lambda order: 1.0, shown, foretold=foretold)
        advice_on(run, 400)
        assert next(one.settings for one in run.orders if one.settings) == first


@pytest.mark.parametrize(("cause", "gain", "tried"), [("periodic-stalls", 1.5, [8, 32]), ("periodic-stalls", 1.0, [8]),
                                                      ("storage", 1.5, [8])])  # fmt: skip
def test_where_batches_come_in_bursts_a_second_rung_of_batches_ahead_is_tried(cause, gain, tried):
    shown = caused(seen(0.6), cause)
    run = Planted(lambda order: gain if "prefetch_factor" in order.settings else 1.0, shown)
    advice_on(run, 10_000)
    orders = [one.settings for one in run.orders if one.settings and list(one.settings) == ["prefetch_factor"]]
    assert [one["prefetch_factor"] for one in orders] == tried


def test_what_gained_is_tried_together_before_the_time_for_it_is_gone():
    gains = {"num_workers": 1.5, "prefetch_factor": 1.4, "pin_memory": 1.02, "timeout": 1.02}

    def once(name, value, most):
        return lambda seen, tried: None if tried else Change(name, {name: value}, predicted=most)

    proposals = [("num_workers", 4, 3.0), ("prefetch_factor", 8, 2.5), ("pin_memory", True, 2.0), ("timeout", 9, 1.9)]
    ones = {name: once(name, value, most) for name, value, most in proposals}

    def tried(budget_s):
        run = Planted(lambda order: math.prod(gains[one] for one in order.settings), seen(0.6, batches=None))
        conductor = Conductor(run, ones, budget_s)
        conductor.conduct()
        return [" ".join(one.change.settings) for one in conductor.findings if one.gain], conductor.advice().chosen

    both = "num_workers prefetch_factor"
    for budget_s, order in ((200.0, [*ones, both]), (60.0, [*list(ones)[:3], both])):
        found, chosen = tried(budget_s)
        assert found[: len(order)] == order and chosen.change.remedy == judging.TOGETHER


@pytest.mark.parametrize(("ahead", "tried"), [((1.14, 1.07, 1.11), True), ((1.16, 0.99, 1.14), False)])
def test_small_gains_that_are_not_sure_alone_are_tried_together(ahead, tried):
    """Each pair of the first trial is faster, and the interval for another run holds 1.0."""
    pairs = {"num_workers": cycle([1.14, 1.07, 1.11]), "prefetch_factor": cycle(ahead)}
    ones = {
        name: lambda seen, tried, name=name: None if tried else Change(name, {name: 4}, predicted=2.0) for name in pairs
    }
    run = Planted(lambda order: math.prod(next(pairs[one]) for one in order.settings), seen(0.6, batches=None))
    conductor = Conductor(run, ones, 10_000.0)
    conductor.conduct()
    advice = conductor.advice()
    assert {one.outcome for one in advice.findings[:2]} == {"unclear"}
    assert any(one.change.remedy == judging.TOGETHER for one in advice.findings) is tried
    chosen = advice.chosen.change.settings if advice.chosen is not None else None
    assert (chosen == {"num_workers": 4, "prefetch_factor": 4}) is tried


def test_fewer_workers_are_tried_until_fewer_bring_no_more():
    gains = {2: 2.0, 1: 2.6}
    run = Planted(lambda order: gains.get(order.settings["num_workers"], 1.0), seen(0.01, num_workers=8, cores=4.0))
    advice = advice_on(run)
    assert [one.settings["num_workers"] for one in run.orders if one.settings] == [4]
    gains[4] = 1.5
    advice = advice_on(Planted(run.speedup, run.seen_))
    assert advice.chosen.change.settings == {"num_workers": 1} and len(advice.findings) == 3


def test_a_gain_says_what_it_means_for_the_whole_run():
    loader = replace(LOADER, passes=5, iterations=1800, later_startup_s=40.0)
    advice = advice_on(Planted(_workers({4: 2.0}), seen(0.7, batches=400, loader=loader)), 400.0)
    assert advice.chosen.by == "windows" and advice.chosen.run.speedup == pytest.approx(1 / 0.75)


def test_windows_know_the_period_of_the_stalls():
    figures = seen(0.7)
    stalls = Account(10.0, (), (Cause("periodic-stalls", 3.0, values={"period": 8}),))
    run = Planted(lambda order: 1.0, replace(figures, watched=replace(figures.watched, account=stalls)))
    advice_on(run)
    assert {one.period for one in run.orders if one.settings} == {8}


def test_start_up_is_tried_by_passes():
    loader = replace(LOADER, later_startup_s=3.0, pass_end_s=0.5)
    run = Planted(
        lambda order: 4.0 if order.settings.get("persistent_workers") else 1.0, seen(0.01, batches=5, loader=loader)
    )
    advice = advice_on(run)
    assert [one.by for one in run.orders if one.settings] == ["passes"]
    assert advice.chosen.change.settings == {"persistent_workers": True}
    assert advice.chosen.change.predicted == pytest.approx(4.0 / 0.5)


def test_a_change_that_gives_no_pair_in_twice_its_time_is_not_predicted():
    """As first workers for batches of hundreds of tensors: what they take to cross is not known before."""
    run = Planted(_workers({4: 0.1}), seen(0.7), pair_s=120.0)
    advice = advice_on(run, 300.0)
    found = next(one for one in advice.findings if one.change.settings == {"num_workers": 4})
    assert (found.outcome, found.reason, found.ratios) == ("not-tried", "no-pair", ())


@pytest.mark.parametrize(("startup_s", "first"), [(1.5, "windows"), (120.0, "passes")])
def test_what_may_gain_most_is_tried_first(startup_s, first):
    """A pass takes 30 s and the start of workers. The loop waits for 70 % of an iteration."""
    loader = replace(LOADER, startup_s=startup_s)
    run = Planted(lambda order: 1.0, seen(0.7, batches=300, loader=loader))
    advice_on(run, 700)
    assert next(one.by for one in run.orders if one.settings) == first


def test_what_a_cause_asks_for_is_tried_before_what_may_gain_as_much():
    figures = seen(0.7)
    stalls = Account(10.0, (), (Cause("periodic-stalls", 3.0, values={"period": 8}),))
    for account, first in ((None, "num_workers"), (stalls, "prefetch_factor")):
        run = Planted(lambda order: 1.0, replace(figures, watched=replace(figures.watched, account=account)))
        advice_on(run)
        assert next(first in one.settings for one in run.orders if one.settings)


def test_a_long_pass_is_not_waited_for():
    loader = replace(LOADER, startup_s=400.0)
    advice = advice_on(Planted(lambda order: 1.0, seen(0.01, batches=5000, loader=loader)))
    (only,) = advice.findings
    assert (only.outcome, only.reason) == ("not-tried", "budget") and only.change.predicted == pytest.approx(1.8)


def test_a_script_that_ends_gives_what_is_known():
    advice = advice_on(Planted(_workers({4: 1.9}), seen(0.7), ends_s=LOOK_S + 14.0))
    assert advice.ended == "script-ended" and advice.chosen.change.settings == {"num_workers": 4}
    early = advice_on(Planted(_workers({4: 1.9}), seen(0.7), ends_s=3.0))
    assert early.ended == "script-ended" and not early.findings


def test_a_change_that_fails_is_told_and_the_others_go_on():
    advice = advice_on(Planted(lambda order: None if "num_workers" in order.settings else 1.3, seen(0.7)))
    first, second = advice.findings
    assert first.outcome == "not-tried" and first.reason == "OSError: planted"
    assert advice.chosen is second


def test_more_workers_than_memory_allows_are_not_tried():
    one = replace(seen(0.7, workers=(worker(pss_bytes=3_000_000_000),)), free_bytes=4e9)
    run = Planted(lambda order: 2.0, one)
    advice_on(run)
    assert not any("num_workers" in (order.settings or {}) for order in run.orders)


def test_nothing_is_tried_whose_workers_beside_the_present_ones_need_too_much_memory():
    eight = seen(0.7, cores=8.0, num_workers=8, workers=(worker(pss_bytes=3_000_000_000),))
    run = Planted(lambda order: 2.0, replace(eight, free_bytes=16e9))
    advice = advice_on(run)
    assert [order.settings for order in run.orders] == [None, None]
    assert advice.findings and {one.reason for one in advice.findings} == {"no-memory"}
    roomy = Planted(lambda order: 2.0, replace(eight, free_bytes=48e9))
    advice_on(roomy)
    assert {"prefetch_factor": 8} in [order.settings for order in roomy.orders]


@pytest.mark.parametrize(
    ("settings", "by_passes", "reason"),
    [
        ({"prefetch_factor": 8}, False, "no-memory"),
        ({"prefetch_factor": 8}, True, ""),  # the workers of one pass have ended before those of the next begin
        ({"persistent_workers": True}, True, "no-memory"),
        ({"num_workers": 1}, False, ""),
        ({"num_workers": 5}, True, "no-memory"),
    ],
    ids=str,
)
def test_memory_is_needed_for_the_workers_that_live_at_the_same_time(settings, by_passes, reason):
    present = replace(seen(0.5, workers=(worker(pss_bytes=1_000_000_000),)), free_bytes=3e9)
    assert not_now(present, Change("any", settings), by_passes, 1.0, 100.0) == reason


def test_the_order_of_batches_changes_only_with_leave():
    for allowed in (False, True):
        run = Planted(lambda order: 1.0, replace(seen(0.7), any_order=allowed))
        advice_on(run, 300.0)
        assert any("in_order" in (one.settings or {}) for one in run.orders) is allowed


def test_of_zipped_loaders_the_one_that_is_waited_for_is_tried():
    waited = replace(LOADER, loader=1, s_per_iteration=0.099, wait_s_per_iteration=0.08)
    ready = replace(LOADER, loader=2, s_per_iteration=0.1, wait_s_per_iteration=0.001)
    short = replace(LOADER, loader=3, iterations=5, s_per_iteration=0.1, wait_s_per_iteration=0.1)
    assert main_loader(replace(watched(), loaders=(waited, ready, short))) == 1
    assert main_loader(replace(watched(), loaders=(ready, short))) == 2
    assert main_loader(replace(watched(), loaders=())) is None


def test_changes_that_do_the_same_work_are_not_made_together():
    def gained(remedy, speedup, **how):
        change = Change(remedy, {}, title=remedy, edits={remedy: {}}, **how)
        return Finding(change, "gain", Speedup(speedup, 0.95 * speedup, 1.05 * speedup, 0.95))

    found = [gained("decoder", 1.3, group="decode"), gained("crop", 1.6, group="decode"), gained("table", 1.2)]
    assert set(judging.together(judging.apart(found)).edits) == {"crop", "table"}
    assert judging.together(judging.apart(found[:2])) is None
