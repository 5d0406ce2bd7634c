"""What looks find where nothing says that more of a loop comes, and what a child that trains says of itself."""

import os
import sys
import threading

import pytest
import torch
from looked_at import made_up_recording

from pipebench.watch.read.gather import gather
from pipebench.watch.record.program_lines import LoadsInFork, StartLooks
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script.forks import tell_of_fork
from pipebench.watch.script.looked_lines import AfterLoops
from pipebench.watch.script.loop_looks import RARELY_S, LoopLooker


def _look(looker):
    other = threading.Thread(target=looker._look)
    other.start()
    other.join()


def _after(recording):
    return [one for one in recording.written if isinstance(one, StartLooks)]


@pytest.fixture
def looker(monkeypatch):
    monkeypatch.setattr(LoopLooker, "go_on", lambda self: None)
    one = LoopLooker(made_up_recording(), RARELY_S)
    yield one
    one.end()


def _loop(looker):
    for _ in range(3):
        looker.came(1, sys._getframe())
        _look(looker)
    looker.left(sys._getframe())


def test_looks_after_the_last_loop_are_told(looker):
    _loop(looker)
    _look(looker)
    _loop(looker)
    for _ in range(4):
        _look(looker)
    looker.end()
    (line,) = _after(looker.recording)
    assert line.after and line.looks == 4 and line.end > line.begin
    assert sum(one.looks for one in line.lines) == 4 and line.lines[0].file == __file__


def test_of_a_loop_that_goes_on_nothing_is_told(looker):
    _loop(looker)
    looker.came(1, sys._getframe())
    _look(looker)
    looker.end()
    assert _after(looker.recording) == []


def test_what_was_seen_is_forgotten_when_more_comes():
    seen, recording = AfterLoops(), made_up_recording()
    for looks in (1, 2):
        seen.begins(True)
        for _ in range(looks):
            seen.note(sys._getframe())
    seen.write(recording)
    assert [(one.looks, one.after) for one in recording.written] == [(2, True)]
    seen.begins(False)
    seen.note(sys._getframe())
    seen.write(recording)
    assert len(recording.written) == 1


def test_a_forked_process_that_loads_says_so_once(tmp_path):
    recording = Recording(Settings(str(tmp_path)), "script")
    loader = torch.utils.data.DataLoader([1, 2])
    child = os.fork()
    if not child:
        for _ in range(2):
            tell_of_fork(recording, loader)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    found = [(one.pid, one.role, line.dataset) for one in gather(tmp_path) for line in one.of(LoadsInFork)]
    assert found == [(child, "fork", "list")]
