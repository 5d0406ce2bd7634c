"""A changed loader is a copy of the script's: it leaves alone what the script's own loader has."""

import gc
import sys
import time
import types
import weakref

import pytest
import torch
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pipebench.watch.trial import arms, passes
from pipebench.watch.trial.dealing import Deal
from pipebench.watch.trial.session import Trial
from pipebench.watch.trial.stretches import Clock


class Infinite(DataLoader):
    """It holds its iterator, and ends it when it ends itself."""

    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.iterator, self.ended, self.asked = super().__iter__(), [], []

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)

    def _get_iterator(self):
        vars(self).setdefault("asked", []).append(type(self).__name__)
        return super()._get_iterator()

    def __del__(self):
        self.ended.append("iterator" in vars(self))


def _copy(loader, **settings):
    return arms.changed(loader, settings, False)


def test_a_copy_has_no_iterator_of_the_scripts_and_does_nothing_at_its_end():
    loader = Infinite(range(12), batch_size=4)
    copy = _copy(loader, num_workers=0)
    assert isinstance(copy, Infinite) and "iterator" not in vars(copy) and copy._iterator is None
    del copy
    gc.collect()
    assert loader.ended == [] and [one.tolist()[0] for one in loader] == [0, 4, 8]
    ended = loader.ended
    del loader
    gc.collect()
    assert ended == [True]


def test_what_the_class_of_a_loader_changes_holds_for_a_copy_too():
    loader = Infinite(range(12), batch_size=4)
    deal = Deal(iter(loader._index_sampler))
    arm = arms.opened(_copy(loader), deal, DataLoader.__iter__, _BaseDataLoaderIter.__next__)
    arm.begin()
    assert [arm.draw().tolist()[0] for _ in range(3)] == [0, 4, 8] and loader.asked == ["Infinite"]


class Opened(torch.utils.data.Dataset):
    """It opens what it reads when it is first needed."""

    def __init__(self):
        self.numbers = None

    def __len__(self):
        return 12

    def __getitem__(self, index):
        self.numbers = self.numbers or list(range(12))
        return self.numbers[index]


def _first(loader):
    arm = arms.opened(loader, Deal(iter(loader._index_sampler)), DataLoader.__iter__, _BaseDataLoaderIter.__next__)
    arm.begin()
    return arm.draw().tolist()


@pytest.mark.parametrize(
    "around", [lambda one: one, lambda one: torch.utils.data.Subset(one, range(12)), lambda one: one + Opened()]
)
def test_without_workers_a_copy_of_the_dataset_makes_the_batches(around):
    """What it opens in the script's own process stays with it: workers that are forked later do not share it."""
    inner = Opened()
    loader = DataLoader(around(inner), batch_size=4, num_workers=2, persistent_workers=True)
    found = _copy(loader, num_workers=0, persistent_workers=False)
    assert _first(found) == [0, 1, 2, 3] and inner.numbers is None
    assert found.dataset is not loader.dataset and type(found.dataset) is type(loader.dataset)
    assert _copy(loader, num_workers=1).dataset is loader.dataset
    assert _copy(DataLoader(inner, batch_size=4), num_workers=0).dataset is inner  # the script's own has no workers


def test_a_dataset_that_cannot_be_copied_is_not_tried_without_workers():
    class Alone(Opened):
        def __copy__(self):
            raise TypeError("there is one connection")

    loader = DataLoader(Alone(), batch_size=4, num_workers=2)
    with pytest.raises(arms.CannotTry, match="own-process"):
        _copy(loader, num_workers=0)


class Eager:
    """A batch sampler that draws its order as soon as it is iterated, not at its first batch."""

    def __iter__(self):
        return iter(torch.randperm(12).view(3, 4).tolist())

    def __len__(self):
        return 3


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("persistent", [False, True])
def test_a_pass_of_a_changed_loader_begins_the_sampler_and_draws_as_torch_does(workers, persistent):
    """Of persistent workers, the first pass is torch's own: it starts them."""
    persistent = persistent and workers > 0
    how = {
        "num_workers": workers,
        "persistent_workers": persistent,
        "multiprocessing_context": "fork" if workers else None,
    }
    found = []
    for changed in (False, True):
        torch.manual_seed(7)
        loader, orders = DataLoader(range(12), batch_sampler=Eager(), **how), []
        for turn in range(3):
            if changed and not (persistent and turn == 0):
                orders.append(list(passes._index_lists(loader)))
            else:
                orders.append([one.tolist() for one in loader])
        found.append((orders, torch.rand(1).item()))
    assert found[0] == found[1]


