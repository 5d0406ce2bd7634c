"""When stages are knocked out, what is predicted only, and that neither is ever called the advice."""

from dataclasses import replace

import pytest
from made_up_script import MADE, Planted
from made_up_trials import LOADER, seen

from pipebench.advise.conductor import Conductor
from pipebench.remedies import cache, callbacks, remedies, sampler_ahead, validation
from pipebench.render.advice import verdict
from pipebench.results.account import Account, AccountRow, Cause
from pipebench.results.batches import DeviceIdle
from pipebench.results.watched import StageResult
from pipebench.watch.record.trial_lines import TrialDifference, TrialRepeats

STAGES = (
    StageResult("Grain", "transform", 1, 100, 0.005, 0.5),
    StageResult("Photos.__getitem__", "getitem", 1, 100, 0.004, 0.4),
)


def _seen(discards=True, batches=1000, **account):
    found = seen(0.6, batches=batches, batch_size=8)
    rows = tuple(AccountRow(code, s, loader, recoverable_s=saved) for code, (s, loader, saved) in account.items())
    watched = replace(
        found.watched,
        stages=STAGES,
        account=Account(wall_s=100.0, rows=rows, beside_s=0.0, script_cpu_s=0.0) if rows else None,
    )
    return replace(found, discards=discards, watched=watched, made=MADE, all_made={1: MADE, 2: replace(MADE, line=9)})


def _run(run, budget_s=400.0):
    conductor = Conductor(run, remedies(), budget_s)
    conductor.conduct()
    return conductor.advice()


def _free(order):
    return bool(order.settings is not None and "knock_out" in order.edits)


def test_what_spoils_the_weights_comes_last_and_is_no_advice():
    run = Planted(lambda order: 1.8 if _free(order) else 1.0, _seen())
    advice = _run(run)
    tried = [_free(one) for one in run.orders if one.settings is not None]
    assert tried == sorted(tried) and sum(tried) == 2
    assert [one.discards for one in run.orders if one.settings is not None] == tried
    assert advice.best is None and advice.discarded
    assert [one.change.title for one in advice.findings if one.change.knock_out] == ["Photos.__getitem__", "Grain"]
    assert all(one.outcome == "gain" for one in advice.findings if one.change.knock_out)


def test_a_part_of_the_budget_is_kept_for_the_stages_and_what_is_put_off_comes_last():
    gains = {4: 1.5, 8: 2.0, 16: 2.5}
    run = Planted(lambda order: 2.0 if _free(order) else gains.get(order.settings.get("num_workers"), 1.0), _seen(),
                  pair_s=12.0)  # fmt: skip
    findings = _run(run, 140.0).findings
    assert [(one.change.title or one.change.settings, one.gain is not None) for one in findings] == [
        ({"num_workers": 4}, True), ({"num_workers": 8}, True), ({"num_workers": 16}, True),
        ("Photos.__getitem__", True), ("Grain", False), ({"prefetch_factor": 8}, False),
    ]  # fmt: skip


def test_without_agreement_no_order_spoils_the_weights():
    run = Planted(lambda order: 1.0, _seen(discards=False))
    assert not _run(run).discarded and not any(one.discards or _free(one) for one in run.orders)


def test_a_gain_is_the_advice_beside_a_larger_ceiling():
    run = Planted(lambda order: 3.0 if _free(order) else 1.5 if "prefetch_factor" in order.settings else 1.0, _seen())
    advice = _run(run)
    assert advice.chosen.change.settings == {"prefetch_factor": 8} and not advice.chosen.change.knock_out


def test_a_short_pass_has_no_room_for_a_memo():
    advice = _run(Planted(lambda order: 1.0, _seen(batches=10)), 700.0)
    assert {one.reason for one in advice.findings if one.change.knock_out} == {"short-passes"} and not advice.discarded


class Telling(Planted):
    """A script whose workers also tell of their samples."""

    def order(self, order):
        super().order(order)
        if _free(order):
            for repeats in self.repeats:
                self.pending.append(TrialRepeats(order.number, repeats, 1000.0))
            self.pending.append(TrialDifference(order.number, 0.1, 0.01, 1.0, 50))
            self.pending.append(TrialDifference(order.number, 0.3, 0.02, 1.0, 50))


