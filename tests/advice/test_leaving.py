"""`--stop` ends a script in whichever thread it takes its batches, and no script hangs."""

import queue
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from fakes import Loader, Script, World

from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.script.training_device import TrainingDevice
from pipebench.watch.trial.patching import Trying


def _takes(script, batches, daemon, begin=None):
    """A thread that takes the batches and hands them on, as background prefetchers do."""

    def run():
        if begin is not None:
            begin.acquire()
        for number, batch in enumerate(script.one_pass(then=lambda number: batches.put(number))):
            assert batch == [number]
        batches.put(None)

    thread = threading.Thread(target=run, daemon=daemon, name="prefetcher")
    thread.start()
    return thread


def _script(tmp_path, monkeypatch, length):
    script = Script(tmp_path, monkeypatch, Loader(World(), [[one] for one in range(length)]))
    script.order(1, None, leave=True)
    return script


def test_in_the_main_thread_the_loop_ends_at_once(tmp_path, monkeypatch):
    had = []
    with pytest.raises(SystemExit):
        _script(tmp_path, monkeypatch, 20).one_pass(then=had.append)
    assert had == []


def test_a_thread_of_the_background_gets_its_batches_until_the_main_thread_has_ended(tmp_path, monkeypatch):
    script, batches = _script(tmp_path, monkeypatch, 50), queue.SimpleQueue()
    begin = threading.Lock()
    begin.acquire()
    thread = _takes(script, batches, daemon=True, begin=begin)
    with pytest.raises(SystemExit) as ended:
        begin.release()
        for _ in range(60_000):
            time.sleep(0.001)
    thread.join()
    assert ended.value.code is None and batches.qsize() == 52


def test_a_thread_for_which_python_waits_goes_on_to_the_end_and_says_so(tmp_path, monkeypatch, capsys):
    script, batches, had = _script(tmp_path, monkeypatch, 50), queue.SimpleQueue(), []
    thread = _takes(script, batches, daemon=False)
    while (number := batches.get(timeout=60)) is not None:
        had.append(number)
    thread.join()
    assert had == list(range(51))
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "pipebench: prefetcher takes the batches, and no exit can end it. The script goes on."


@pytest.mark.parametrize(("ranks", "leaves"), [(None, True), (RankFound(0, 2), False)])
def test_a_loop_without_a_loader_ends_at_its_next_step(ranks, leaves, tmp_path, monkeypatch):
    """One rank alone must not: the others would wait for it."""
    settings = SimpleNamespace(folder=str(tmp_path), shared="")
    recording = SimpleNamespace(settings=settings, fault=None, before_stop=[], on=False)
    trying = Trying(recording, {}, lambda: None, TrainingDevice())
    monkeypatch.setattr(trying.looker, "stepped", lambda number: None)
    monkeypatch.setattr("pipebench.watch.trial.patching.present", lambda: ranks)
    trying.stepped(0)
    give(str(tmp_path), Order(1, leave=True))
    with pytest.raises(SystemExit) if leaves else nullcontext():
        trying.stepped(0)
