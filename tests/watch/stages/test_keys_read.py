"""Which keys of a sample a function reads."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from pipebench.watch.stages.keys_read import keys_read


def _pair(sample: dict[str, Any]) -> Any:
    image = sample["jpg"]
    for _ in range(2):
        image = image.upper()
    return image, sample.get("cls", 0), "depth" in sample


def _two(scale: float, sample: dict[str, Any], crop: Any = None) -> Any:
    other = sample["lr.png"]
    return crop(scale, sample["hr.png"]) if crop else (other, scale)


def _in_a_comprehension(sample: dict[str, Any]) -> Any:
    return [sample[name] for name in ("jpg", "cls")]


def _of_any(sample: dict[str, Any], name: str = "jpg") -> Any:
    return sample[name]


def _all(sample: dict[str, Any]) -> Any:
    return {name: value for name, value in sample.items() if name != "png"}


def _gives_it_on(sample: dict[str, Any]) -> Any:
    sample["image"] = sample["jpg"]
    return sample


def _hands_it_over(sample: dict[str, Any]) -> Any:
    return _pair(sample)


def _renamed(sample: dict[str, Any]) -> Any:
    one = sample
    return one["jpg"]


def _replaced(sample: dict[str, Any]) -> Any:
    sample = dict(jpg=sample["jpg"])
    return sample["jpg"]


def _by_locals(sample: dict[str, Any]) -> Any:
    return sample["jpg"], locals()


def _several(*samples: dict[str, Any]) -> Any:
    return samples[0]["jpg"]


def _none(sample: dict[str, Any]) -> int:
    return 1


class _Made:
    def __call__(self, sample: dict[str, Any]) -> Any:
        return self.of(sample["jpg"]), sample["json"]

    def of(self, image: Any) -> Any:
        return image

    def method(self, sample: dict[str, Any]) -> Any:
        return self.of(sample["png"])


class _Inherits(_Made):
    pass


@pytest.mark.parametrize(
    ("function", "keys"),
    [
        (_pair, {"jpg", "cls"}),
        (functools.partial(_two, 0.5), {"lr.png", "hr.png"}),
        (functools.partial(_two, 0.5, crop=max), {"lr.png", "hr.png"}),
        (lambda sample: (sample["jpg"], sample["json"]["use"]), {"jpg", "json"}),
        (_Made(), {"jpg", "json"}),
        (_Inherits(), {"jpg", "json"}),
        (_Made().method, {"png"}),
        (_none, set()),
        (_two, None),
        (_in_a_comprehension, None),
        (_of_any, None),
        (_all, None),
        (_gives_it_on, None),
        (_hands_it_over, None),
        (_renamed, None),
        (_replaced, None),
        (_by_locals, None),
        (_several, None),
        (dict, None),
        (len, None),
        (None, None),
        (_Made, None),
    ],
)
def test_the_keys_that_a_function_asks_for(function: Any, keys: set[str] | None) -> None:
    assert keys_read(function) == keys