@pytest.mark.parametrize(("repeats", "cached"), [((True, True), True), ((True, False), False), ((), False)])
def test_a_cache_needs_that_all_workers_saw_their_samples_repeat(repeats, cached):
    run = Telling(lambda order: 1.5, _seen())
    run.repeats = repeats
    first = next(one for one in _run(run).findings if one.change.knock_out)
    assert (first.cache is not None) is cached and first.difference.largest == 0.3
    if cached:
        assert first.cache.bytes == 1000.0 * 1000 * 8 and first.cache.free_bytes == 8e9


def test_a_cache_holds_all_samples_also_of_a_sampler_of_batches():
    """Such a loader has no `batch_size`: here, 800 samples were made for 100 batches."""
    found = _seen()
    run = Telling(lambda order: 1.5, replace(found, settings={**found.settings, "batch_size": None}))
    run.repeats = (True, True)
    assert next(one.cache.samples for one in _run(run).findings if one.cache is not None) == 1000 * 8


def test_a_result_that_somebody_changes_in_place_is_to_be_copied():
    class Changing(Planted):
        def order(self, order):
            super().order(order)
            if "cache" in order.edits:  # one of two workers saw it
                self.pending += [TrialRepeats(order.number, True, 1000.0, changed=one) for one in (True, False)]

    found = _seen()
    stages = (StageResult("clean", "function", 1, 100, 0.005, 0.5),)
    run = Changing(
        lambda order: 2.0 if "cache" in order.edits else 1.0,
        replace(found, watched=replace(found.watched, stages=stages)),
    )
    (change,) = [one.change for one in _run(run).findings if one.change.remedy == "cache"]
    assert change.how == (*cache.HOW, cache.COPIES)


def test_what_is_of_the_script_is_predicted_from_the_account_and_never_tried():
    account = {
        "forward": (40.0, 1, None),
        "validation": (20.0, 2, 5.0),
        "other": (20.0, 1, 20.0),
        "sampler": (20.0, 1, 9.0),
    }
    run = Planted(lambda order: 1.0, _seen(discards=False, **account))
    advice = _run(run)
    found = {one.change.remedy: one for one in advice.findings if one.change.of_script}
    assert {name: round(one.change.predicted, 3) for name, one in found.items()} == {
        "validation": round(100 / 90, 3), "callbacks": 1.25, "sampler_ahead": 1.25,
    }  # fmt: skip
    assert all(one.outcome == "not-tried" and one.reason == "of-script" for one in found.values())
    assert found["validation"].change.at.line == 9 and found["sampler_ahead"].change.at.line == MADE.line
    assert advice.best is None and [one.change.of_script for one in advice.findings][-3:] == [True] * 3


@pytest.mark.parametrize(("values", "told"), [({"large": 1, "file": "/a/m.py", "line": 9}, True), ({"large": 1}, False),
                                              ({"file": "/a/m.py", "line": 9}, False)])  # fmt: skip
def test_work_between_the_passes_is_named_first_where_much_of_it_has_a_place(values, told):
    seen = _seen(forward=(40.0, 1, None))
    cause = Cause("outside-loops", 40.0, values={**values, "function": "validate"})
    account = replace(seen.watched.account, causes=(cause,))
    advice = _run(Planted(lambda order: 1.0, replace(seen, watched=replace(seen.watched, account=account))))
    text = verdict(advice)
    assert text.startswith("Less work between the passes could make the run at most 2.00× as fast") == told
    found = [one.change for one in advice.findings if one.change.remedy == "between"]
    assert [(one.at.name, one.at.line, one.of_script) for one in found] == [("validate", 9, True)] * told


def test_the_start_of_workers_in_the_only_pass_does_not_lower_what_a_change_could_bring():
    """A longer run does not repeat it. One that starts them for each pass does."""
    rows = {"start-up": (30.0, 1, None), "sampler": (20.0, 1, 20.0), "backward": (20.0, 1, None)}
    once = _seen(**rows)
    passes = replace(once, watched=replace(once.watched, loaders=(replace(LOADER, passes=5),)))
    assert [sampler_ahead.propose(one, []).predicted for one in (once, passes)] == [40 / 20, 70 / 50]
    for size, name in ((4, "sampler"), (None, "batch_sampler")):  # torch takes one of them only
        change = sampler_ahead.propose(replace(once, settings={"batch_size": size}), [])
        assert f" of the {name}, " in change.how[0]
        # Where the same code runs before the loop, it takes as long: nothing is promised of that.
        assert change.title == "a sampler that takes hardly any time" and "list(" not in " ".join(change.how)


