"""Full garbage collections in a loop are timed, with the line in which most of them begin."""

from __future__ import annotations

import gc
import threading
from types import SimpleNamespace

from pipebench.watch.record.trial_lines import BETWEEN, FullCollected
from pipebench.watch.script import full_collections
from pipebench.watch.script.full_collections import FullCollections


def _with(monkeypatch, seconds=3):
    clock = iter(range(10**9, 10**12, seconds * 10**9))
    monkeypatch.setattr(full_collections, "perf_counter_ns", lambda: next(clock))
    found = FullCollections()
    found.loader = 1
    patches = SimpleNamespace(on_undo=lambda step: undone.append(step))
    undone = []
    found.install(patches)
    return found, undone[0]


def test_a_full_collection_counts_with_its_line(monkeypatch):
    found, undo = _with(monkeypatch)
    try:
        for _ in range(3):
            gc.collect()
        gc.collect(0)
        found.loader = BETWEEN
        gc.collect()
    finally:
        undo()
    gc.collect()
    told = found.take(1)
    assert (told.collections, told.most, told.spent_ns) == (3, 3, 9 * 10**9)
    assert told.file == __file__ and told.line == _line("            gc.collect()\n")
    assert found.take(1) == FullCollected() and found.take(BETWEEN).collections == 1


def test_those_of_other_threads_and_outside_of_loops_do_not_count(monkeypatch):
    found, undo = _with(monkeypatch)
    try:
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        found.loader = None
        gc.collect()
    finally:
        undo()
    assert found.take(1) == FullCollected() and found not in gc.callbacks


def _line(text):
    with open(__file__) as file:
        return file.readlines().index(text) + 1
