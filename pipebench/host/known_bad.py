"""Releases that are known to be bad, or not to work together, and who says so. This is the one table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Versions = Mapping[str, str]


@dataclass(frozen=True)
class KnownBad:
    """Releases that fail, or cost something: whether they are here, what goes wrong, what helps, and who says so.

    `fails` is false for what works but costs time or memory. `command` can be copied; "" if no one command does it.
    """

    is_here: Callable[[Versions], bool]
    what: str
    remedy: str
    source: str
    command: str = ""
    fails: bool = True


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


def _costs(library: str, first: str, mended: str, what: str, source: str) -> KnownBad:
    """Releases of a library from `first` to before `mended`, which work but cost something."""
    name = {"python": "Python"}.get(library, library)

    def is_here(versions: Versions) -> bool:
        return release(first) <= release(versions.get(library, "")) < release(mended)

    command = "" if library == "python" else f"pip install --upgrade '{library}>={mended}'"
    return KnownBad(is_here, f"{name} before {mended}: {what}", f"use {name} {mended} or newer", source, command, False)


TABLE = (
    KnownBad(
        _opencv_of_numpy_1,
        "this opencv-python is built for NumPy 1, and cannot be imported beside NumPy 2",
        "use opencv-python 4.10.0.84 or newer",
        "https://github.com/opencv/opencv-python/issues/997",
        "pip install --upgrade 'opencv-python>=4.10.0.84'",
    ),
    KnownBad(
        _one_for_cpus_alone,
        "only one of torch and torchvision is a build for CPUs alone, so torchvision lacks its operators",
        "install both from the same index",
        "https://github.com/pytorch/pytorch/issues/122494",
    ),
    _costs(
        "python", "3.14", "3.14.5",
        "the garbage collector frees late, so that each worker may hold several times the memory",
        "https://github.com/python/cpython/issues/142516",
    ),
    _costs(
        "torch", "2.9", "2.10",
        "Conv3d in bfloat16 or under AMP is several times as slow and takes far more memory on CUDA devices",
        "https://github.com/pytorch/pytorch/issues/166122",
    ),
    _costs(
        "torchvision", "0.20", "0.21", "decoding WebP leaks the memory of each image",
        "https://github.com/pytorch/vision/issues/8710",
    ),
    _costs(
        "torchvision", "0.0", "0.26", "decode_jpeg leaks memory on each file that is damaged",
        "https://github.com/pytorch/vision/issues/9383",
    ),
)  # fmt: skip


def known_bad(versions: Versions) -> list[KnownBad]:
    """What of the table is here. `versions` has the libraries by name, as `machine.describe` gives them.

    What fails comes first. With "python" among them, its releases are looked at too.
    """
    return sorted((one for one in TABLE if one.is_here(versions)), key=lambda one: not one.fails)
