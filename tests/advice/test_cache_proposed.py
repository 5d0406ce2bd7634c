"""When a cache of a function is offered, and what it is said to take and to gain in a run."""

from dataclasses import replace

import pytest
from made_up_trials import LOADER, seen

from pipebench.advise import judging, trial
from pipebench.remedies import cache
from pipebench.remedies.seen import function_s
from pipebench.results.advice import Cache, Change, Finding
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import StageResult
from pipebench.stats import Speedup
from pipebench.watch.record.trial_lines import TrialRepeats


def _seen(*rows, discards=True, **changed):
    """Each row: name, kind, share of its own, and share with what is inside (absent: not known)."""
    made_up = seen(**changed)
    stages = tuple(
        StageResult(name, kind, 1, 800, 0.01 * share, share, whole_share=whole[0] if whole else None)
        for name, kind, share, *whole in rows
    )
    return replace(made_up, watched=replace(made_up.watched, stages=stages), discards=discards)


def test_costly_functions_are_offered_the_largest_first():
    found = _seen(("a", "function", 0.3), ("b", "function", 0.5), ("c", "function", 0.1), ("d", "decode", 0.9))
    first = cache.propose(found, [])
    assert first.title == "a cache of b" and first.predicted == pytest.approx(2.0) and first.discards
    second = cache.propose(found, [Finding(first, "no-gain")])
    assert second.title == "a cache of a"
    assert cache.propose(found, [Finding(first, "no-gain"), Finding(second, "gain")]) is None


def test_nothing_is_offered_if_weights_are_kept_or_the_loop_does_not_wait():
    rows = [("a", "function", 0.9)]
    assert cache.propose(_seen(*rows, discards=False), []) is None
    assert cache.propose(_seen(*rows, num_workers=0, wait_share=0.01), []) is None
    assert cache.propose(_seen(*rows, wait_share=0.01, cores=8.0), []) is None
    assert LOADER.workers == 2 and cache.propose(_seen(*rows, wait_share=0.01), []) is not None  # they compete


def test_a_function_counts_with_what_it_calls_and_holds_others():
    rows = [
        ("loader", "function", 0.01, 0.81),
        ("pil_loader", "function", 0.05, 0.8),
        ("ImageFile.load", "decode", 0.75),
        ("apart", "function", 0.18, 0.18),
    ]
    made_up = _seen(*rows)
    folder = replace(made_up, loader=replace(LOADER, dataset="ImageFolder"))
    first = cache.propose(folder, [])
    assert first.title == "a cache of loader" and first.predicted == pytest.approx(1 / 0.19)
    assert first.how == cache.HOW_OF_FOLDERS and cache.propose(made_up, []).how == cache.HOW
    refused = Finding(first, "not-tried", reason="no-keys")
    assert cache.propose(folder, [refused]).title == "a cache of pil_loader"
    tried = Finding(first, "no-gain", Speedup(1.0, 0.9, 1.1, 0.95))
    assert cache.propose(folder, [tried]) is None  # what else there is may lie within it
    alone = _seen(("loader", "function", 0.7, 0.72), rows[3])
    assert cache.propose(alone, [tried]).title == "a cache of apart"


@pytest.mark.parametrize(
    ("start_method", "how"),
    [("fork", cache.HOW_OF_FOLDERS), ("spawn", cache.HOW_UNFORKED), ("forkserver", cache.HOW_UNFORKED)],
)
def test_workers_that_are_not_forked_are_not_told_to_share_what_each_would_get_a_copy_of(start_method, how):
    made_up = _seen(("loader", "function", 0.8, 0.8))
    folder = replace(made_up, loader=replace(LOADER, dataset="ImageFolder", start_method=start_method))
    assert cache.propose(folder, []).how == how
    other = replace(folder, loader=replace(folder.loader, dataset="Photos"))
    assert cache.propose(other, []).how == (cache.HOW if start_method == "fork" else cache.HOW_UNFORKED)


@pytest.mark.parametrize(("free", "fits"), [(None, True), (10e9, True), (9e9, False)])
def test_a_cache_is_advised_only_if_free_memory_holds_it(free, fits):
    change = cache.propose(_seen(("a", "function", 0.7)), [])
    gained = Finding(change, "gain", Speedup(2.0, 1.8, 2.2, 0.95), (2.0, 2.0, 2.0), cache=Cache(8e6, 1000, free))
    assert gained.advisable is fits