def _left_alone(recording_of, loader):
    """The trial of a script that has taken one batch from `loader`."""
    trial = Trial(recording_of, lambda loader, number: True, lambda: None, Clock(time.perf_counter, lambda: None))
    iterator = trial.iterate(loader, DataLoader.__iter__, _BaseDataLoaderIter.__next__)
    return trial, iterator


def _one(trial, iterator):
    return trial.batch(iterator, _BaseDataLoaderIter.__next__, DataLoader.__iter__).tolist()


@pytest.fixture
def recording(tmp_path):
    settings = types.SimpleNamespace(folder=str(tmp_path), shared="")
    return types.SimpleNamespace(settings=settings, write=lambda line: None, fault=None)


def test_a_loader_that_holds_its_iterator_ends_with_its_last_name(recording):
    """Without a look for cycles: then, torch waits in vain for workers whose queues have ended before."""
    loader = DataLoader(range(8), batch_size=4)
    trial, loader.iterator = _left_alone(recording, loader)
    assert _one(trial, loader.iterator) == [0, 1, 2, 3] and trial.loader_of(loader.iterator) is loader
    ended = weakref.ref(loader.iterator)
    gc.disable()
    try:
        del loader
        assert ended() is None
    finally:
        gc.enable()


def test_a_loader_that_only_its_loop_holds_is_known(recording):
    trial, iterator = _left_alone(recording, DataLoader(range(8), batch_size=4))
    assert _one(trial, iterator) == [0, 1, 2, 3] and trial.loader_of(iterator) is not None


class Around:
    """An object around torch's iterator, which is not known to torch."""

    __slots__ = ("iterator",)

    def __init__(self, iterator):
        self.iterator = iterator


class Wrapping(DataLoader):
    def _get_iterator(self):
        return Around(super()._get_iterator())


def test_an_iterator_around_torchs_is_left_alone(recording):
    trial, around = _left_alone(recording, Wrapping(range(8), batch_size=4))
    assert isinstance(around, Around) and trial.number_at(around.iterator) is None
    assert trial.loader_of(around.iterator) is None and _one(trial, around.iterator) == [0, 1, 2, 3]


def test_each_copy_has_random_numbers_of_its_own():
    """Else the samples of every pass would be cropped and flipped alike."""
    loader = DataLoader(range(8), batch_size=4)
    seeds = {_copy(loader).generator.initial_seed() for _ in range(5)}
    assert len(seeds) == 5 and torch.initial_seed() not in seeds


def test_one_thread_is_left_also_where_the_scripts_own_init_sets_more(monkeypatch):
    """Its trial had as many threads as the present loader, and gained nothing."""
    told = []
    monkeypatch.setattr("pipebench.watch.record.thread_pools.limit_to_one", lambda: told.append("one"))
    monkeypatch.setattr("os.environ", {})
    arms.OneThread(lambda worker: told.append(f"own {worker}"))(3)
    assert told == ["one", "own 3", "one"]
    arms.OneThread(None)(3)
    assert told[3:] == ["one"]


@pytest.mark.parametrize(
    ("method", "text", "tried"),
    [
        ("fork", "train()", True),
        ("spawn", "train()", False),
        ("forkserver", "train()", False),
        ("spawn", "if __name__ == '__main__':\n    train()", True),
        ("spawn", "if '__main__' == __name__:\n    train()", True),
        ("spawn", "train(", True),  # it is not for us to say why it cannot be read
    ],
)
def test_workers_that_would_run_the_script_again_are_not_started(method, text, tried, tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    script.write_text(text)
    monkeypatch.setitem(sys.modules, "__main__", types.SimpleNamespace(__file__=str(script)))
    context = types.SimpleNamespace(get_start_method=lambda allow_none=False: method)
    loader = DataLoader(range(12), batch_size=4)
    vars(loader)["_DataLoader__multiprocessing_context"] = context
    assert arms.may_start(loader) is tried
    if tried:
        assert _copy(loader, num_workers=2).num_workers == 2
    else:
        with pytest.raises(arms.CannotTry, match="no-main-guard"):
            _copy(loader, num_workers=2)


def test_seeds_of_a_changed_loader_are_drawn_on_the_default_device(monkeypatch):
    asked = []
    plain = torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda device="cpu": asked.append(str(device)) or plain("cpu"))
    with torch.device("meta"):
        _copy(DataLoader(range(12), batch_size=4), num_workers=2)
    assert asked == ["meta"]
