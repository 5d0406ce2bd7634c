"""Workers that are killed, leave or hang, and what a loader needs of the machine before it is started."""

import multiprocessing.util
import os
import re
import signal
import tempfile
import threading
import time
from multiprocessing.connection import arbitrary_address

import pytest
from plantedworkers import opened

from pipebench.errors import PipebenchError
from pipebench.host import limits
from pipebench.reference import pipeline, worker_health
from pipebench.reference.loader_table import LoaderPlan, check_rows
from pipebench.results.loading import Loading
from pipebench.task import Workload

WORKLOAD = Workload(data="tiny", batch_size=4)


def sleeping_in_c():
    time.sleep(60)


def test_a_killed_worker_is_named_with_its_signal_and_its_last_sample():
    with (
        pytest.raises(worker_health.WorkerFailure) as raised,
        opened(lambda: os.kill(os.getpid(), signal.SIGKILL)) as live,
    ):
        live.start()
    assert re.fullmatch(r"worker 0 was killed by SIGKILL at sample sample-\d+", raised.value.problem)
    assert "memory" in raised.value.remedy


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((3, 4), "memory ran out, as the kernel counted"),
        ((3, 3), "so a process killed it"),
        ((None, 4), "see dmesg"),
    ],
)
def test_the_kernels_count_tells_whether_memory_ran_out(counts, said, monkeypatch):
    left = iter(counts)
    monkeypatch.setattr(limits, "oom_kills", lambda: next(left))
    with (
        pytest.raises(worker_health.WorkerFailure) as raised,
        opened(lambda: os.kill(os.getpid(), signal.SIGKILL)) as live,
    ):
        live.start()
    assert said in raised.value.remedy


def test_a_worker_that_is_killed_while_the_watchdog_starts_is_named(monkeypatch):
    """torch raises its error at any place in this process."""

    plain = threading.Thread.start

    def killed(thread):
        if thread.name == "pipebench-watchdog":
            raise RuntimeError("DataLoader worker is killed by signal: Killed.")
        plain(thread)

    with pytest.raises(worker_health.WorkerFailure, match="killed by SIGKILL"), opened(_killed) as live:
        monkeypatch.setattr(threading.Thread, "start", killed)
        live.start()


def _killed():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("own", "file"),
    [
        ("0::/job/7\n", "job/7/memory.events"),
        ("0::/\n", "memory.events"),
        ("4:memory:/job\n0::/\n", "memory/job/memory.oom_control"),
        ("4:memory:/outside/of/this/container\n", "memory/memory.oom_control"),
    ],
)
def test_the_count_is_found_in_either_version_of_cgroups(own, file, tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(own)
    place = tmp_path / "sys/fs/cgroup" / file
    place.parent.mkdir(parents=True)
    assert limits.oom_kills(tmp_path) is None
    place.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 12\n")
    assert limits.oom_kills(tmp_path) == 12


def test_a_worker_killed_while_nothing_is_asked_of_it_ends_the_run_too():
    with pytest.raises(worker_health.WorkerFailure, match="was killed by SIGKILL"), opened(None, at=None) as live:
        live.start()
        live.settle()
        os.kill(live.pids[0], signal.SIGKILL)
        time.sleep(10)


@pytest.mark.slow
def test_a_worker_that_leaves_quietly_is_noticed():
    with (
        pytest.raises(worker_health.WorkerFailure, match="worker 0 left with exit status 0 at sample"),
        opened(lambda: os._exit(0), timeout_s=1.0) as live,
    ):
        live.start()


def test_a_hanging_worker_is_shown_with_its_stack():
    with pytest.raises(worker_health.WorkerFailure) as raised, opened(sleeping_in_c, timeout_s=1.0) as live:
        live.start()
    assert re.match(r"worker 0 has made no batch for 1.00 s; it is at sample sample-\d+", raised.value.problem)
    assert "sleeping_in_c" in raised.value.stack
    assert raised.value.stack in raised.value.remedy


def test_a_stopped_worker_is_called_stopped():
    with pytest.raises(worker_health.WorkerFailure) as raised, opened(None, at=None, timeout_s=1.0) as live:
        live.start()
        os.kill(live.pids[0], signal.SIGSTOP)
        for _ in range(10):
            next(live)
    assert "it did not answer (it is stopped)" in raised.value.remedy


class Holding:
    """A dataset with an attribute that does not travel, below one that does."""

    def __init__(self):
        self.fine = 1
        self.transform = {"steps": [str, lambda image: image]}


def test_what_does_not_pickle_is_named_and_only_where_it_must_travel():
    limits.check_picklable(Holding(), "fork")
    with pytest.raises(PipebenchError) as raised:
        limits.check_picklable(Holding(), "spawn")
    assert "under spawn, Holding.transform['steps'][1] cannot be sent to a worker" in raised.value.problem
    limits.check_picklable(pipeline.Photographs(WORKLOAD, pipeline.FLOATS), "spawn")


def test_too_little_shared_memory_or_too_few_descriptors_are_predicted(tmp_path, monkeypatch):
    limits.check_resources(2, 2, 1 << 20)
    monkeypatch.setattr(limits, "free_bytes", lambda folder: 64 << 20)
    with pytest.raises(PipebenchError, match=r"6 batches of 38\.\d MB on their way need 231 MB of .*, which has 67"):
        limits.check_resources(2, 2, 38_500_000)
    monkeypatch.setattr(limits, "descriptors", lambda: 40)
    with pytest.raises(PipebenchError, match="need about 52 file descriptors; 40 are left"):
        limits.check_resources(2, 2, 1000)
    limits.check_resources(0, 2, 1 << 40)  # nothing is shared without workers
    with pytest.raises(PipebenchError, match="file descriptors; 40 are left"):
        check_rows(WORKLOAD, Loading(), LoaderPlan.quick())  # which `run` asks before it measures anything
    check_rows(WORKLOAD, Loading(), LoaderPlan(workers=(0,)))
    assert len(list(limits.too_tight_for_workers())) == 2


def test_a_path_that_is_too_long_for_sockets_is_predicted(tmp_path, monkeypatch):
    monkeypatch.delattr(multiprocessing.util, "_get_base_temp_dir", raising=False)
    monkeypatch.setattr(limits, "free_bytes", lambda folder: 1 << 40)
    inner = len(arbitrary_address("AF_UNIX")) - len(tempfile.gettempdir())
    fits, longer = "/" + "x" * (106 - inner), "/" + "x" * (107 - inner)
    assert limits.no_room_for_sockets(fits) == "" and not list(limits.too_tight_for_workers(folder=fits))
    assert f"has {len(longer)} bytes" in limits.no_room_for_sockets(longer)
    assert "TMPDIR=/tmp" in next(limits.too_tight_for_workers(folder=longer))
    monkeypatch.setattr(tempfile, "tempdir", longer)
    with pytest.raises(PipebenchError) as raised:
        limits.check_resources(1, 2, 1)
    assert "TMPDIR=/tmp" in raised.value.remedy