def test_what_rests_on_a_device_is_not_verified_there():
    host = _seen(forward=(80.0, 1, None), other=(20.0, 1, 10.0))
    device = replace(host, watched=replace(host.watched, device_idle=DeviceIdle(0.001, 0.1, 100)))
    on_host, on_device = (callbacks.propose(one, []) for one in (host, device))
    assert on_host.how == callbacks.HOW and on_device.how == (*callbacks.HOW, "Not verified on a GPU.")


@pytest.mark.parametrize(
    ("remedy", "code", "loader"),
    [(callbacks, "callbacks", None), (sampler_ahead, "sampler", 1), (validation, "validation", 2)],
)
def test_what_is_written_in_place_of_their_line_is_said(remedy, code, loader):
    found = _seen(forward=(20.0, 1, None), validation=(20.0, 2, None), sampler=(20.0, 1, 20.0), other=(20.0, 1, 10.0))
    line = {
        "file": "/a/m.py", "line": 3, "function": "m", "apart_s": 15.0, "slow_file": "/a/m.py", "slow_line": 9,
        "line_share": 0.9, "title": "operations on whole arrays", "how": "Python visits each.", "runs": 512,
        "runs_sure": "more than",
    }  # fmt: skip
    account = replace(found.watched.account, causes=(Cause(code, 20.0, 15.0, loader, line),))
    change = remedy.propose(replace(found, watched=replace(found.watched, account=account)), [])
    said = "Change m.py:9 (runs more than 510 times an iteration) to operations on whole arrays. Python visits each."
    assert said in change.how
    account = replace(account, causes=(replace(account.causes[0], values={**line, "slow_line": 0}),))
    assert said not in remedy.propose(replace(found, watched=replace(found.watched, account=account)), []).how


def _validating(batch):
    """Validation takes 20 s in 2 passes, and training has batches of 64 samples."""
    found = _seen(forward=(20.0, 1, None), validation=(20.0, 2, None))
    cause = Cause("validation", 20.0, None, 2, {"passes": 2, "batch": batch, "trains": 64})
    return replace(found, watched=replace(found.watched, account=replace(found.watched.account, causes=(cause,))))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"function": "rank"}, "rank, called in eval.py:9"),
        ({"function": "rank", "by": "Task.score"}, "rank, by Task.score in eval.py:9"),
        ({}, "eval.py:9"),
    ],
)
def test_work_besides_the_model_is_said_to_be_a_way_too(more, told):
    run = _validating(64)
    cause = Cause("validation", 20.0, 15.0, 2, {"apart_s": 15.0, "file": "/home/me/eval.py", "line": 9, **more})
    run = replace(run, watched=replace(run.watched, account=replace(run.watched.account, causes=(cause,))))
    assert validation.propose(run, []).how == (
        *validation.HOW, f"Or do the work besides its model at less cost: it took about 15.0 s ({told}).",
    )  # fmt: skip


def test_larger_batches_come_first_where_those_of_validation_are_much_smaller():
    for batch in (1, 8):
        found = validation.propose(_validating(batch), [])
        assert found.title == "validation in larger batches, or half as often" and found.predicted == 40 / 30
        assert found.how[0].startswith(f"Give its loader a larger batch_size: a batch has {batch} here, and 64 in")
    other = validation.propose(_validating(32), [])
    assert other.title == "validation half as often" and other.how[0] == validation.HOW[0]
    assert other.how[1].startswith("Or, first, give its loader a larger batch_size") and other.predicted == 40 / 30


def test_small_parts_of_the_script_are_not_mentioned():
    small = _seen(forward=(97.0, 1, None), validation=(2.0, 2, None), other=(0.5, 1, 0.5), sampler=(0.5, 1, 0.5))
    not_known = _seen(forward=(50.0, 1, None), other=(50.0, 1, None))
    for one in (small, not_known, _seen(), seen(0.5, loader=LOADER)):
        assert [found.propose(one, []) for found in (validation, callbacks, sampler_ahead)] == [None] * 3
