"""What is built on this machine: a C compiler, and the headers of Python and of libjpeg-turbo."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from pipebench.doctor.checking import check, fine, know
from pipebench.doctor.host import Host
from pipebench.results.examination import Finding
from pipebench.units import printable

_PACKAGES = {"a C compiler": "gcc libc6-dev", "Python.h": "python3-dev", "jpeglib.h": "libjpeg-dev"}
_COMPILE, _CROP = "torch.compile", "the region decoder"
_FOR = {  # what needs each of them
    "a C compiler": f"{_COMPILE} and {_CROP} need a C compiler",
    "Python.h": f"{_COMPILE} needs Python.h",
    "jpeglib.h": f"{_CROP} needs jpeglib.h",
}
_FOLDERS = ("usr/include", "usr/local/include", "usr/include/*-linux-*")


@check
def compiler(host: Host) -> Finding:
    missing = list(_missing(host))
    if not missing:
        return fine(f"{_compiler(host)}, Python.h and jpeglib.h are there")
    needed = "; ".join(_FOR[one] for one in missing)
    return know(
        f"missing: {', '.join(missing)}",
        f"{needed[:1].upper()}{needed[1:]}.",
        "install them",
        f"sudo apt-get install {' '.join(_PACKAGES[one] for one in missing)}" if _has(host, "apt-get") else "",
    )


def _missing(host: Host) -> Iterator[str]:
    if _compiler(host) is None:
        yield "a C compiler"
    if not (host.include / "Python.h").is_file():
        yield "Python.h"
    named = [Path(one) for one in host.environ.get("CPATH", "").split(os.pathsep) if one]
    there = [*named, *(found for pattern in _FOLDERS for found in host.root.glob(pattern))]
    if not any((one / "jpeglib.h").is_file() for one in there):
        yield "jpeglib.h"


def _has(host: Host, program: str) -> bool:
    return shutil.which(program, path=host.environ.get("PATH", "")) is not None


def _compiler(host: Host) -> str | None:
    """The name of the compiler that is used: `$CC`, else the first of cc, gcc and clang."""
    chosen = shlex.split(host.environ.get("CC", ""))[:1]
    for name in chosen or ["cc", "gcc", "clang"]:
        if _has(host, name):
            return printable(name)
    return None
