"""A cache of a function: only this one is served, and only if it gives the same for one argument each time."""

import numpy as np
import pytest
import small_worker
import torch
from torch.utils.data import Subset

from pipebench.remedies import cache
from pipebench.watch.record.patches import Patches
from pipebench.watch.trial import memo
from pipebench.watch.trial.edits import Refused, Repeats, edited


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

    def __len__(self):
        return 20


class Names(Calls):
    """Its function gets a name and the place of a window in it."""

    def window(self, name, begin):
        return np.full(4, begin, dtype=np.float32)

    def draws(self, name):
        self.random_draw = torch.rand(1) < 2
        return name

    def begin(self, index):
        return index

    def __getitem__(self, index):
        return self.window("a.wav", self.begin(index)), self.draws("a.wav")


class Windows(Names):
    def begin(self, index):
        return int(self.random.integers(1_000_000))


class Mosaic(Calls):
    def __getitem__(self, index):
        return [self.clean(one) for one in (index, int(self.random.integers(20)))]


TABLE = [0.5, 0.25]
COUNTED = [0]


def table(*sizes):
    return np.asarray(TABLE * 2)


def counted():
    COUNTED.append(len(COUNTED))
    return len(COUNTED)


class Tables(Calls):
    """Its functions get nothing of the sample."""

    def __getitem__(self, index):
        return table(), table(80, 512), self.current(index), counted()

    def current(self, index):
        self.scan = index // 10
        return self.volume()

    def volume(self):
        return np.full(4, self.scan)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(cache, "_FIRST", 2)


def _fetched(dataset, name, *batches, told=None):
    return small_worker.fetched(dataset, cache.edit(name), batches, told=told)


def test_its_first_results_are_served_in_turn_and_all_else_runs(few):
    calls, told = Calls(), []
    found = _fetched(calls, "Calls.clean", [5, 6], [7, 8, 9], told=told)
    assert calls.cleaned == [5, 5] * 2  # two samples are made twice before the first batch
    assert calls.drawn == [5, 5, 6, 6, 5, 6, 7, 8, 9]
    assert [sample[3] for batch in found for sample in batch] == [5, 6, 7, 8, 9]
    assert told == [Repeats(True, 16.0, samples=20)]
    assert calls.clean(3)[0] == 3  # the patches are gone


def test_each_of_the_first_results_is_served_in_turn():
    calls = Calls()
    found = _fetched(calls, "Calls.clean", [*range(8)], [8, 9, 10])
    served = [sample[0][0] for batch in found for sample in batch]
    assert served[:4] == [0, 1, 2, 3] and served[4:] == [0, 0, 7, 7, 0, 1, 2]
    assert calls.cleaned == [one for one in (0, 0, 7, 7, 0, 1, 2, 3) for _ in range(2)]


def test_large_results_are_few(monkeypatch):
    monkeypatch.setattr(cache, "_MOST_BYTES", 16)
    calls = Calls()
    _fetched(calls, "Calls.clean", [5, 6, 7, 8])
    assert calls.cleaned == [5, 5, 5, 5]


class Scenes:
    """One function reads an image and its mask. Of the fourth sample, there is one more."""

    def __init__(self, more=False):
        self.more, self.read_files = more, []

    def __len__(self):
        return 40

    def read(self, name):
        self.read_files.append(name)
        return np.ones((2, 4) if "image" in name else 4)

    def __getitem__(self, index):
        image, mask = self.read(f"{index}_image"), self.read(f"{index}_mask")
        if self.more and index == 4:
            self.read("more_image")
        return image[:, :2].sum(), mask[:2].sum()


def test_an_image_and_its_mask_that_one_function_reads_are_kept_apart(monkeypatch):
    """Three results are as many as fit: an image, a mask, and an image."""
    monkeypatch.setattr(cache, "_MOST_BYTES", 5 * 4 * 8)
    scenes = Scenes()
    told = []
    batches = _fetched(scenes, "Scenes.read", [4, 5, 6], [7, 8], told=told)
    assert [sample for batch in batches for sample in batch] == [(4.0, 2.0)] * 5
    assert len(scenes.read_files) == 2 * 3 and told == [Repeats(True, (8 + 4 + 8) * 8 / 3 * 2, samples=40)]


def test_where_samples_make_different_numbers_of_calls_these_have_no_places():
    state, scenes = cache._State(active=True), Scenes(more=True)
    scenes.read = lambda name: state.serve(lambda one: np.ones((2, 4)), (name,), (name,), {})
    state.ask_again(scenes, [5, 6])
    assert state.per_sample == 2 and {one[0] for one in state.kept} == {0, 1}
    state.ask_again(scenes, [4, 5])
    assert state.per_sample == 1 and not state.kept
    scenes[5]
    assert {one[0] for one in state.kept} == {0}


