"""Whose code a transform is: the row of a user's own can be divided into lines, that of a library's cannot."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torchvision.transforms import Resize, v2

from pipebench.watch.record.exclusive_time import Stages
from pipebench.watch.record.own_code import users_class, users_function
from pipebench.watch.record.patches import Patches, unseen
from pipebench.watch.stages import in_place


class Own:
    def __call__(self, x: Any) -> Any:
        return x

    def half(self, x: Any) -> Any:
        return x / 2


class Inherited(Own): ...


class Layer(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x


class OwnOfV2(v2.Transform):
    def transform(self, inpt: Any, params: Any) -> Any:
        return inpt


class Large(Resize):
    def __init__(self) -> None:
        super().__init__(512)


def double(x: Any) -> Any:
    return 2 * x


@unseen
@functools.wraps(double)
def wrapped(x: Any) -> Any:
    return double(x)


@pytest.mark.parametrize(
    "one", [Own(), Inherited(), Layer(), OwnOfV2(), double, wrapped, Own().half, functools.partial(double, 1), Own]
)
def test_what_the_user_has_written_is_the_users(one: Any) -> None:
    assert users_function(one)


@pytest.mark.parametrize(
    "one",
    [
        Resize(8),
        v2.RandomCrop(8),
        Large(),
        torch.nn.Conv2d(1, 1, 1),
        torch.relu,
        int,
        len,
        functools.partial(int, base=8),
    ],
)
def test_what_a_library_has_written_is_not(one: Any) -> None:
    assert not users_function(one)


def test_a_row_stays_one_row_while_its_function_is_timed() -> None:
    rows, patches = Stages(), Patches(lambda where, error: None)
    before = rows.of_transform(double)
    in_place.watch(double, before, patches)
    try:
        rows._of.clear()
        assert rows.of_transform(double) == before
    finally:
        patches.undo()
    assert [(one.stage.name, one.stage.own) for one in rows.take_new()][1:] == [("double", True)]


def test_objects_of_one_class_are_the_users_each() -> None:
    rows, objects = Stages(), [Own(), Own(), Resize(8)]
    rows.tell_apart(objects)
    own = {key.name: key.own for key in rows.known if rows.of_transform(objects[0]) and key.kind == "transform"}
    assert own == {"Own (1 of 2)": True, "Own (2 of 2)": True}
    assert not users_class(type(objects[2]))
