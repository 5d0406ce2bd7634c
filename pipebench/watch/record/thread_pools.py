"""Finds the thread pools of the loaded libraries: how many threads each may use, and how to limit it to one.

Nothing is imported, loaded or started here. Only libraries that the process already has are asked.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import Any

from pipebench.watch.record.lines import LibraryThreads, Pool

ARROW = "Arrow"  # it has another pool for input and output, whose threads come on top
_VARIABLES = "OMP_NUM_THREADS", "MKL_NUM_THREADS"  # torch reads them when it starts
_IDLING_S = 0.02  # the kernel counts in hundredths of a second

# For each native library: its file, its label, the setting for one thread, and the names of its getter. OpenBLAS is
# built under several names.
_NATIVE = (
    (r"lib(gomp|omp|iomp5)\b.*\.so", "OpenMP ({})", "OMP_NUM_THREADS=1", ("omp_get_max_threads",)),
    (
        r"lib(?:scipy_)?openblas.*\.so", "OpenBLAS", "OPENBLAS_NUM_THREADS=1",
        tuple(f"{head}openblas_get_num_threads{tail}" for head in ("", "scipy_") for tail in ("", "64_", "_64")),
    ),
    (r"libmkl_rt\b.*\.so", "MKL", "MKL_NUM_THREADS=1", ("MKL_Get_Max_Threads",)),
    (r"libblis\b.*\.so", "BLIS", "BLIS_NUM_THREADS=1", ("bli_thread_get_num_threads",)),
)  # fmt: skip


def library_threads() -> LibraryThreads:
    """The line that a process writes when it ends: its pools, and how many native threads did more than idle."""
    found = LibraryThreads(list(_pools()))
    found.variables = [f"{one}=1" for one in _VARIABLES if os.environ.get(one, "").strip() == "1"]
    with contextlib.suppress(OSError):
        found.native_threads = _running()
    multiprocessing: Any = sys.modules.get("torch.multiprocessing")
    if multiprocessing is not None:
        found.sharing = multiprocessing.get_sharing_strategy()
    return found


def _running(tasks: str = "/proc/self/task") -> int:
    """The number of native threads (not Python's own) that did more than idle.

    Such a thread used at least 20 ms of CPU time, and at least 1 % of the CPU time of all threads.
    """
    own = {str(one.native_id) for one in threading.enumerate()}
    used = {}
    for task in os.listdir(tasks):
        with contextlib.suppress(OSError), open(f"{tasks}/{task}/stat", "rb") as file:
            user, system = file.read().rpartition(b")")[2].split()[11:13]
            used[task] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    least = max(_IDLING_S, sum(used.values()) / 100)
    return sum(spent >= least for task, spent in used.items() if task not in own)


def _pools() -> Iterator[Pool]:
    """The pools of the loaded libraries."""
    for module, name, getter, setter in (
        ("torch", "torch", "get_num_threads", "torch.set_num_threads(1)"),
        ("cv2", "OpenCV", "getNumThreads", "cv2.setNumThreads(0)"),
        ("pyarrow", ARROW, "cpu_count", "pyarrow.set_cpu_count(1)"),
    ):
        with contextlib.suppress(KeyError, AttributeError):  # not imported, or another module of that name
            yield Pool(name, int(getattr(sys.modules[module], getter)()), setter)
    ctypes: Any = sys.modules.get("ctypes")
    if ctypes is not None:
        found: set[Pool] = set()
        for path in sorted(_loaded()):
            with contextlib.suppress(OSError):  # no longer loaded
                found.update(_native(ctypes, path))
        yield from sorted(found)


def limit_to_one() -> None:
    """Sets the pools of the loaded libraries to one thread each, in this process."""
    for module, setter, threads in (
        ("torch", "set_num_threads", 1), ("cv2", "setNumThreads", 0), ("pyarrow", "set_cpu_count", 1),
    ):  # fmt: skip
        with contextlib.suppress(KeyError, AttributeError):  # not imported, or another module of that name
            getattr(sys.modules[module], setter)(threads)
    import ctypes

    for path in _loaded():
        with contextlib.suppress(OSError):  # no longer loaded
            _limit(ctypes, path)


def _limit(ctypes: Any, path: str) -> None:
    for pattern, _, _, getters in _NATIVE:
        if re.match(pattern, os.path.basename(path)) is None:
            continue
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        for getter in getters:
            setter = getter.replace("get_max", "set_num").replace("Get_Max", "Set_Num").replace("get_num", "set_num")
            if hasattr(library, setter):
                getattr(library, setter)(1)


def _loaded() -> set[str]:
    """The shared libraries that this process has mapped."""
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        return {line[line.index("/") :].rstrip("\n") for line in file if "/" in line and ".so" in line}
    return set()


def _native(ctypes: Any, path: str) -> Iterator[Pool]:
    for pattern, name, setter, getters in _NATIVE:
        match = re.match(pattern, os.path.basename(path))
        if match is None:
            continue
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        for getter in getters:
            if hasattr(library, getter):
                label = name.format(match[0].split("-")[0].split(".")[0])
                yield Pool(label, int(getattr(library, getter)()), setter)
                break
