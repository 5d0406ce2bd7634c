"""A loader that a script makes anew for each pass is known again, and no other is taken for it."""

import sys
import types

import pytest
import torch
from fakes import Loader, Script, World

from pipebench.watch.script.training_device import TrainingDevice
from pipebench.watch.trial import patching
from pipebench.watch.trial.patching import Makers


class Data:
    pass


class Made:
    """A loader, as far as `Makers` looks at it. It tells of itself at the end of its constructor."""

    def __init__(self, makers, length):
        self.length, self.batch_size, self.dataset = length, 4, Data()
        makers.made(self)

    def __len__(self):
        return self.length


def _recording(write):
    return types.SimpleNamespace(write=write, settings=types.SimpleNamespace(shared=""))


def _makers():
    return Makers(_recording(lambda line: None), {})


def _helper(makers, length):
    return Made(makers, length)


def test_a_loader_made_anew_is_known_by_its_kind_whatever_function_makes_it(monkeypatch):
    monkeypatch.setattr("pipebench.watch.trial.patching._refusal", lambda loader, whole: "")
    monkeypatch.setattr("pipebench.watch.trial.patching.length_of", len)
    makers, later = _makers(), []
    for number in range(2):
        train = _helper(makers, 100)
        same_length = _helper(makers, 100)
        other_lengths = [_helper(makers, length) for length in (100, 10)]
        loaders = [train, same_length, *other_lengths]
        if number == 0:
            makers.numbers.update({one: place for place, one in enumerate(loaders, 1)})
            for one in loaders:
                makers.iterated(one)
        later = loaders
    for place, one in enumerate(later, 1):
        assert [makers.has_number(one, number) for number in (1, 2, 3, 4)] == [
            number == place for number in (1, 2, 3, 4)
        ]


@pytest.mark.parametrize(
    "file",
    [
        "torchdata/stateful_dataloader.py",
        "lightning/fabric/utilities/data.py",  # Lightning calls train_dataloader() with a function around constructors
        "lightning_fabric/utilities/data.py",
    ],
)
def test_the_place_of_a_loader_is_the_users_call_also_where_a_library_calls_the_constructor(monkeypatch, file):
    monkeypatch.setattr("pipebench.watch.trial.patching._refusal", lambda loader, whole: "")
    monkeypatch.setattr("pipebench.watch.trial.patching.length_of", lambda loader: 3)
    written, library = [], {}
    text = "class Loader:\n    def __init__(self, makers): self.batch_size, self.dataset = 4, makers.made(self)"
    exec(compile(text, f"/v/{file}", "exec"), library)
    makers = Makers(_recording(written.append), {})
    loader, line = library["Loader"](makers), sys._getframe().f_lineno
    makers.numbers[loader] = 1
    makers.iterated(loader)
    assert (written[0].file, written[0].line) == (__file__, line)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_changed_loader_serves_only_the_loader_of_which_it_is_a_copy(tmp_path, monkeypatch, persistent):
    world = World()
    script = Script(tmp_path, monkeypatch, Loader(world, [[one] for one in range(20)]))
    script.order(1, {"persistent_workers": persistent, "num_workers": 3}, by="passes")
    for _ in range(6):
        script.loader = Loader(world, [[one] for one in range(20)])
        before = len(script.opened)
        assert script.one_pass() == [[one] for one in range(20)]
        assert "changed" not in {name for name, _ in world.made} or len(script.opened) == before + 1
        world.made.clear()
    if persistent:
        (failed,) = script.failures
        assert failed.problem == "new-loader-each-pass" and script.opened[0]._iterator.ended
        assert not [one for one in script.windows if one.changed]
    else:
        assert not script.failures and any(one.changed for one in script.windows)


def test_the_loader_of_one_of_several_ranks_is_tried_only_with_all_of_them(monkeypatch):
    loader = torch.utils.data.DataLoader([1, 2])
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert [patching._refusal(loader, whole) for whole in (False, True)] == ["", ""]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert [patching._refusal(loader, whole) for whole in (False, True)] == ["ranks", ""]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")  # the other is on another machine
    assert patching._refusal(loader, True) == "ranks"


def test_a_loader_made_after_the_recording_has_the_number_of_its_kind(monkeypatch):
    monkeypatch.setattr("pipebench.watch.trial.patching._refusal", lambda loader, whole: "")
    monkeypatch.setattr("pipebench.watch.trial.patching.length_of", len)
    makers, numbers = _makers(), []
    for turn in range(2):
        made = _helper(makers, 100)
        if not turn:
            makers.numbers[made] = 7
            makers.iterated(made)
        numbers.append(makers.number_of(made))
    assert numbers == [7, 7]
    assert makers.number_of(_helper(makers, 100)) is None  # made by another call


def _elsewhere(make):
    return make("train")


@pytest.mark.parametrize(
    ("make", "others"),
    [
        (lambda make: [make(one) for one in ("train", "val")], 1),
        (lambda make: [make(one) for one in ("train", "train")], 0),  # made again
        (lambda make: [make("train"), _elsewhere(make)], 1),  # by another call: it may be for something else
        (lambda make: [make("train")], 0),
    ],
)
def test_other_loaders_of_a_place_count_before_they_are_iterated(monkeypatch, make, others):
    monkeypatch.setattr("pipebench.watch.trial.patching._refusal", lambda loader, whole: "")
    monkeypatch.setattr("pipebench.watch.trial.patching.length_of", len)
    written, data = [], {"train": Data(), "val": Data()}
    makers = Makers(_recording(written.append), {})

    def one(name):
        made = _helper(makers, 100)
        made.dataset = data[name]
        return made

    loaders = make(one)
    makers.numbers[loaders[0]] = 1
    makers.iterated(loaders[0])
    assert [one.others for one in written] == [others]


@pytest.mark.parametrize(("workers", "may", "unguarded"), [(0, False, True), (0, True, False), (2, False, False)])
def test_a_loader_without_workers_tells_whether_it_may_start_some(monkeypatch, workers, may, unguarded):
    monkeypatch.setattr("pipebench.watch.trial.arms.may_start", lambda loader: may)
    written, loader = [], torch.utils.data.DataLoader([1, 2], num_workers=workers)
    makers = Makers(_recording(written.append), {loader: 1})
    makers.made(loader)
    makers.iterated(loader)
    assert [one.unguarded for one in written] == [unguarded]


class Wrapping(torch.utils.data.DataLoader):
    def _get_iterator(self):
        return map(list, super()._get_iterator())


@pytest.mark.parametrize(
    ("kind", "refusal"), [(Wrapping, "own-iterator"), (torch.utils.data.DataLoader, "")], ids=["own", "torch's"]
)
def test_a_loader_with_an_iterator_around_torchs_is_not_tried(tmp_path, kind, refusal):
    written, numbers = [], {}
    settings = types.SimpleNamespace(folder=str(tmp_path), shared="")
    recording = types.SimpleNamespace(settings=settings, write=written.append, fault=None, before_stop=[], on=True)
    trying = patching.Trying(recording, numbers, lambda: None, TrainingDevice())
    trying.watch(torch.utils.data.dataloader)
    try:
        loader = kind(range(4))
        numbers[loader] = 1
        iter(loader)
    finally:
        trying.patches.undo()
    assert [one.refusal for one in written] == [refusal]
