"""Where the loop's thread waits for other threads while it makes a batch itself, what these do is looked at."""

import sys
import threading

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from pipebench.watch.script.helper_threads import at_work_for


class _Held:
    """A thread that stays in `download` until it is let go."""

    def __init__(self, looker):
        self.looker, self.main = looker, threading.get_ident()
        self.found, self.go_on = [], threading.Event()

    def download(self):
        while not _waits(sys._current_frames()[self.main]):
            pass
        frames = sys._current_frames()
        self.found.append(at_work_for(self.main, frames))
        if self.looker is not None:
            self.looker.of._look()
        self.go_on.set()


def _waits(frame):
    return frame.f_code.co_filename == threading.__file__ and frame.f_code.co_name == "wait"


class _Stream(IterableDataset):
    def __init__(self, held):
        self.held = held

    def __iter__(self):
        threading.Thread(target=self.held.download).start()
        self.held.go_on.wait()
        yield torch.ones(1)


def test_the_function_of_a_stream_s_own_thread_is_found():
    held = _Held(None)
    assert len(list(DataLoader(_Stream(held), batch_size=1))) == 1
    (lines,) = held.found
    assert [(one.file, one.function) for one in lines] == [(__file__, "_Held.download")]


def test_outside_of_a_batch_nothing_is_counted(looker):
    held = _Held(looker)
    looker.of.came(1, sys._getframe())
    threading.Thread(target=held.download).start()
    held.go_on.wait()
    looker.of.end()
    assert all(not one.making for one in looker.written)


def test_looks_count_it(looker):
    held = _Held(looker)
    for _ in range(1):
        looker.of.came(1, sys._getframe())
        assert len(list(DataLoader(_Stream(held), batch_size=1))) == 1
    looker.of.end()
    (line,) = looker.written
    assert (line.making, line.for_threads) == (1, 1) and [one.looks for one in line.helpers] == [1]


@pytest.mark.parametrize("frames", [{}, {1: None}])
def test_a_thread_that_is_gone_waits_for_none(frames):
    assert at_work_for(0, frames) is None
