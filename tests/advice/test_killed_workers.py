"""A worker of a changed loader is killed: an error of the trial, and of nothing that the script does meanwhile."""

import os
import signal

import pytest
from torch.utils.data import DataLoader
from torch.utils.data.dataloader import _BaseDataLoaderIter

from pipebench.watch.trial import arms
from pipebench.watch.trial.dealing import Deal


def _killed(worker):
    os.kill(worker.pid, signal.SIGKILL)
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)  # torch's handler, if any, has run when this is over


def test_a_worker_that_is_killed_is_an_error_of_the_next_batch_only():
    loader = DataLoader(range(64), batch_size=2, num_workers=1, multiprocessing_context="fork")
    deal = Deal(iter(loader._index_sampler))
    arm = arms.opened(arms.changed(loader, {}, False), deal, DataLoader.__iter__, _BaseDataLoaderIter.__next__)
    arm.begin()
    assert arm.draw().tolist() == [0, 1]
    _killed(arm.iterator._workers[0])
    with pytest.raises(RuntimeError, match="worker"):
        arm.draw()
    arm.end()
    assert deal.next() == [2, 3]  # the script's own loader makes what is missing


def test_a_worker_of_the_scripts_own_is_what_it_was():
    loader = DataLoader(range(64), batch_size=2, num_workers=1, multiprocessing_context="fork")
    iterator = iter(loader)
    arm = arms.joined(iterator, _BaseDataLoaderIter.__next__)
    assert arm.draw().tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="killed by signal"):
        _killed(iterator._workers[0])
