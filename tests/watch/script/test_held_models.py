"""The neural networks of a dataset are those modules that have parameters, wherever it holds them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from pipebench.watch.script.described import _makes_batches
from pipebench.watch.script.held_models import held_models


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)


class Scaled(nn.Module):
    """A transform: what it holds is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1))


class Held(Dataset[Any]):
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(1)


elsewhere = nn.Linear(1, 1)


class Global(Held):
    def __getitem__(self, index: int) -> Any:
        return elsewhere(torch.zeros(1))


def test_modules_with_parameters_are_named_with_their_parts() -> None:
    found = held_models(Held(teacher=nn.Sequential(Block()), scaled=Scaled(), path="a", numbers=[1, 2]))
    assert found == ["Block", "Conv2d", "Sequential", "teacher"]


def test_a_class_that_also_is_a_transform_is_left_out() -> None:
    found = held_models(Held(teacher=nn.Sequential(Block()), transform=nn.Sequential(Scaled())))
    assert found == ["Block", "Conv2d", "teacher"]


def test_they_are_found_in_wrappers_lists_and_globals() -> None:
    assert "teacher" in held_models(Subset(Held(teacher=Block()), [0]))
    assert "models" in held_models(Held(models=[Block(), Block()]))
    assert held_models(Global()) == ["Linear", "elsewhere"]
    assert held_models(Held()) == [] and held_models(object()) == [] and held_models([1, 2]) == []


def test_a_dataset_of_whole_batches_runs_its_model_for_these() -> None:
    assert _makes_batches(DataLoader(Held(), batch_size=4))
    assert _makes_batches(DataLoader(Held(), batch_sampler=[[0, 1]]))
    assert not _makes_batches(DataLoader(Held(), batch_size=None))


class Unusual:
    """Asked for its class, or for anything else, it runs code of its own."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class Slotted:
    __slots__ = ("model",)


def test_no_code_of_the_script_runs() -> None:
    held = Held(strange=Unusual(), slotted=Slotted(), teacher=Block())
    assert held_models(held) == ["Block", "Conv2d", "teacher"]
