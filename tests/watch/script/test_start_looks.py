"""Looks at the main thread before the first loop. Each waits until enough of them were made; no time is measured."""

import importlib
import os
import sys
import threading
import time

import pytest
from looked_at import made_up_recording

from pipebench.watch.script import start_looks
from pipebench.watch.script.start_looks import StartLooker


@pytest.fixture
def looker(monkeypatch):
    monkeypatch.setattr(start_looks, "_SOONEST_NS", 1_000_000)
    one = StartLooker(made_up_recording())
    yield one
    one.end()


def _until(looker, looks):
    while looker._seen.looks < looks:
        time.sleep(0.001)


def build_dataset(looker):
    _until(looker, 20)


def test_the_innermost_line_of_the_users_own_is_counted(looker):
    looker.begin()
    build_dataset(looker)
    looker.end()
    (line,) = looker._recording.written
    assert line.looks >= 20 and line.end > line.begin
    most = max(line.lines, key=lambda one: one.looks)
    assert most.function == "_until" and most.file == __file__
    assert sum(one.looks for one in line.lines) <= line.looks


WAITS = (
    "import sys, time\nseen = sys.looker._seen\nuntil = seen.looks + 20\n"
    "while seen.looks < until:\n    time.sleep(0.001)\n"
)


@pytest.mark.parametrize("place", ["site-packages", "own"])
def test_what_a_library_imports_late_is_no_line_of_the_users(looker, tmp_path, monkeypatch, place):
    """As `torch.optim.Adam(...)` does. What an import of the user's own runs is a line of that module."""
    monkeypatch.setattr(sys, "looker", looker, raising=False)
    monkeypatch.delitem(sys.modules, "heavy_part", raising=False)
    (tmp_path / place).mkdir()
    (tmp_path / place / "heavy_part.py").write_text(WAITS)
    (tmp_path / place / "lazy_library.py").write_text("def make():\n    import heavy_part\n")
    monkeypatch.syspath_prepend(tmp_path / place)
    lazy_library = importlib.import_module("lazy_library")
    looker.begin()
    lazy_library.make()
    looker.end()
    (line,) = looker._recording.written
    in_module = sum(one.looks for one in line.lines if one.file.endswith("heavy_part.py"))
    assert (line.imports >= 15, in_module >= 15) == ((True, False) if place == "site-packages" else (False, True))
    assert sum(one.looks for one in line.lines) + line.imports <= line.looks
    del sys.modules["lazy_library"]


def test_it_ends_once_and_begins_only_in_the_main_thread(looker):
    other = threading.Thread(target=looker.begin)
    other.start()
    other.join()
    looker.end()
    assert looker._recording.written == []
    looker.begin()
    looker.end()
    looker.end()
    assert len(looker._recording.written) == 1


def test_they_can_begin_again(looker):
    for times in (1, 2):
        looker.begin()
        looker.end()
        assert len(looker._recording.written) == times


def test_looks_end_before_a_fork_and_go_on_after_it(looker):
    """As those of a pool, whose work the main thread then waits for."""
    looker.begin()
    _until(looker, 1)
    child = os.fork()
    if not child:
        looker.go_on()
        looker.end()
        os._exit(int(looker._runs or len(looker._recording.written)))
    assert not looker._runs  # from 3.12 on, Python would warn of a thread
    looker.go_on()
    assert os.waitpid(child, 0)[1] == 0
    _until(looker, looker._seen.looks + 20)
    looker.end()
    looker.go_on()
    (line,) = looker._recording.written
    assert line.looks > 20 and not looker._runs


def test_looks_that_a_fork_of_another_thread_ended_do_not_cover_what_follows(looker):
    looker.begin()
    looker.pause()
    ended = looker._until
    looker.end()
    (line,) = looker._recording.written
    assert line.end == ended


def test_they_become_rarer_with_time(looker, monkeypatch):
    monkeypatch.setattr(start_looks, "perf_counter_ns", lambda: looker._seen.began + 100_000_000_000)
    assert looker._wait_s() == pytest.approx(0.5)


def test_a_fault_ends_the_looks_and_not_the_script(looker, monkeypatch):
    faults = []
    looker._recording.fault = lambda where, error: faults.append((where, str(error)))

    def refused():
        raise RuntimeError("no frames here")

    monkeypatch.setattr(sys, "_current_frames", refused)
    looker.begin()
    while not faults:
        time.sleep(0.001)
    looker.end()
    assert faults == [("looking at the start of the script", "no frames here")]
