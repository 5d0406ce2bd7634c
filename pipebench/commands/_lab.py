"""The packages that only the lab needs, which come with an extra: what is missing is said before anything begins."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from pipebench.errors import PipebenchError, install

LAB = ("torch", "torchvision")


def need_lab(command: str) -> None:
    """Raises `PipebenchError` if a package of the lab is missing. Nothing is imported."""
    lacks = [name for name in LAB if find_spec(name) is None]
    if lacks:
        raise not_installed(lacks, f"pipebench {command}")


def not_installed(names: Iterable[str], what: str = "this command") -> PipebenchError:
    """The error for packages of the lab that are missing."""
    return PipebenchError(
        f"{what} needs {' and '.join(names)}, which pipebench alone does not bring",
        f"{install('lab')}, in an environment of its own if the packages of this one must stay as they are",
    )