def test_what_a_cache_gains_in_a_run_depends_on_its_passes():
    """One process makes 1,000 results of 10 ms each; a pass takes 4 s, and 2 s with the cache."""
    figures = replace(_seen(("a", "function", 0.5)), batches=100, settings={"num_workers": 2, "batch_size": 10})
    figures = replace(figures, loader=replace(figures.loader, sample_s=0.02))
    kept = trial.cache_of(figures, TrialRepeats(1, True, 8.0), cache.propose(_seen(("a", "function", 0.7)), []))
    assert (kept.samples, kept.fill_s) == (1000, pytest.approx(10.0))
    ranks = replace(figures, free_bytes=8000.0, ranks=4)
    shared = trial.cache_of(ranks, TrialRepeats(1, True, 8.0), cache.propose(_seen(("a", "function", 0.7)), []))
    assert shared.free_bytes == 8000  # those of a rank
    part = TrialRepeats(1, True, 8.0, samples=5000)  # in time, it has all that are drawn
    assert trial.cache_of(figures, part, cache.propose(_seen(("a", "function", 0.7)), [])).samples == 5000
    split = replace(part, samples=1500)
    assert trial.cache_of(figures, split, cache.propose(_seen(("a", "function", 0.7)), [])).samples == 1000
    few = TrialRepeats(1, True, 8.0, samples=40)  # of which a sampler draws each more than once
    assert trial.cache_of(figures, few, cache.propose(_seen(("a", "function", 0.7)), [])).samples == 40
    change = cache.propose(_seen(("a", "function", 0.7)), [])
    gained = Finding(change, "gain", Speedup(2.0, 1.0, 4.0, 0.95), cache=replace(kept, pass_s=4.0))
    assert gained.after(5).speedup == pytest.approx(20 / (10 + 10))
    assert gained.after(10**6).low == pytest.approx(1.0, abs=1e-4)
    assert gained.after(10).high == pytest.approx(40 / (10 + 10))
    whole = replace(gained, run=Speedup(1.6, 1.0, 2.0, 0.95))
    assert whole.after(10).speedup == pytest.approx(40 / (10 + 25))
    assert replace(gained, cache=replace(kept, fill_s=None)).after(10) is None
    assert replace(gained, cache=replace(kept, once=True)).after(1) is gained.gain
    workers = Finding(Change("num_workers", {"num_workers": 8}), "gain", Speedup(1.5, 1.4, 1.6, 0.95))
    assert judging.best([workers, gained]) == 0  # in ten passes, the cache gains 1.33
    assert judging.best([workers, replace(gained, cache=replace(kept, fill_s=1.0, pass_s=4.0))]) == 1


def test_a_loader_without_workers_may_have_a_cache():
    """The loop waits for 0.6 of its time, and the function takes half of that."""
    figures = _seen(("Calls.clean", "function", 0.5), num_workers=0, wait_share=0.6)
    change = cache.propose(figures, [])
    assert change.predicted == pytest.approx(1 / (1 - 0.6 * 0.5))
    assert cache.propose(replace(figures, discards=False), []) is None


def test_without_workers_looks_find_the_functions_that_have_no_row():
    """Lines of `load_case` are 0.7 of `__getitem__`, which is 0.9 of the time."""

    def line(function, share):
        return DrilledLine("train.py", function, 40, "", "", 70, share, share - 0.1, share + 0.1)

    lines = (line("load_case", 0.5), line("Cases.__getitem__", 0.2), line("load_case", 0.2), line("<lambda>", 0.1))
    rows = (DrilledRow(1, "Cases.__getitem__", "getitem", 0.9, 100, 0, lines),)
    figures = _seen(("Cases.__getitem__", "getitem", 0.9), num_workers=0, wait_share=0.6)
    figures = replace(figures, watched=replace(figures.watched, drilled=rows))
    change = cache.propose(figures, [])
    assert change.edits == {"cache": {"name": "load_case"}}
    assert change.predicted == pytest.approx(1 / (1 - 0.6 * 0.63))
    figures = replace(figures, loader=replace(figures.loader, sample_s=0.02))
    assert function_s(figures, "load_case", 100) == pytest.approx(100 * 0.02 * 0.63)
    with_workers = replace(figures, settings={**figures.settings, "num_workers": 2})
    assert cache.propose(with_workers, []) is None
    other = replace(figures, watched=replace(figures.watched, drilled=(replace(rows[0], loader=2),)))
    assert cache.propose(other, []) is None
