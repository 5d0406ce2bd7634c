"""Releases of libraries that are known not to work together, with what their maintainers say. This is the one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Versions = Mapping[str, str]


@dataclass(frozen=True)
class KnownBad:
    """Libraries that do not work together: whether they are those, what goes wrong, what helps, and who says so."""

    is_here: Callable[[Versions], bool]
    what: str
    remedy: str
    source: str


def release(version: str) -> tuple[int, ...]:
    """The numbers of a version, without what follows them.

    >>> release("4.10.0.84"), release("2.13.0+cpu"), release("3.0rc1")
    ((4, 10, 0, 84), (2, 13, 0), (3, 0))
    """
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found[0].split("."))) if found else ()


def _opencv_of_numpy_1(versions: Versions) -> bool:
    opencv, numpy = (release(versions.get(name, "")) for name in ("opencv-python", "numpy"))
    return bool(opencv) and opencv < (4, 10, 0, 84) and numpy >= (2,)


def _one_for_cpus_alone(versions: Versions) -> bool:
    both = [versions.get(name, "") for name in ("torch", "torchvision")]
    return all(both) and len({one.endswith("+cpu") for one in both}) > 1


TABLE = (
    KnownBad(
        _opencv_of_numpy_1,
        "this opencv-python is built for NumPy 1, and cannot be imported beside NumPy 2",
        "pip install --upgrade 'opencv-python>=4.10.0.84'",
        "https://github.com/opencv/opencv-python/issues/997",
    ),
    KnownBad(
        _one_for_cpus_alone,
        "only one of torch and torchvision is a build for CPUs alone, so torchvision lacks its operators",
        "install both from the same index",
        "https://github.com/pytorch/pytorch/issues/122494",
    ),
)


def known_bad(versions: Versions) -> list[KnownBad]:
    """What of the table is here. `versions` has the libraries by name, as `machine.describe` gives them."""
    return [one for one in TABLE if one.is_here(versions)]
