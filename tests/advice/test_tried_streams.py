"""What is tried, and what is only predicted, of a loader over an iterable dataset."""

from dataclasses import replace

import pytest
from made_up_script import MADE, Planted, advice_on, caused
from made_up_trials import LOADER, seen, worker

from pipebench.render import layout
from pipebench.render.advice import parts
from pipebench.results.account import AccountRow, Cause
from pipebench.results.watched import StageResult
from pipebench.stats import Speedup

STREAM = replace(MADE, refusal="iterable")
READS = replace(worker(), storage_bytes_per_s=2e6)


def test_an_iterable_dataset_is_refused():
    advice = advice_on(Planted(lambda order: 1.0, seen(0.7), made=STREAM))
    assert advice.ended == "refused" and advice.refusal == "iterable" and not advice.streamed


def test_what_is_predicted_of_workers_that_need_a_guard_names_it():
    made = replace(STREAM, unguarded=True)
    shown = replace(seen(0.7, num_workers=0), made=made)
    foretold = {str({"num_workers": 2}): Speedup(1.8, 1.6, 2.0, 0.95)}
    advice = advice_on(Planted(lambda order: 1.0, shown, made=made, foretold=foretold))
    assert advice.refusal == "iterable" and advice.followed.reason == "no-main-guard" and advice.followed.change.partly
    told = " ".join(layout.text(parts(advice, None), width=80).split())
    assert "This was not tried: workers would run the script again" in told
    assert "First put what the script runs below `if __name__ == '__main__':`." in told


def test_an_iterable_dataset_is_tried_where_weights_may_be_spoiled_but_for_its_stages():
    shown = replace(seen(0.7), discards=True)
    stage = StageResult("Photos.load", "function", 1, 100, 0.01, 0.7)
    shown = replace(shown, watched=replace(shown.watched, stages=(stage,)))
    for made in (MADE, STREAM):
        run = Planted(lambda order: 2.0 if order.settings == {"prefetch_factor": 8} else 1.0, shown, made=made)
        advice = advice_on(run, 10_000)
        tried = [one for one in run.orders if one.settings is not None]
        assert tried and any(one.edits for one in tried) is (made is MADE)
        assert advice.chosen.change.settings == {"prefetch_factor": 8} and advice.ended == "done"
        assert advice.streamed is (made is STREAM) and advice.discarded and advice.refusal == ""
    assert all(one.discards for one in tried)


@pytest.mark.parametrize(
    ("shown", "refusal"),
    [
        (caused(replace(seen(0.7), discards=True), "storage"), "iterable-read-again"),
        (
            replace(seen(0.7, workers=(replace(worker(), storage_bytes_per_s=2e6),)), discards=True),
            "iterable-read-again",
        ),
        (replace(seen(0.7), discards=True, ranks=2), "iterable-ranks"),
    ],
)
def test_a_stream_is_not_tried_where_a_second_reading_is_no_reading_or_ranks_are_in_step(shown, refusal):
    run = Planted(lambda order: 2.0, shown, made=STREAM)
    assert advice_on(run).refusal == refusal and [one.settings for one in run.orders] == [None]


def test_a_loop_that_makes_a_new_iterator_in_each_step_is_told_to_keep_one_and_nothing_is_tried():
    """Loader 1 is the loop, and loader 2 is asked in it: its iterations are none."""
    both = {1: MADE, 2: replace(MADE, loader=2, line=9)}
    shown = caused(replace(seen(0.7), discards=True, all_made=both), "start-up")
    rows = (AccountRow("start-up", 40.0, 2, 20.0), AccountRow("backward", 40.0, 2))
    account = replace(shown.watched.account, rows=rows, causes=(Cause("new-iterators", 40.0, 20.0, 2),))
    asked = replace(LOADER, loader=2, passes=50, iterations=0, s_per_iteration=None)
    loaders = (replace(LOADER, training=False), asked)
    run = Planted(lambda order: 2.0, replace(shown, watched=replace(shown.watched, account=account, loaders=loaders)))
    advice = advice_on(run)
    assert (advice.ended, advice.refusal) == ("refused", "new-iterators")
    assert [one.settings for one in run.orders] == [None]
    found = {one.change.remedy: one for one in advice.findings}["one_iterator"]
    assert found.change.predicted == pytest.approx(80 / 60) and found.change.at.line == 9
    told = " ".join(layout.text(parts(advice, None), width=80).split())
    assert told.startswith(
        "One iterator for all steps could make the loops at most 1.33× as fast (predicted, not tried)."
    )
    assert "yield from loader" in told and "so its iterations say little: keep one, and advise again." in told


def test_more_workers_of_a_stream_that_is_not_divided_are_not_tried():
    """Each would give all samples: twice the batches, of the same samples."""
    shown = replace(seen(0.7, loader=replace(LOADER, undivided=True)), discards=True)
    run = Planted(lambda order: 2.0, shown, made=STREAM)
    advice = advice_on(run, 10_000)
    assert not any("num_workers" in one.settings for one in run.orders if one.settings)
    reasons = {one.reason for one in advice.findings if "num_workers" in one.change.settings}
    assert reasons == {"iterable-undivided"}


def test_what_cannot_be_tried_is_predicted_rung_by_rung():
    """An iterable dataset: nothing is ordered, and the advice is the fewest workers of nearly the best prediction."""
    gains = {4: 1.9, 8: 3.4, 16: 3.45, 32: 3.45}
    told = {f"{{'num_workers': {one}}}": Speedup(gain, 0.8 * gain, 1.2 * gain, 0.95) for one, gain in gains.items()}
    run = Planted(lambda order: 1.0, seen(0.7), made=STREAM, foretold=told)
    advice = advice_on(run)
    assert [one.settings for one in run.orders] == [None] and advice.ended == "refused" and advice.chosen is None
    assert advice.followed.change.settings == {"num_workers": 8} and advice.followed.predicted.speedup == 3.4
    assert [one.change.settings["num_workers"] for one in advice.findings] == [4, 8, 16]
    assert {one.outcome for one in advice.findings} == {"not-tried"}
    unknown = advice_on(Planted(lambda order: 1.0, seen(0.7), made=STREAM))
    assert unknown.followed is None and not unknown.findings
