"""The threads that libraries start by themselves, against the cores that may be used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from pipebench.doctor.checking import check, fine, hurts, know
from pipebench.doctor.host import Host
from pipebench.results.examination import Finding
from pipebench.units import counted, printable

_OF_OPENCV = "OPENCV_FOR_THREADS_NUM"
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", _OF_OPENCV)
_VARIABLE_OF = {"torch": "OMP_NUM_THREADS", "OpenCV": _OF_OPENCV}


@check
def threads(host: Host) -> Finding:
    cores = math.ceil(host.cores)
    started = _started(host)
    facts: dict[str, float | str] = {name: number for name, number in started.items()}
    too_many = {name: number for name, number in started.items() if number > cores}
    if too_many:
        return hurts(
            f"{_named(too_many)}; {counted(cores, 'core')} may be used",
            "Threads that share a core take turns on it, and each parallel step waits for the last of them.",
            "set the number of threads",
            f"export {' '.join(_settings(too_many, cores))}",
            **facts,
        )
    if wrong := [name for name in _VARIABLES if not _right(host.environ.get(name, "1"))]:
        values = ", ".join(f"{name}={printable(host.environ[name])}" for name in wrong)
        return know(f"{values} is no number of threads", "Libraries ignore it, each in its way.", "give a number",
                    f"export {' '.join(_settings(wrong, cores))}")  # fmt: skip
    if cores > 1 and started.get("OpenCV", 1) > 1:
        return _in_each_worker(host, started, facts)
    for name in _VARIABLE_OF:  # a library that gave no answer may start any number
        host.answer(name.lower())
    return fine(_named(started) if started else "neither torch nor OpenCV can be imported", **facts)


def _settings(names: Iterable[str], cores: int) -> Iterator[str]:
    """The variables that give these libraries, or what these variables are for, as many threads as cores."""
    for name in dict.fromkeys(_VARIABLE_OF.get(one, one) for one in names):
        yield f"{name}={1 if name == _OF_OPENCV else cores}"  # each worker starts as many


def _in_each_worker(host: Host, started: dict[str, int], facts: dict[str, float | str]) -> Finding:
    number = started["OpenCV"]
    return know(
        f"OpenCV starts {number} threads in each worker: {number * host.workers} with {host.workers} workers",
        "torch sets its own threads to 1 in a worker, but not those of OpenCV.",
        "call cv2.setNumThreads(0) in worker_init_fn, or set the variable",
        f"export {_OF_OPENCV}=1",
        **facts,
    )


def _started(host: Host) -> dict[str, int]:
    """The threads of each library that is known, by its name or its variable."""
    found = {name: int(host.environ[name].split(",")[0]) for name in _VARIABLES if _given(host, name)}
    for name, called in (("torch", "torch"), ("opencv", "OpenCV")):
        number = host.answers.get(name, {}).get("threads")
        if isinstance(number, int):
            found[called] = number
    return found


def _given(host: Host, name: str) -> bool:
    return name in host.environ and _right(host.environ[name])


def _right(text: str) -> bool:
    """Whether it is a number of threads. For OpenMP, it may be one for each level: `4,2`."""
    first = text.split(",")[0].strip()
    return first.isascii() and first.isdigit() and 0 < int(first) < 1 << 31


def _named(started: dict[str, int]) -> str:
    return ", ".join(
        f"{name}={number}" if name in _VARIABLES else f"{name} starts {counted(number, 'thread')}"
        for name, number in started.items()
    )
