"""What the kernel counts about a thread: read from its own files, and 0 where there are none."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pipebench.watch.record import kernel_counts


def _open(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    plain = os.open

    def planted(path: str, flags: int, *more: int) -> int:
        return plain(place if str(path).startswith("/proc/") else path, flags, *more)

    monkeypatch.setattr(os, "open", planted)


def test_the_second_figure_of_schedstat_and_the_first_of_io(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "schedstat").write_bytes(b"100 2345 7\n")
    _open(monkeypatch, tmp_path / "schedstat")
    assert kernel_counts.core_wait_ns() == 2345
    (tmp_path / "io").write_bytes(b"rchar: 6789\nwchar: 24\nsyscr: 14\n")
    _open(monkeypatch, tmp_path / "io")
    assert kernel_counts.read_bytes() == 6789


def test_where_the_kernel_says_nothing_they_are_0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _open(monkeypatch, tmp_path / "nothing")
    assert kernel_counts.core_wait_ns() == kernel_counts.read_bytes() == 0
    (tmp_path / "empty").touch()
    _open(monkeypatch, tmp_path / "empty")
    assert kernel_counts.core_wait_ns() == kernel_counts.read_bytes() == 0


def test_the_wait_of_a_thread_is_read_again_only_if_it_has_left_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    switches, waits = SimpleNamespace(ru_nvcsw=1, ru_nivcsw=1), iter([700, 800, 900, 1000])
    monkeypatch.setattr(resource, "getrusage", lambda of: switches)
    monkeypatch.setattr(kernel_counts, "core_wait_ns", lambda: next(waits))
    found = kernel_counts.CoreWait()
    assert [found.now(), found.now()] == [700, 700]
    switches.ru_nvcsw += 1  # it slept
    assert [found.now(), found.now()] == [800, 800]
    switches.ru_nivcsw += 1  # another one took its core
    assert [found.now(), found.now()] == [900, 900]
    monkeypatch.setattr(threading, "get_ident", lambda: 0)
    assert [found.now(), found.now()] == [1000, 1000]


def test_bytes_that_are_read_are_counted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100_000))
    before = kernel_counts.read_bytes()
    (tmp_path / "file").read_bytes()
    assert before == 0 or kernel_counts.read_bytes() - before >= 100_000


def test_a_program_that_was_waited_for_is_counted() -> None:
    before = kernel_counts.children_cpu_ns()
    subprocess.run([sys.executable, "-S", "-c", "sum(range(2_000_000))"], check=True)
    assert kernel_counts.children_cpu_ns() > before


def test_the_longest_wait_of_native_threads_is_looked_at_seldom(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of threads 1 to 3, the first is one of Python's own."""
    for name in "123":
        (tmp_path / name).mkdir()
    waits = {1: 900, 2: 40, 3: 70}
    monkeypatch.setattr(kernel_counts, "_TASKS", str(tmp_path))
    monkeypatch.setattr(kernel_counts, "core_wait_ns", lambda one: waits[one])
    monkeypatch.setattr(threading, "enumerate", lambda: [SimpleNamespace(native_id=1)])
    monkeypatch.setattr(time, "perf_counter_ns", lambda: 0)
    helpers, now = kernel_counts.HelperWaits(), 0
    assert helpers.look(now) == 70
    waits[3] = 80
    assert helpers.look(now + 100_000_000) == 70
    assert helpers.look(now + 60_000_000_000) == 80
    (tmp_path / "3").rmdir()  # a thread that ended
    assert helpers.look(now + 120_000_000_000) == 80


def test_without_files_of_threads_no_helper_waits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_counts, "_TASKS", str(tmp_path / "none"))
    assert kernel_counts.HelperWaits().look(1) == 0
