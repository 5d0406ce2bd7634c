"""A cache of a function: only this one is served, and only if it gives the same for one argument each time."""

from dataclasses import replace

import numpy as np
import pytest
import small_worker
from made_up_trials import LOADER, seen
from torch.utils.data import Subset

from pipebench.remedies import cache
from pipebench.results.advice import Finding
from pipebench.results.watched import StageResult
from pipebench.watch.trial.edits import Refused, Repeats


class Calls:
    def __init__(self):
        self.cleaned, self.drawn = [], []
        self.random = np.random.default_rng(3)

    def clean(self, number):
        self.cleaned.append(number)
        return np.full(4, number, dtype=np.float32)

    def draw(self, number):
        self.drawn.append(number)
        return number + self.random.random()

    @staticmethod
    def of_array(values):
        return values * 2

    def __getitem__(self, index):
        return self.clean(index), self.draw(index), self.of_array(np.zeros(2)), index


def _fetched(dataset, name, *batches, told=None):
    return small_worker.fetched(dataset, cache.edit(name), batches, told=told)


def test_its_first_results_are_served_and_all_else_runs():
    calls, told = Calls(), []
    found = _fetched(calls, "Calls.clean", [5, 6], [7, 8, 9], told=told)
    assert calls.cleaned == [5, 5, 6, 6] and calls.drawn == [5, 6, 7, 8, 9]
    assert [sample[3] for batch in found for sample in batch] == [5, 6, 7, 8, 9]
    assert [sample[0][0] for batch in found for sample in batch] == [5, 6, 6, 6, 6]
    assert told == [Repeats(True, 16.0)]
    assert calls.clean(3)[0] == 3  # the patches are gone


def test_a_dataset_within_others_is_found():
    calls = Calls()
    _fetched(Subset(calls, range(4)), "Calls.clean", [0, 1, 2, 3])
    assert calls.cleaned == [0, 0, 1, 1]


def test_somebody_who_changes_a_result_gets_copies():
    class Changing(Calls):
        def __getitem__(self, index):
            found = self.clean(index)
            found += 1
            return found

    first, *later = (sample[0] for batch in _fetched(Changing(), "Changing.clean", [0, 1, 2, 3]) for sample in batch)
    assert [first, *later] == [1, 2, 2, 2]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("Calls.draw", "differs-each-time"), ("Calls.of_array", "no-keys"), ("Calls.other", "no-such-stage")],
)
def test_what_no_cache_could_give_is_refused(name, problem):
    with pytest.raises(Refused, match=problem):
        _fetched(Calls(), name, [0, 1])


@pytest.mark.parametrize(
    ("argument", "key"),
    [
        (3, True),
        ("a.wav", True),
        ((1, "a"), True),
        (np.int64(3), True),
        ((), False),
        (np.zeros(2), False),
        ([1], False),
    ],
)
def test_keys_are_numbers_and_names(argument, key):
    assert cache._is_key(argument) is key


def _seen(*rows, discards=True, **changed):
    made_up = seen(**changed)
    stages = tuple(StageResult(name, kind, 1, 800, 0.01 * share, share) for name, kind, share in rows)
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
    assert cache.propose(_seen(*rows, num_workers=0), []) is None
    assert cache.propose(_seen(*rows, wait_share=0.01, cores=8.0), []) is None
    assert LOADER.workers == 2 and cache.propose(_seen(*rows, wait_share=0.01), []) is not None  # they compete
