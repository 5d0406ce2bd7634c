"""A function behind an `lru_cache` that holds too little gets a larger one; what holds enough is left alone."""

import functools
import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest
import small_worker
from made_up_trials import seen

from pipebench.advise.snippet import written
from pipebench.advise.trial import Trial, cache_of
from pipebench.remedies import cache, kept
from pipebench.remedies.decorated import decorated
from pipebench.results.drilled import DrilledLine, DrilledRow
from pipebench.results.watched import StageResult
from pipebench.watch.record.trial_lines import LoaderMade, TrialRepeats
from pipebench.watch.trial.asked import Asked
from pipebench.watch.trial.edits import Refused, Repeats

READ, CLEARED = [], []


@functools.lru_cache(maxsize=2)
def load_day(day):
    READ.append(day)
    return np.full(4, day)


@functools.cache
def table(day):
    return np.full(4, day)


class Days:
    """Forty windows of each of five days."""

    def __len__(self):
        return 200

    def __getitem__(self, index):
        CLEARED.append((load_day.cache_info(), load_day.cache_parameters()["maxsize"]))
        return load_day(index // 40)[0], table(index // 40)[0]


class Wide(Days):
    """One window of each day."""

    def __getitem__(self, index):
        return load_day(index)[0]


@pytest.fixture(autouse=True)
def _empty():
    READ.clear()
    CLEARED.clear()
    load_day.cache_clear()


def _fetched(dataset, name, batches, told):
    return small_worker.fetched(dataset, cache.edit(name), batches, told=told)


def _shuffled(size, passes=1):
    draw = random.Random(3)
    order = [one for _ in range(passes) for one in draw.sample(range(200), 200)]
    return [order[place : place + size] for place in range(0, len(order), size)]


def _seen(*rows, **changed):
    made_up = seen(**changed)
    stages = tuple(
        StageResult(name, "function", 1, 800, 0.01 * share, share, whole_share=whole, holds=holds)
        for name, share, whole, holds in rows
    )
    return replace(made_up, watched=replace(made_up.watched, stages=stages), discards=True)


def test_a_bounded_cache_is_made_larger():
    change = cache.propose(_seen(("load_day", 0.6, 0.6, 4), persistent_workers=True), [])
    assert change.title == "a larger lru_cache of load_day" and change.cost == "memory in each worker"
    assert change.how == ("Its lru_cache holds 4 results: give it maxsize=None, or as many as a worker asks for.",)
    assert change.edits == {"cache": {"name": "load_day"}} and not change.partly
    ends = cache.propose(_seen(("load_day", 0.6, 0.6, 1)), [])
    assert ends.how == (cache.HOW_LARGER.format("1 result"), cache.AND_PERSISTENT) and ends.partly


def test_a_cache_without_a_bound_needs_no_other_and_neither_does_what_it_calls():
    rows = [("load_day", 0.1, 0.5, "all"), ("decode", 0.4, 0.4, None), ("clean", 0.45, 0.45, None)]
    assert cache.propose(_seen(*rows), []).title == "a cache of clean"
    assert cache.propose(_seen(*rows[:2]), []) is None  # it may lie within the other


def test_the_trial_calls_the_function_without_its_own_cache_which_still_answers():
    told = []
    _fetched(Days(), "load_day", [[0, 1, 199]], told)
    assert READ == [0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0, 4, 4]  # each call is made twice, also of samples made twice
    assert CLEARED[-1] == ((0, 0, 2, 0), 2)
    assert told == [Repeats(True, 32.0, samples=200)]
    assert isinstance(load_day, functools._lru_cache_wrapper)
    CLEARED.clear()


def test_what_holds_all_results_is_refused():
    with pytest.raises(Refused, match="holds-all"):
        _fetched(Days(), "table", [[0, 1]], [])
    with pytest.raises(Refused, match="holds-all"):
        _fetched(_bounded(5), "Bounded.day", _shuffled(20), [])
    assert len(_fetched(_bounded(4), "Bounded.day", _shuffled(20), [])) == 10


def _bounded(most):
    class Bounded(Days):
        @functools.lru_cache(most)  # noqa: B019
        def day(self, day):
            return np.full(4, day)

        def __getitem__(self, index):
            return self.day(index // 40)[0]

    return Bounded()


def test_few_arguments_are_counted_once_the_latest_samples_stand_for_all(monkeypatch):
    monkeypatch.setattr(cache.time, "perf_counter", itertools.count().__next__)  # a call takes a second
    monkeypatch.setattr(cache, "_workers", lambda: 2)
    told = []
    _fetched(Days(), "load_day", _shuffled(20), told)
    first = Repeats(True, 32.0, samples=200, copies=2)
    quiet = [20, 40, 80, 160]  # samples after the first batch, which asks for all five days
    assert told == [first, *(replace(first, enough=2 * (5 + math.ceil(600 / n)), sample_s=1.0) for n in quiet)]
    told.clear()
    in_order = [[*range(place, place + 20)] for place in range(0, 200, 20)]
    _fetched(Days(), "load_day", in_order, told)
    assert [one.enough for one in told] == [0]
    told.clear()
    _fetched(Wide(), "load_day", _shuffled(20), told)
    assert [one.enough for one in told] == [0]


def test_samples_stand_for_all_if_they_come_from_everywhere_and_ask_for_nothing_new():
    known = Asked()

    def batch(*indices, ask=()):
        for one in ask:
            known.call((one,))
        known.batch(indices, 80)
        return known.settled()

    assert not batch(*range(0, 80, 10), ask=["a", "b"])
    assert not batch(*range(0, 40, 5))  # of one half of the dataset
    assert batch(45, 55, 65, 75) and known.unseen(80) == 20
    assert not batch(*range(0, 80, 10))  # not yet twice as many
    assert not batch(5, ask=["a", "c"]) and len(known.keys) == 3
    assert not batch(*range(0, 80, 10), ask=[[]])  # what has no hash is new each time


def test_figures_of_a_worker_that_knows_how_many_there_are_stay():
    run = Trial(1, [])
    for line in (
        TrialRepeats(1, True, 8.0), TrialRepeats(1, True, 8.0, enough=9, sample_s=0.5),
        TrialRepeats(1, True, 9.0, changed=True), TrialRepeats(1, True, 9.0, samples=7),
    ):  # fmt: skip
        run.hear(line)
    assert run.repeats == TrialRepeats(1, True, 9.0, changed=True, samples=7, enough=9, sample_s=0.5)
    run.hear(TrialRepeats(1, True, 9.0, enough=8, sample_s=0.4))
    assert (run.repeats.enough, run.repeats.sample_s) == (8, 0.4)


def test_a_cache_takes_no_more_than_what_is_asked_for_and_each_worker_has_its_own():
    figures = _seen(("load_day", 0.5, 0.5, 4))
    figures = replace(figures, batches=100, settings={"num_workers": 2, "batch_size": 10})
    figures = replace(figures, loader=replace(figures.loader, sample_s=0.02))
    change = cache.propose(figures, [])
    found = cache_of(figures, TrialRepeats(1, True, 8.0, samples=1000, enough=60, sample_s=0.5, copies=2), change)
    assert (found.samples, found.fill_s) == (60, 30.0)
    for enough in (0, 1000):
        told = TrialRepeats(1, True, 8.0, samples=1000, enough=enough, sample_s=0.5, copies=2)
        found = cache_of(figures, told, change)
        assert (found.samples, found.fill_s) == (2000, pytest.approx(10.0))  # they are filled at the same time
    assert cache_of(figures, TrialRepeats(1, True, 8.0, once=True, copies=2), change).samples == 1


@pytest.mark.parametrize(
    ("decorator", "after", "holds"),
    [
        ("@lru_cache(maxsize=4)", "@lru_cache(maxsize=None)", 4),
        ("@lru_cache(4)", "@lru_cache(maxsize=None)", 4),
        ("@functools.lru_cache(4, True)", "@functools.lru_cache(None, True)", 4),
        ("@functools.lru_cache(typed=True, maxsize=4)", "@functools.lru_cache(typed=True, maxsize=None)", 4),
        ("@lru_cache", None, 128),
        ("@lru_cache()", None, 128),
        ("@lru_cache(maxsize=None)", None, None),
        ("@lru_cache(DAYS)", None, None),
    ],
)
def test_the_number_in_the_decorator_is_replaced(tmp_path, monkeypatch, decorator, after, holds):
    monkeypatch.chdir(tmp_path)
    text = f"import functools\nfrom functools import lru_cache\n\n{decorator}\ndef load_day(path):\n    return path\n"
    (tmp_path / "train.py").write_text(text + "DataLoader(1)\n")
    made = LoaderMade(1, str(tmp_path / "train.py"), 7, 7, 0, 13, "main", 10)
    figures = replace(_seen(("Days.load_day", 0.6, 0.6, 4), persistent_workers=True), made=made)
    found = decorated(figures, "Days.load_day")
    assert found.holds == holds and (found.place.line, found.place.name) == (4, "load_day")
    change = cache.propose(figures, [])
    assert change.at == found.place and bool(change.rewrites) is (after is not None)
    if after is not None:
        assert f"-{decorator}\n+{after}\n" in written(made, change).diff


def test_a_file_that_looks_have_found_is_read_and_several_functions_of_one_name_are_left_alone(tmp_path):
    module = tmp_path / "days.py"
    text = "from functools import lru_cache\n@lru_cache(3)\ndef load_day(path):\n    return path\n"
    module.write_text(text)
    line = DrilledLine(str(module), "load_day", 4, "", "", 70, 0.9, 0.8, 1.0)
    figures = _seen(num_workers=0, wait_share=0.6)
    rows = (DrilledRow(1, "Cases.__getitem__", "getitem", 0.9, 100, 0, (line,)),)
    figures = replace(figures, watched=replace(figures.watched, drilled=rows))
    assert cache.propose(figures, []).title == "a larger lru_cache of load_day"  # without workers, it has no row
    module.write_text(text + text)
    assert cache.propose(figures, []).title == "a cache of load_day"
    module.write_text(text.replace("functools", "mine"))
    assert decorated(figures, "load_day") is None


def test_what_a_cached_function_opens_is_left_to_a_larger_cache():
    line = DrilledLine("train.py", "load_day", 7, "", "with zipfile.ZipFile(path) as one:", 100, 0.9, 0.9, 0.9)
    rows = (DrilledRow(1, "load_day", "function", 0.8, 200, 0, (line,)),)
    figures = _seen(("load_day", 0.8, 0.8, 4))
    assert kept.propose(replace(figures, watched=replace(figures.watched, drilled=rows)), []) is None
    plain = _seen(("load_day", 0.8, 0.8, None))
    assert (
        kept.propose(replace(plain, watched=replace(plain.watched, drilled=rows)), []).title == "zipfile.ZipFile kept"
    )
