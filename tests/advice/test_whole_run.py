"""What a gain of a loop means for the whole run, with made-up accounts."""

from dataclasses import replace

import pytest
from made_up_trials import LOADER, seen

from pipebench.advise.trial import cache_of
from pipebench.advise.whole_run import of_run, pass_s, share
from pipebench.results.account import Account, AccountRow
from pipebench.results.advice import Change
from pipebench.stats import Speedup
from pipebench.watch.record.trial_lines import TrialRepeats


def _with(found, *rows):
    return replace(found, watched=replace(found.watched, account=Account(100.0, rows)))


def test_what_lies_between_the_settled_iterations_stays_as_it_is():
    """10 passes of 20 iterations of 0.1 s, 1 s of start-up each; validation and checkpoints take 1 s after each."""
    loader = replace(LOADER, passes=10, iterations=190, later_startup_s=0.8, pass_end_s=0.2)
    found = _with(
        seen(batches=20, loader=loader), AccountRow("validation", 6.3, 2), AccountRow("outside-loops", 2.7),
        AccountRow("before-loops", 50.0), AccountRow("forward", 10.0, 1),
    )  # fmt: skip
    assert share(found, "windows") == pytest.approx(0.5) and share(found, "passes") == pytest.approx(0.75)
    assert pass_s(found) == pytest.approx(4.0)  # 2 s, and 1 s each for workers and for the rest: what a cache fills in
    filled = cache_of(found, TrialRepeats(1, True, 8.0), Change("cache", {}, edits={"cache": {"name": "get"}}))
    assert filled.pass_s == pytest.approx(4.0)
    told = of_run(Speedup(2.0, 1.5, 4.0, 0.95), 0.5)
    assert (told.speedup, told.low, told.high) == pytest.approx((1 / 0.75, 1.2, 1.6))


def test_a_loop_that_leaves_its_passes_early_has_the_iterations_that_it_made():
    left = replace(LOADER, passes=6, iterations=55, later_startup_s=1.0)
    assert share(seen(batches=1000, loader=left), "windows") == pytest.approx(0.5)
    assert share(seen(batches=10, loader=left), "windows") == pytest.approx(0.5)


def test_what_windows_say_of_first_workers_is_not_known_for_the_run_if_each_pass_starts_them():
    """Passes of 20 s of a loader that is made anew in each. Workers that live on start once."""
    found = seen(batches=200, loader=replace(LOADER, passes=5, iterations=950, again=4), num_workers=0)
    first = {"num_workers": 2}
    assert share(found, "windows", first) is None and share(found, "passes", first) == pytest.approx(1.0)
    assert share(found, "windows", {"pin_memory": True}) is not None
    once = replace(found, loader=replace(found.loader, again=0))
    assert share(once, "windows", first | {"persistent_workers": True}) is not None
    assert share(replace(found, batches=2000, loader=replace(found.loader, iterations=9500)), "windows", first)


def test_start_up_of_one_long_pass_weighs_as_little_as_it_does_in_the_whole_pass():
    long = replace(LOADER, passes=1, iterations=40, startup_s=1.0)
    assert share(seen(batches=990, loader=long), "windows") == pytest.approx(0.99)
    assert (
        share(seen(batches=None, loader=long), "windows") is None and of_run(Speedup(2.0, 1.5, 4.0, 0.95), None) is None
    )
