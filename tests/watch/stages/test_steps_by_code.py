"""The steps of a transform of the user's own are found in whatever style it is written."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from pipebench.watch.record.patches import Patches
from pipebench.watch.stages.finding_transforms import _transforms, watch_tree


class Blur:
    def __call__(self, image: Any) -> Any:
        return image


class Crop(Blur):
    pass


def double(image: Any) -> Any:
    return image


class ByName:
    def __init__(self) -> None:
        self.blur, self.crop, self.unused, self.double, self.size = Blur(), Crop(), Blur(), double, 3

    def __call__(self, image: Any) -> Any:
        return self.double(self.crop(self.blur(image)))[: self.size]


class Looped:
    def __init__(self, *chain: Any) -> None:
        self.chain = chain

    def __call__(self, image: Any) -> Any:
        for step in self.chain:
            image = step(image)
        return image


STYLES = {
    "attributes": ({"transform": ByName()}, ["ByName", "Blur", "Crop"]),
    "a loop over a tuple": ({"transform": Looped(Blur(), double)}, ["Looped", "Blur", "double"]),
    "nested": ({"transform": Looped(Looped(Blur()), Crop())}, ["Looped", "Looped", "Crop", "Blur"]),
    "a dict": ({"aug": {"image": Blur(), "mask": Crop()}}, ["Blur", "Crop"]),
    "a partial": ({"transform": functools.partial(double, Blur())}, ["double"]),
}


@pytest.mark.parametrize("style", STYLES)
def test_steps_are_found_in_every_style(style: str) -> None:
    held, wanted = STYLES[style]
    found = [one for _, _, one, _ in _transforms(SimpleNamespace(**held), [])]
    named = [getattr(getattr(one, "func", one), "__name__", type(one).__name__) for one in found]
    assert named == wanted


def test_a_transform_whose_class_is_written_in_c_is_left_as_it_is() -> None:
    cached = functools.lru_cache(double)
    dataset, patches = SimpleNamespace(transform=Looped(cached, Blur())), Patches()
    watch_tree(dataset, patches, may_change=True)
    patches.undo()
    assert dataset.transform.chain[0] is cached
