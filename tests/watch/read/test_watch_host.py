"""Memory, descriptors and threads: looked up from outside, summed up, and said where they are close to a limit."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from pipebench.render import watch_details
from pipebench.results.watched import HostUse, LoaderResult, ThreadPool
from pipebench.watch.launch import footprint
from pipebench.watch.launch.footprint import Footprint, Held, Looker, looked_at, pause
from pipebench.watch.read.gather import Process, Run, Window
from pipebench.watch.read.host_use import host, host_notes, workers
from pipebench.watch.read.summary import summarise
from pipebench.watch.record import thread_pools
from pipebench.watch.record.options import WatchOptions

MB = 1_000_000


def _process(proc: Path, pid: int, pss: int, rss: int, descriptors: int, threads: int) -> None:
    """What the kernel shows of one process, as far as it is read."""
    folder = proc / str(pid)
    for name, count in (("fd", descriptors), ("task", threads)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (folder / name / str(number)).touch()
    rollup = f"55a0-7fff ---p 00000000 00:00 0  [rollup]\nRss:   {rss} kB\nPss:   {pss} kB\nPss_Anon:  1 kB\n"
    (folder / "smaps_rollup").write_text(rollup)
    (folder / "limits").write_text("Limit  Soft Limit  Hard Limit  Units\nMax open files     1024    4096    files\n")


@pytest.fixture
def looker(tmp_path: Path) -> Looker:
    (tmp_path / "records").mkdir()
    (tmp_path / "proc").mkdir()
    for pid in (10, 20):
        (tmp_path / "records" / f"{pid}-555.spans").touch()
    (tmp_path / "records" / "stop").touch()
    return Looker(tmp_path / "records", tmp_path / "proc", tmp_path / "none")


def test_the_highest_of_each_process_and_of_all_together(looker: Looker, tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    _process(proc, 10, pss=100, rss=300, descriptors=5, threads=2)
    _process(proc, 20, pss=50, rss=290, descriptors=7, threads=3)
    looker.look()
    _process(proc, 10, pss=90, rss=400, descriptors=6, threads=2)
    (proc / "20" / "smaps_rollup").unlink()
    looker.look()
    _process(proc, 20, pss=999, rss=999, descriptors=1, threads=1)
    looker.look()
    found = looker.found
    assert found.processes == {
        10: Held(100 * 1024, 400 * 1024, 6, 1024, 2, 3),
        20: Held(50 * 1024, 290 * 1024, 7, 1024, 3, 1),
    }
    assert found.pss_bytes == 150 * 1024 and found.shared_bytes is None


def test_this_process_is_seen_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{os.getpid()}-1.spans").touch()
    looker, seen = Looker(tmp_path), threading.Event()
    monkeypatch.setattr(footprint, "_SHORTEST_S", 0.001)

    def look() -> None:
        looker.look()
        seen.set()

    with looked_at(look, looker.failed):
        assert seen.wait(10)
    assert looker.found.fault is None
    held = looker.found.processes[os.getpid()]
    assert held.pss_bytes and held.rss_bytes and 0 < held.pss_bytes <= held.rss_bytes
    assert held.descriptors and held.descriptors > 2 and held.threads and held.threads >= 2
    assert "pipebench footprint" not in {one.name for one in threading.enumerate()}


def test_a_fault_while_looking_ends_the_looking_and_is_in_the_notes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(footprint, "_SHORTEST_S", 0.001)
    looker, seen, looks = Looker(tmp_path), threading.Event(), []

    def look() -> None:
        looks.append(1)
        raise OSError("no such process")

    def failed(error: Exception) -> None:
        looker.failed(error)
        seen.set()

    with looked_at(look, failed):
        assert seen.wait(10)
    assert len(looks) == 1
    assert looker.found.fault is not None
    assert re.fullmatch(r"OSError: no such process \(test_watch_host.py:\d+\)", looker.found.fault)
    notes = summarise([Process()], WatchOptions(), 0, 2.0, looker.found).notes
    assert f"a fault of pipebench in looking at memory and descriptors: {looker.found.fault}" in notes


def test_looking_is_rare() -> None:
    assert pause(0.0, 0.0) == 0.25 and pause(0.0, 100.0) == 5 and pause(0.0, 1e6) == 10
    assert pause(0.1, 0.0) == pytest.approx(20)
    assert pause(0.1, 1e6) == pytest.approx(20)


def test_only_what_is_loaded_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pools, "_loaded", lambda: {"/nowhere/libgomp.so.1", "/nowhere/libopenblas.so"})
    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(get_num_threads=lambda: 3))
    monkeypatch.delitem(sys.modules, "cv2", raising=False)
    monkeypatch.delitem(sys.modules, "torch.multiprocessing", raising=False)
    before = set(sys.modules)
    name, facts = thread_pools.record()
    assert name == "pools" and facts["pools"] == [("torch", 3, "torch.set_num_threads(1)")]
    assert "sharing" not in facts and facts["native_threads"] >= 0
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
    found = [one for one in thread_pools._pools() if one[0] not in ("torch", "OpenCV")]
    assert found == [
        ("MKL", 6, "MKL_NUM_THREADS=1"),
        ("OpenBLAS", 2, "OPENBLAS_NUM_THREADS=1"),
        ("OpenBLAS", 4, "OPENBLAS_NUM_THREADS=1"),
        ("OpenMP (libgomp)", 8, "OMP_NUM_THREADS=1"),
    ]


def test_a_thread_that_only_idles_does_not_count(tmp_path: Path) -> None:
    mine = threading.main_thread().native_id
    for task, user, system in ((mine, 290, 0), (77, 5, 3), (78, 1, 0), (79, 0, 4), (81, 2, 0)):
        (tmp_path / str(task)).mkdir()
        before = " ".join(["S", *"0" * 10])
        (tmp_path / str(task) / "stat").write_text(f"{task} (a) b) {before} {user} {system} 0 0 20\n")
    (tmp_path / "80").mkdir()
    assert thread_pools._running(str(tmp_path)) == 2


# --- summed up


def _sums(process_cpu: int) -> dict[str, Any]:
    return {
        "loader": 1, "begin": 0, "end": 10**9, "batches": 2, "samples": 8, "failed": 0, "busy": 10**9, "cpu": 5 * 10**8,
        "gc": [0, 0], "process_cpu": process_cpu,
    }  # fmt: skip


def _run(native: int = 3, inside: int = 4) -> Run:
    script, first, later = (Process(pid=pid, role="worker", loader=1, worker=0) for pid in (10, 20, 21))
    script.role, script.loader, script.worker = "script", None, None
    script.pools = {"pools": [["torch", 2, "torch.set_num_threads(1)"]], "native_threads": 1, "sharing": "file_system"}
    first.pools = {
        "pools": [["OpenCV", inside, "cv2.setNumThreads(0)"], ["torch", 1, "torch.set_num_threads(1)"]],
        "native_threads": native,
    }
    first.sums += [_sums(10**9), _sums(2 * 10**9)]
    later.sums.append(_sums(10**9))
    return Run([script, first, later], Window(), (1,))


def _footprint() -> Footprint:
    held = {
        10: Held(300 * MB, 500 * MB, 900, 1024, 9),
        20: Held(100 * MB, 400 * MB, 30, 1024, 5),
        21: Held(120 * MB, 390 * MB, 20, 1024, 4),
    }
    return Footprint(held, 420 * MB, 60 * MB, 64 * MB, 1 * MB)


def _loaders(number: int) -> list[LoaderResult]:
    fields: dict[str, Any] = {field.name: None for field in dataclasses.fields(LoaderResult)}
    return [LoaderResult(**{**fields, "loader": 1, "workers": number})]


def test_the_workers_of_all_passes_are_one_row() -> None:
    (found,) = workers(_run(), [1], _footprint())
    assert found.pids == (20, 21) and found.process_cpu_s == pytest.approx(3) and found.cpu_s == pytest.approx(1.5)
    assert (found.pss_bytes, found.rss_bytes, found.descriptors, found.threads) == (120 * MB, 400 * MB, 30, 5)
    (unseen,) = workers(_run(), [1], Footprint())
    assert unseen.pss_bytes is None and unseen.threads is None


def test_what_the_run_took_of_the_machine() -> None:
    found = host(_run(), [1], _footprint())
    assert found == HostUse(
        420 * MB, 300 * MB, 500 * MB, 9, 900, 1024, 60 * MB, 1 * MB, 64 * MB, "file_system", 3,
        (
            ThreadPool("script", "torch", 2, "torch.set_num_threads(1)"),
            ThreadPool("workers", "OpenCV", 4, "cv2.setNumThreads(0)"),
            ThreadPool("workers", "torch", 1, "torch.set_num_threads(1)"),
        ),
    )  # fmt: skip
    assert list(watch_details.host(found, 8)) == [
        "Memory: at most 420 MB in all processes together, shared pages counted once (300 MB in the script's own); at "
        "most 60.0 MB of 64.0 MB of /dev/shm in use (1.00 MB before); at most 900 of 1,024 descriptors open, tensors "
        "are shared by file_system",
        "Threads allowed, on 8 usable cores: script torch 2 (torch.set_num_threads(1)); workers OpenCV 4 "
        "(cv2.setNumThreads(0))",
    ]
    assert list(watch_details.host(host(Run([], Window(), ()), [], Footprint()), 8)) == []


def test_limits_that_are_close_are_said_with_their_remedy() -> None:
    assert [*host_notes(host(_run(), [1], _footprint()), _loaders(2), 8)] == [
        "/dev/shm was filled to 60.0 MB of 64.0 MB: give it more (docker run --shm-size), or use fewer workers, a "
        "smaller prefetch_factor or smaller batches",
        "the script had 900 of 1024 descriptors open: raise the limit (ulimit -n), or call "
        "torch.multiprocessing.set_sharing_strategy('file_system')",
    ]


def test_too_many_threads_are_said_only_where_they_ran() -> None:
    def said(count: int, cores: float, **more: Any) -> list[str]:
        return [*host_notes(host(_run(**more), [1], Footprint()), _loaders(count), cores)]

    assert said(2, 4) == [
        "loader 1: a worker ran up to 4 threads at once, times 2 workers on 4 usable cores; its libraries allow, and "
        "what sets it: OpenCV 4 (cv2.setNumThreads(0))"
    ]
    assert said(2, 8) == []  # 2 × 4 is not more than 8
    assert said(2, 4, native=0) == []  # a pool that never ran
    assert said(2, 4, inside=1) == []  # threads of something that no setting is known of
    assert said(0, 1) == []
