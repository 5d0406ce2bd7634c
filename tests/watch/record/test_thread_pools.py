"""Thread pools of the libraries that are loaded, and threads that compute, as a process sees them itself."""

from __future__ import annotations

import os
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from pipebench.watch.record import thread_pools
from pipebench.watch.record.lines import Pool


def test_only_what_is_loaded_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pools, "_loaded", lambda: {"/nowhere/libgomp.so.1", "/nowhere/libopenblas.so"})
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(get_num_threads=lambda: 3))
    monkeypatch.setitem(sys.modules, "pyarrow", types.SimpleNamespace(cpu_count=lambda: 5))
    monkeypatch.delitem(sys.modules, "cv2", raising=False)
    monkeypatch.delitem(sys.modules, "torch.multiprocessing", raising=False)
    before = set(sys.modules)
    found = thread_pools.library_threads()
    assert found.pools == [
        Pool("torch", 3, "torch.set_num_threads(1)"), Pool("Arrow", 5, "pyarrow.set_cpu_count(1)"),
    ]  # fmt: skip
    assert found.sharing is None and found.native_threads is not None and found.native_threads >= 0
    assert set(sys.modules) == before


def test_hidden_pools_have_their_own_getters(monkeypatch: pytest.MonkeyPatch) -> None:
    getters = {
        "/a/libgomp-98df74fd.so.1.0.0": {"omp_get_max_threads": 8},
        "/b/libscipy_openblas64_-abc.so": {"scipy_openblas_get_num_threads64_": 4},
        "/b/libopenblasp-r0-abc.so": {"openblas_get_num_threads": 2},
        "/c/libmkl_rt.so.2": {"MKL_Get_Max_Threads": 6},
        "/c/libother.so": {"omp_get_max_threads": 99},
    }

    def opened(path: str, mode: int) -> Any:
        assert mode & os.RTLD_NOLOAD
        return types.SimpleNamespace(**{name: lambda found=found: found for name, found in getters[path].items()})

    monkeypatch.setattr(thread_pools, "_loaded", lambda: set(getters))
    monkeypatch.setitem(sys.modules, "ctypes", types.SimpleNamespace(CDLL=opened))
    found = [one for one in thread_pools._pools() if one[0] not in ("torch", "OpenCV", "Arrow")]
    assert found == [
        ("MKL", 6, "MKL_NUM_THREADS=1"),
        ("OpenBLAS", 2, "OPENBLAS_NUM_THREADS=1"),
        ("OpenBLAS", 4, "OPENBLAS_NUM_THREADS=1"),
        ("OpenMP (libgomp)", 8, "OMP_NUM_THREADS=1"),
    ]


def test_pools_are_those_that_threadpoolctl_finds() -> None:
    """Inside a script the small piece of our own is used, here the library that is made for it."""
    import numpy  # noqa: F401  # which brings a BLAS of its own
    from threadpoolctl import threadpool_info

    names = {"openmp": "OpenMP", "openblas": "OpenBLAS", "mkl": "MKL", "blis": "BLIS"}
    theirs = {(names[one["internal_api"]], one["num_threads"]) for one in threadpool_info()}
    ours = {(one.library.partition(" ")[0], one.threads) for one in thread_pools._pools()}
    assert theirs and {one for one in ours if one[0] in names.values()} == theirs


def test_a_thread_that_only_idles_does_not_count(tmp_path: Path) -> None:
    mine = threading.main_thread().native_id
    for task, user, system in ((mine, 290, 0), (77, 5, 3), (78, 1, 0), (79, 0, 4), (81, 2, 0)):
        (tmp_path / str(task)).mkdir()
        before = " ".join(["S", *"0" * 10])
        (tmp_path / str(task) / "stat").write_text(f"{task} (a) b) {before} {user} {system} 0 0 20\n")
    (tmp_path / "80").mkdir()
    assert thread_pools._running(str(tmp_path)) == 2
