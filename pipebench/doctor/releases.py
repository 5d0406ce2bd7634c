"""Versions: whether torch and torchvision belong together, and releases that are known to be bad."""

from __future__ import annotations

import re

from pipebench.doctor.checking import check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.host.known_bad import known_bad
from pipebench.results.examination import Finding
from pipebench.units import printable

_TOGETHER = "pip install --upgrade torch torchvision"
_CLAUSE = re.compile(r"(==|!=|<=|>=|<|>)\s*(\d[\w.*+]*)")


@check
def torch_and_torchvision(host: Host) -> Finding:
    torch, vision = host.answer("torch"), host.answer("torchvision")
    own, other = (printable(host.versions.get(one, "of an unknown version")) for one in ("torch", "torchvision"))
    matters, remedy = "Scripts fail when they import it.", "install both in one go, from one index, so that they match"
    if not torch:
        return know("torch is not installed", "This is not the Python that trains, so its libraries tell little.",
                    "activate the environment that trains, and run `pipebench doctor` there")  # fmt: skip
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
    found = known_bad(known)
    if not found:
        return fine("none that is known to be bad")
    worst = found[0]
    more = "".join(f"; {one.what} ({one.source})" for one in found[1:])
    told = hurts if worst.fails else know
    return told(worst.what + more, f"See {worst.source}.", worst.remedy, worst.command)
