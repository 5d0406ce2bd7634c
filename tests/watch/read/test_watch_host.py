"""Memory, descriptors and threads: looked up from outside, summed up, and said where they are close to a limit."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import threading
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipebench.host.machine import Load
from pipebench.render import layout, screen, watch, watch_details
from pipebench.render.watch_notes import sentence
from pipebench.results.host_use import HostUse, ThreadPool
from pipebench.results.watched import LoaderResult, Note, Verdict
from pipebench.watch.launch import footprint
from pipebench.watch.launch.footprint import Footprint, Held, Looker, looked_at, pause
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.host_use import host, host_notes, workers
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import FetchSums, LibraryThreads, LoaderFound, Pool, ProcessStarted
from pipebench.watch.record.options import WatchOptions

MB = 1_000_000


@dataclass
class _Process:
    """What psutil says of one process, as far as it is asked."""

    pss: int
    rss: int
    descriptors: int
    threads: int
    limit: int = 1024
    cpu: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)

    def cpu_times(self) -> tuple[float, ...]:
        return self.cpu

    def memory_full_info(self) -> Any:
        return types.SimpleNamespace(pss=self.pss, rss=self.rss)

    def num_fds(self) -> int:
        return self.descriptors

    def num_threads(self) -> int:
        return self.threads

    def cpu_affinity(self) -> list[int]:
        return [0, 3]

    def rlimit(self, resource: int) -> tuple[int, int]:
        assert resource == psutil.RLIMIT_NOFILE
        return self.limit, 4096


class _System:
    """The processes that are there."""

    def __init__(self, **processes: _Process) -> None:
        self.there = {int(name[1:]): one for name, one in processes.items()}

    def __call__(self, pid: int) -> Any:
        if pid not in self.there:
            raise psutil.NoSuchProcess(pid)
        return self.there[pid]


def _records(folder: Path, *pids: int) -> Path:
    for pid in pids:
        (folder / f"{pid}-555.spans").touch()
    (folder / "stop").touch()
    return folder


def test_the_highest_of_each_process_and_of_all_together(tmp_path: Path) -> None:
    system = _System(
        p10=_Process(pss=100, rss=300, descriptors=5, threads=2), p20=_Process(50, 290, 7, 3, psutil.RLIM_INFINITY)
    )
    looker = Looker(_records(tmp_path, 10, 20), system, tmp_path / "none")
    looker.look()
    system.there = {10: _Process(pss=90, rss=400, descriptors=6, threads=2)}
    looker.look()
    system.there[20] = _Process(999, 999, 1, 1)  # another one with its number: it has no file
    looker.look()
    found = looker.found
    cores = frozenset({0, 3})
    assert found.processes == {10: Held(100, 400, 6, 1024, 2, cores), 20: Held(50, 290, 7, None, 3, cores)}
    assert found.pss_bytes == 150 and found.shared_bytes is None


def test_looks_note_the_state_the_memory_and_the_reads(tmp_path: Path) -> None:
    class Reading(_Process):
        state, read = psutil.STATUS_SLEEPING, 0

        def status(self) -> str:
            return self.state

        def io_counters(self) -> Any:
            return types.SimpleNamespace(read_bytes=self.read)

        def memory_info(self) -> Any:
            return types.SimpleNamespace(rss=self.rss, shared=200)

    one = Reading(100, 300, 5, 2)
    looker = Looker(_records(tmp_path, 10), _System(p10=one), tmp_path / "none")
    for one.state in (psutil.STATUS_SLEEPING, psutil.STATUS_DISK_SLEEP, psutil.STATUS_RUNNING) * 50:
        one.rss, one.read = one.rss + 1, one.read + 4096
        looker.glance()
    looker.look()
    seen = looker.found.processes[10].over_time
    assert (seen.looks, seen.asleep, seen.for_storage) == (150, 50, 50) and looker.found.free_bytes
    assert len(seen.moments) <= 64 and seen.moments[0].own_bytes == 101 and seen.moments[0].storage_bytes == 4096
    steps = {later.own_bytes - former.own_bytes for former, later in itertools.pairwise(seen.moments)}
    assert steps == {4}  # as far apart as they were, when there is no more room


def test_a_process_that_may_not_be_looked_at_is_left_out(tmp_path: Path) -> None:
    class Denied(_Process):
        def memory_full_info(self) -> Any:
            raise psutil.AccessDenied

    looker = Looker(_records(tmp_path, 10), _System(p10=Denied(1, 2, 3, 4)), tmp_path / "none")
    looker.look()
    assert looker.found.processes == {} and looker.found.pss_bytes is None


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
    assert held.cores == os.sched_getaffinity(0)
    assert "pipebench footprint" not in {one.name for one in threading.enumerate()}


def test_what_others_used_of_the_machine_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([Load(10.0, 100.0, 1.0, 5.0, 0.0), Load(20.0, 125.0, 2.0, 15.0, 0.0)])
    monkeypatch.setattr(footprint, "read_load_of_tree", lambda: next(loads))
    looker = Looker(tmp_path)
    assert looker.found.load is None
    looker.note_load()
    used = host(Run([], ShownTime(), ()), [], looker.found)
    assert (used.foreign_cores, used.stolen_cores) == (1.5, 0.1)
    assert host(Run([], ShownTime(), ()), [], Footprint()).foreign_cores is None


@pytest.mark.parametrize(("method", "others"), [("fork", 1.5), ("forkserver", None)])
def test_workers_of_a_fork_server_are_none_of_the_others_even_if_they_never_started(
    method: str, others: float | None
) -> None:
    script = Process([ProcessStarted(1, "script", 0), LoaderFound(1, "Photos", 2, 4, method, 2)])
    used = host(Run([script], ShownTime(), ()), [], Footprint(load=Load(10.0, 25.0, 0.0, 10.0, 0.0)))
    assert used.foreign_cores == others


def test_a_script_that_still_runs_is_none_of_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = iter([Load(10.0, 100.0, 0.0, 5.0, 0.0), Load(20.0, 120.0, 0.0, 5.0, 0.0)])
    monkeypatch.setattr(footprint, "read_load_of_tree", lambda: next(loads))
    system = _System(
        p10=_Process(1, 1, 1, 1, cpu=(4.0, 1.0, 6.0, 1.0, 9.0)), p20=_Process(1, 1, 1, 1, cpu=(2.0, 1.0, 0.0, 0.0, 9.0))
    )
    looker = Looker(_records(tmp_path, 10, 20, 30), system, tmp_path / "none")
    looker.note_load()
    assert looker.found.load is not None and looker.found.load.foreign_s == 5.0


def _others(foreign: float | None, stolen: float = 0.0) -> Any:
    used = dataclasses.replace(host(Run([], ShownTime(), ()), [], Footprint()), foreign_cores=foreign)
    empty = summarise([], WatchOptions(), 0, 2.0)
    return dataclasses.replace(
        empty,
        loaders=tuple(_loaders(2)),
        host=dataclasses.replace(used, stolen_cores=stolen),
        verdict=Verdict("training"),
    )


def test_the_load_of_others_is_in_the_report_where_it_matters() -> None:
    much = (
        "Other processes used 1.50 cores while the script ran, and the hypervisor withheld 0.10. Wall times hold the "
        "waits for a core: compare shares, or measure on a quiet machine."
    )
    for full in (False, True):
        assert layout.flat(watch.others(_others(1.5, 0.1), full)) == ["", much]
    little = "Other processes used 0.04 cores while the script ran."
    assert layout.flat(watch.others(_others(0.04), True)) == ["", little]
    assert watch.others(_others(0.04), False) == []
    assert watch.others(_others(None), True) == []


@pytest.mark.parametrize(("foreign", "stays"), [(1.84, True), (0.5, True), (0.3, False)])
def test_a_page_that_is_too_long_keeps_a_considerable_load_of_others(foreign: float, stays: bool) -> None:
    more = [layout.Spare((f"part {number}",), 90) for number in range(screen.LINES)]
    page = layout.text(screen.fitted([*watch.parts(_others(foreign)), *more], 80, "more"), width=80)
    assert ("Other processes used" in page) is stays


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
    notes = summarise([Process([])], WatchOptions(), 0, 2.0, looker.found).notes
    what = "looking at memory and descriptors"
    assert Note("fault-outside", {"what": what, "fault": looker.found.fault}) in notes


def test_looking_is_rare() -> None:
    assert pause(0.0, 0.0) == 0.25 and pause(0.0, 100.0) == 5 and pause(0.0, 1e6) == 10
    assert pause(0.1, 0.0) == pytest.approx(20)
    assert pause(0.1, 1e6) == pytest.approx(20)


# --- summed up


def _sums(process_cpu: int) -> FetchSums:
    return FetchSums(1, 0, 10**9, batches=2, samples=8, busy_ns=10**9, cpu_ns=5 * 10**8, process_cpu_ns=process_cpu)


def _run(native: int = 3, inside: int = 4) -> Run:
    torch, cv2 = "torch.set_num_threads(1)", "cv2.setNumThreads(0)"
    script = Process([ProcessStarted(10, "script", 0), LibraryThreads([Pool("torch", 2, torch)], 1, "file_system")])
    threads = LibraryThreads([Pool("OpenCV", inside, cv2), Pool("torch", 1, torch)], native)
    first = Process([ProcessStarted(20, "worker", 0, 1, 0), _sums(10**9), _sums(2 * 10**9), threads])
    later = Process([ProcessStarted(21, "worker", 0, 1, 0), _sums(10**9)])
    return Run([script, first, later], ShownTime(), (1,))


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
        "Memory: 420 MB in all processes, shared pages counted once; 300 MB in the script's own process.",
        "/dev/shm: 60.0 MB of 64.0 MB in use; 1.00 MB before the run.",
        "File descriptors of the script: 900 of 1,024 open. Tensors are shared by file_system.",
        "Threads that libraries may use, on 8 usable cores: script torch 2 (torch.set_num_threads(1)); workers "
        "OpenCV 4 "
        "(cv2.setNumThreads(0)).",
    ]
    assert list(watch_details.host(host(Run([], ShownTime(), ()), [], Footprint()), 8)) == []


def test_limits_that_are_close_are_said_with_their_remedy() -> None:
    found = [*host_notes(_run(), host(_run(), [1], _footprint()), _loaders(2), 8)]
    assert found == [
        Note("shared-memory-nearly-full", {"used_bytes": 60 * MB, "size_bytes": 64 * MB}),
        Note("descriptors-nearly-used-up", {"open": 900, "limit": 1024}),
    ]
    assert [sentence(one) for one in found] == [
        "/dev/shm was filled to 60.0 MB of 64.0 MB. Give it more space (docker run --shm-size), or use fewer "
        "workers, a "
        "smaller prefetch_factor or smaller batches.",
        "The script had 900 of 1,024 file descriptors open. Raise the limit (ulimit -n), or call "
        "torch.multiprocessing.set_sharing_strategy('file_system').",
    ]


def test_too_many_threads_are_said_only_where_they_ran() -> None:
    def said(count: int, cores: float, **more: Any) -> list[str]:
        found = host_notes(_run(**more), host(_run(**more), [1], Footprint()), _loaders(count), cores)
        return [sentence(one) for one in found]

    assert said(2, 4) == [
        "Oversubscription: each of the 2 workers of loader 1 ran up to 4 threads at once, on 4 usable cores. "
        "Allow fewer "
        "threads in the workers; these libraries allow more than one (with what sets it): OpenCV 4 "
        "(cv2.setNumThreads(0))."
    ]
    assert said(2, 8) == []  # 2 × 4 is not more than 8
    run = _run()
    without = LibraryThreads([Pool("OpenCV", 4, "cv2.setNumThreads(0)")], 0)
    run.processes.append(Process([ProcessStarted(30, "worker", 0, 2, 0), without]))
    both = [*_loaders(2), *(dataclasses.replace(one, loader=2) for one in _loaders(8))]
    (note,) = host_notes(run, host(run, [1, 2], Footprint()), both, 4)
    assert note.values["loader"] == 1  # workers of another loader run no threads
    assert said(2, 4, native=0) == []  # a pool that never ran
    assert said(2, 4, inside=1) == []  # threads of something that no setting is known of
    assert said(0, 1) == []
    assert said(2, 4, inside=2) == [  # two of the three are of no pool that is known
        "Oversubscription: each of the 2 workers of loader 1 ran up to 4 threads at once, on 4 usable cores. "
        "Allow fewer threads in the workers; these libraries allow more than one (with what sets it): OpenCV 2 "
        "(cv2.setNumThreads(0)). They allow 2 fewer than ran: the rest may be of another library."
    ]


def test_the_pools_of_arrow_explain_its_threads() -> None:
    run = _run(native=4)
    blas, arrow = Pool("OpenBLAS", 2, "OPENBLAS_NUM_THREADS=1"), Pool("Arrow", 2, "pyarrow.set_cpu_count(1)")
    run.processes[1].threads.pools[:] = [blas]
    (note,) = host_notes(run, host(run, [1], Footprint()), _loaders(1), 2)
    assert note.values["unexplained"] == 3
    run.processes[1].threads.pools.append(arrow)
    (note,) = host_notes(run, host(run, [1], Footprint()), _loaders(1), 2)
    assert note.values["pools"] == "Arrow 2 (pyarrow.set_cpu_count(1)), OpenBLAS 2 (OPENBLAS_NUM_THREADS=1)"
    assert "unexplained" not in note.values
