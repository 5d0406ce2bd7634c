"""Garbage collections that a loop asks for are timed, with the line that asks for most of them."""

from __future__ import annotations

import gc
import signal
import threading

import pytest

from pipebench.watch.record.patches import Patches
from pipebench.watch.record.trial_lines import BETWEEN, FullCollected
from pipebench.watch.script import full_collections
from pipebench.watch.script.full_collections import FullCollections


@pytest.fixture
def found(monkeypatch):
    """Timed by a clock of which each reading is three seconds after the last one."""
    clock = iter(range(10**9, 10**12, 3 * 10**9))
    monkeypatch.setattr(full_collections, "perf_counter_ns", lambda: next(clock))
    made, patches, plain = FullCollections(), Patches(lambda where, error: None), gc.collect
    made.loader = 1
    made.install(patches)
    yield made
    patches.undo()
    assert gc.collect is plain


def test_a_collection_counts_with_its_line(found):
    for _ in range(3):
        gc.collect()
    found.loader = BETWEEN
    assert gc.collect(0) >= 0
    told = found.take(1)
    assert (told.collections, told.most, told.spent_ns) == (3, 3, 9 * 10**9)
    assert told.file == __file__ and told.line == _line("        gc.collect()\n")
    assert found.take(1) == FullCollected() and found.take(BETWEEN).collections == 1


def test_those_of_other_threads_and_outside_of_loops_do_not_count(found):
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    found.loader = None
    gc.collect()
    assert found.take(1) == FullCollected()


def test_what_a_signal_handler_raises_meanwhile_reaches_the_script(found):
    def handler(number, frame):
        raise TimeoutError("a sample took too long")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(TimeoutError):
            signal.raise_signal(signal.SIGUSR1)
            gc.collect()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not [one for one in gc.callbacks if isinstance(one, FullCollections)]


def _line(text):
    with open(__file__) as file:
        return file.readlines().index(text) + 1