def test_of_samples_with_different_numbers_of_calls_all_results_must_be_alike():
    with pytest.raises(Refused, match="no-place"):
        _fetched(Scenes(more=True), "Scenes.read", [4, 5], [6])
    with pytest.raises(Refused, match="no-place"):  # which is seen at the end of a batch
        _fetched(Scenes(more=True), "Scenes.read", [3, 4, 5], [6, 7])


def test_a_dataset_within_others_is_found(few):
    calls = Calls()
    _fetched(Subset(calls, range(4)), "Calls.clean", [0, 1, 2, 3])
    assert calls.cleaned == [0, 0] * 2


def test_arguments_that_change_name_no_sample_unless_they_are_indices():
    assert len(_fetched(Names(), "Names.window", [0, 1])) == 1
    with pytest.raises(Refused, match="other-keys"):
        _fetched(Windows(), "Windows.window", [0, 1])
    for whole in (Mosaic(), Subset(Mosaic(), range(4))):
        assert len(_fetched(whole, "Mosaic.clean", [0, 1])) == 1


def test_a_function_that_draws_is_refused_though_it_gives_the_same():
    with pytest.raises(Refused, match="draws-numbers"):
        _fetched(Names(), "Names.draws", [0, 1])


def test_somebody_who_changes_a_result_gets_copies(few):
    class Changing(Calls):
        def __getitem__(self, index):
            found = self.clean(index)
            found += 1
            return found

    told = []
    batches = _fetched(Changing(), "Changing.clean", [0, 1], [2, 3], told=told)
    assert [sample[0] for batch in batches for sample in batch] == [1, 1, 1, 1]
    assert told == [Repeats(True, 16.0, changed=True, samples=20)]


@pytest.mark.parametrize(
    ("name", "problem"),
    [("Calls.draw", "differs-each-time"), ("Calls.of_array", "no-keys"), ("Calls.other", "no-such-stage")],
)
def test_what_no_cache_could_give_is_refused(name, problem):
    with pytest.raises(Refused, match=problem):
        _fetched(Calls(), name, [0, 1])


class Opening(Calls):
    """Its function opens a file, and keeps the size of what it read for the one that crops it."""

    file = None

    def read(self, number):
        if self.file is None:
            self.file = open
        self.size = number
        return np.full(4, number)

    def opened(self, number):
        if self.file is None:
            self.file = self.handle = open
        self.latest = self.shape = number
        return self.clean(number)

    def close(self):
        self.handle.close()

    def last(self):
        if self.file is None:
            self.file = open
        return self.size

    def scan(self, number):
        self.slices = number
        return self.volume()

    def volume(self):
        return np.full(4, self.slices)

    def __getitem__(self, index):
        return self.read(index), self.last(), self.opened(index), self.scan(index)


def test_what_also_sets_what_others_read_is_refused(few):
    """Of a result that is served again, the size would be that of an earlier sample."""
    with pytest.raises(Refused, match="sets-state"):
        _fetched(Opening(), "Opening.read", [0, 1])
    assert (
        len(_fetched(Opening(), "Opening.opened", [0, 1])) == 1
    )  # nobody reads `latest`, each opens the file itself, and `shape` is of something else in a function of the tests
    assert len(_fetched(Opening(), "Opening.scan", [0, 1])) == 1  # what reads it is called by the function alone


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
    assert memo.is_key(argument) is key


@pytest.mark.parametrize(("indices", "once"), [([3, 12, 8], True), ([3, 4, 5], False)])
def test_what_samples_that_are_far_apart_have_in_common_is_made_once(indices, once):
    class Sized(Calls):
        def __getitem__(self, index):
            return table(80, 512), index

    for dataset in (Sized(), Subset(Sized(), range(16))):
        told = []
        _fetched(dataset, "table", indices, told=told)
        assert told == [Repeats(True, 32.0, once, samples=len(dataset))]


def test_a_function_without_arguments_is_made_once_or_not_cached():
    class Plain(Calls):
        def __getitem__(self, index):
            return table(), index

    told = []
    _fetched(Plain(), "table", [0, 19], told=told)
    assert told == [Repeats(True, 32.0, True, samples=20)]
    with pytest.raises(Refused, match="no-keys"):
        _fetched(Plain(), "table", [3, 4])
    for name in ("Tables.volume", "counted"):
        with pytest.raises(Refused, match="differs-each-time"):
            _fetched(Tables(), name, [3, 12])


def test_without_workers_only_the_batches_of_the_changed_loader_are_served(few):
    calls = Calls()
    worker, patches = small_worker.fetcher(calls), Patches()
    edited(worker, [cache.edit("Calls.clean")], patches)
    worker.fetch([0, 1])
    calls.cleaned.clear()
    worker.fetch([7, 8])
    assert calls.cleaned == [] and calls[9][0][0] == 9 and calls.cleaned == [9]
    patches.undo()
