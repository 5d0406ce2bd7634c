"""Versions: whether torch and torchvision belong together, and releases that are known to be bad."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipebench.doctor.checking import check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.results.examination import Finding
from pipebench.units import printable

_TOGETHER = "pip install --upgrade torch torchvision"
_CLAUSE = re.compile(r"(==|!=|<=|>=|<|>)\s*(\d[\w.*+]*)")


@dataclass(frozen=True)
class _Bad:
    """Releases of a library from `first` to before `mended`, and what is wrong with them."""

    library: str
    first: str
    mended: str
    problem: str
    source: str


_KNOWN_BAD = (
    _Bad("python", "3.14.0", "3.14.5", "the garbage collector frees late, so that each worker may hold several times "
         "the memory", "github.com/python/cpython/issues/142516"),
    _Bad("torch", "2.9.0", "2.10.0", "Conv3d in bfloat16 or under AMP is several times as slow and takes far more "
         "memory on CUDA devices", "github.com/pytorch/pytorch/issues/166122"),
    _Bad("torchvision", "0.20.0", "0.21.0", "decoding WebP leaks the memory of each image",
         "github.com/pytorch/vision/issues/8710"),
    _Bad("torchvision", "0.0.0", "0.26.0", "decode_jpeg leaks memory on each file that is damaged",
         "github.com/pytorch/vision/issues/9383"),
)  # fmt: skip


@check
def torch_and_torchvision(host: Host) -> Finding:
    torch, vision = host.answer("torch"), host.answer("torchvision")
    own, other = (printable(host.versions.get(one, "of an unknown version")) for one in ("torch", "torchvision"))
    matters, remedy = "Scripts fail when they import it.", "install both in one go, from one index, so that they match"
    if error := torch.get("error"):
        return hurts(f"torch {own} cannot be imported: {_first_line(error)}", matters, remedy, _TOGETHER)
    if error := vision.get("error"):
        said = f"torchvision {other} does not work with torch {own}: {_first_line(error)}"
        return hurts(said, matters, remedy, _TOGETHER)
    if not vision:
        return fine(f"torch {own}, no torchvision")
    if wanted := _unmet(host):
        said = f"torchvision {other} asks for torch {wanted}, and torch is {own}"
        return know(said, "Operators of torchvision may fail, or crash a worker.", remedy, _TOGETHER)
    return fine(f"torch {own}, torchvision {other}")


def _first_line(error: object) -> str:
    """The first line of a message in at most 200 characters."""
    return printable(next(iter(str(error).splitlines()), ""))[:200]


def _unmet(host: Host) -> str:
    """What torchvision requires of torch and does not get; empty if it gets it."""
    for line in host.pair:
        if re.match(r"torch\b(?!\w)", line) and "extra ==" not in line:
            wanted = line.partition(";")[0].removeprefix("torch").strip(" ()")
            return "" if _met(host.versions.get("torch", ""), wanted) else wanted
    return ""


def _met(version: str, wanted: str) -> bool:
    """Whether a version keeps every clause. Of `==2.9.0` the build (`+cpu`) does not count."""
    have = _parts(version)
    found = {"==": have.__eq__, "!=": have.__ne__, "<=": have.__le__, ">=": have.__ge__,
             "<": have.__lt__, ">": have.__gt__}  # fmt: skip
    return all(found[how](_parts(than)) for how, than in _CLAUSE.findall(wanted) if "*" not in than)


def _parts(version: str) -> tuple[int, int, int]:
    numbers = [int(one) for one in re.findall(r"\d+", version.partition("+")[0])[:3]]
    first, second, third = (*numbers, 0, 0, 0)[:3]
    return first, second, third


@check
def releases(host: Host) -> Finding:
    known = {**host.versions, "python": host.python}
    found = list(_bad(known))
    if not found:
        return fine("none that is known to be bad")
    worst = found[0]
    name = "Python" if worst.library == "python" else worst.library
    more = "".join(
        f"; {one.library} {printable(known[one.library])}: {one.problem} ({one.source})" for one in found[1:]
    )
    return know(
        f"{name} {printable(known[worst.library])}: {worst.problem}{more}",
        f"See {worst.source}.",
        f"use {name} {worst.mended} or newer",
        "" if worst.library == "python" else f"pip install --upgrade '{worst.library}>={worst.mended}'",
        **{one.library: known[one.library] for one in found},
    )


def _bad(known: dict[str, str]) -> Iterator[_Bad]:
    for one in _KNOWN_BAD:
        if one.library in known and _parts(one.first) <= _parts(known[one.library]) < _parts(one.mended):
            yield one
