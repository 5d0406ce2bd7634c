"""fastai makes a `Transform` of each function: its row has the function's name, and a user's class has its own."""

from __future__ import annotations

import functools
import types
from typing import Any

import pytest
from fetched_rows import CLOCK

from pipebench.watch.record.patches import Patches
from pipebench.watch.record.wrapping import Wrapped, wrapped_function
from pipebench.watch.script.made import Makers, watch_fastai


class Dispatch:
    """What fasttransform holds a function in, and older fastcores, by its types."""

    def __init__(self, function: Any) -> None:
        self.funcs = types.SimpleNamespace(d={int: types.SimpleNamespace(d={object: function})})


class Function:
    __slots__ = ("_f",)
    __module__ = "plum._function"

    def __init__(self, function: Any) -> None:
        self._f = function


class Transform:
    """fastai's class, cut down: `__call__` is inherited by all, and calls `encodes`."""

    __module__ = "fasttransform.transform"

    def __init__(self, enc: Any = None, holder: Any = Function) -> None:
        if enc is None:
            return
        self._name = getattr(enc, "__qualname__", type(enc).__name__)
        if not hasattr(enc, "__name__"):
            f = enc

            def wrapped_enc(*args: Any) -> Any:
                return f(*args)

            wrapped_enc.__name__ = self._name
            enc = wrapped_enc
        self.encodes, self.own = holder(enc), enc

    def __call__(self, x: Any) -> Any:
        return (self.own if hasattr(self, "own") else self.encodes)(x)


class RandTransform(Transform):
    __module__ = "fastai.vision.augment"

    def __call__(self, x: Any) -> Any:
        return super().__call__(x)


class Darker(RandTransform):
    def encodes(self, x: Any) -> Any:
        CLOCK.burn(500)
        return x


class Brighter(Transform):
    def encodes(self, x: Any) -> Any:
        CLOCK.burn(70)
        return x


def grayer(x: Any) -> Any:
    CLOCK.burn(3)
    return x


def smaller(size: int, x: Any) -> Any:
    CLOCK.burn(11)
    return x


class L:
    def __init__(self, *items: Any) -> None:
        self.items = [*items]


class Pipeline:
    """Its attributes have the names of the classes, as in fastai."""

    def __init__(self, *steps: Any) -> None:
        self.fs = L(*steps)
        self.transform = L(*(one for one in steps if type(one) is Transform))

    def __call__(self, x: Any) -> Any:
        for step in self.fs.items:
            x = step(x)
        return x


class Items:
    def __init__(self, *steps: Any) -> None:
        self.after_item = Pipeline(*steps)

    def __getitem__(self, index: int) -> Any:
        return self.after_item(index)


@pytest.fixture
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those stand-ins count as a library's: the file says whose a function is."""
    plain = Transform.__call__.__code__
    for kind in (Transform, RandTransform):
        for function in [one for one in vars(kind).values() if isinstance(one, types.FunctionType)]:
            own = function.__code__
            ours = own.replace(co_filename="/x/site-packages/fasttransform/transform.py")
            monkeypatch.setattr(function, "__code__", ours)
    assert Transform.__call__.__code__ is not plain


@pytest.mark.parametrize("may_change", [True, False])
def test_rows_have_the_names_of_the_users_functions_and_classes(rows: Any, libraries: None, may_change: bool) -> None:
    steps = Darker(), Transform(grayer), Brighter(), Transform(functools.partial(smaller, 8))
    found = rows(Items(*steps), may_change=may_change).found()
    spent = {name: ns for (kind, name), ns in found.items() if kind == "transform"}
    assert spent == {"Darker": 8 * 500, "grayer": 8 * 3, "Brighter": 8 * 70, "smaller": 8 * 11}


def test_the_function_within_is_found_in_what_each_version_holds_it_in() -> None:
    def inner(x: Any) -> Any:
        return x

    for holder in (Function, Dispatch):
        assert wrapped_function(Transform(grayer, holder)) == Wrapped("grayer", True)
        assert wrapped_function(Transform(functools.partial(smaller, 8), holder)) == Wrapped("smaller", True)
        assert wrapped_function(Transform(inner, holder)) == Wrapped("inner", True)
        assert wrapped_function(Transform(functools.partial(int, base=8), holder)) == Wrapped("int", False)
    assert wrapped_function(Darker()) is None and wrapped_function(3) is None


def test_a_loader_of_fastais_is_made_in_the_users_line() -> None:
    class FakeLoader:
        def __init__(self, d: Any, num_workers: int) -> None:
            self.dataset, self.d, self.num_workers = self, d, num_workers

    patches, makers = Patches(), Makers()
    plain = FakeLoader.__init__
    watch_fastai(patches, makers, types.SimpleNamespace(_FakeLoader=FakeLoader))
    one = FakeLoader([1], num_workers=2)
    first = makers.calls(one)[0]
    assert first[0] == __file__ and one.num_workers == 2
    patches.undo()
    assert FakeLoader.__init__ is plain
