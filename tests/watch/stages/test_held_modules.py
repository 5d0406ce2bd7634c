"""Modules that a dataset holds in the script's process have rows, and neither they nor their class change."""

from __future__ import annotations

import copy
import importlib
import pickle
from typing import Any

import pytest
import torch
from fetched_rows import CLOCK
from torch.utils.data import Dataset

from pipebench.watch.record.patches import Patches
from pipebench.watch.script.transfers import COMPILING, watch_compiling
from pipebench.watch.stages.held_modules import HeldModules, _Forward


class Tones(torch.nn.Module):
    def __init__(self, ns: int) -> None:
        super().__init__()
        self.ns = ns

    def forward(self, sample: Any, more: int = 0) -> Any:
        CLOCK.burn(self.ns)
        return sample + more


class Mel(Tones):
    """What another module holds."""


class Front(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mel = Mel(1000)

    def forward(self, sample: Any) -> Any:
        CLOCK.burn(100)
        return self.mel(sample)


class Sounds(Dataset[int]):
    def __init__(self) -> None:
        self.front, self.tones, self.louder, self.acts = Front(), Tones(30), Tones(7), torch.nn.Identity()
        self.does: Any = None

    def __len__(self) -> int:
        return 8

    def __getitem__(self, sample: int) -> int:
        CLOCK.burn(5)
        if self.does is not None:
            self.does()
        return self.acts(self.louder(self.tones(self.front(sample)), more=0))


def test_these_very_objects_have_rows(rows: Any) -> None:
    sounds, models, call = Sounds(), Tones(3), Tones.__call__
    sounds.does = lambda: models(1)  # a module of the same class that the dataset does not hold
    found = rows(sounds, may_change=False).found()
    assert {name: ns for (kind, name), ns in found.items() if kind == "transform"} == {
        "Front": 8 * 100, "Mel": 8 * 1000, "Tones (1 of 2)": 8 * 30, "Tones (2 of 2)": 8 * 7,
    }  # fmt: skip
    assert found["getitem", "Sounds.__getitem__"] == 8 * (5 + 3)
    assert Tones.__call__ is call and "forward" not in vars(Tones(1)) and "__call__" not in vars(Tones)
    assert not any("forward" in vars(one) for one in (sounds.front, sounds.tones, sounds.louder))


def test_a_fetch_that_fails_leaves_none_behind(rows: Any) -> None:
    sounds = Sounds()
    watched = rows(sounds, may_change=False)
    sounds.does = lambda: {}["no"]
    with pytest.raises(KeyError):
        watched.fetch([1])
    assert "forward" not in vars(sounds.tones)


@pytest.fixture
def begun() -> Any:
    tones = Tones(30)
    held = HeldModules([(tones, 3)])
    held.begin()
    assert type(tones.forward) is _Forward
    yield tones
    held.end()
    assert "forward" not in vars(tones)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_works_with_what_it_has_itself(begun: Any, copied: Any) -> None:
    other = copied(begun)
    other.ns = 500
    before = CLOCK.now
    assert other(1, more=2) == 3
    assert CLOCK.now - before == 500
    assert begun(1) == 1 and CLOCK.now - before == 530


def test_what_is_asked_of_its_forward_is_that_of_its_class(begun: Any) -> None:
    assert begun.forward.__func__ is Tones.forward and begun.forward.__self__ is begun
    assert begun.forward(3) == 3 and [*begun.state_dict()] == []


def test_what_has_a_forward_of_its_own_is_left_alone() -> None:
    own, compiled, scripted = Tones(1), Tones(1), torch.jit.script(torch.nn.ReLU())
    own.forward = lambda sample: sample  # type: ignore[method-assign]
    compiled._compiled_call_impl = lambda sample: sample  # type: ignore[assignment]
    held = HeldModules([(own, 1), (compiled, 1), (scripted, 1)])
    held.begin()
    assert type(own.forward) is not _Forward and "forward" not in vars(compiled)
    assert type(vars(scripted).get("forward")) is not _Forward
    held.end()


def test_where_a_dataset_compiles_its_modules_they_have_no_rows(rows: Any) -> None:
    seen: list[Any] = []

    def kept(graph: Any, inputs: Any) -> Any:
        seen.append("forward" in vars(sounds.tones))
        return graph.forward

    sounds = Sounds()
    fast = torch.compile(lambda x: sounds.acts(x) + 1, backend=kept, fullgraph=True)
    sounds.does = lambda: fast(torch.ones(2))
    patches = Patches()
    watch_compiling(patches, importlib.import_module(COMPILING))
    found = rows(sounds, may_change=False)
    patches.undo()
    assert seen == [False] and "forward" not in vars(sounds.tones)
    assert not found.sums.modules._rows
