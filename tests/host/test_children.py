"""How real processes ended, without waiting for them and without taking their status from whoever does."""

import multiprocessing
import os
import signal
import sys
import time

import pytest

from pipebench.host.children import ended, how, lost_in

HOW = {0: lambda: os._exit(0), 3: lambda: sys.exit(3), -9: lambda: os.kill(os.getpid(), signal.SIGKILL)}


@pytest.mark.parametrize("status", HOW)
def test_the_status_is_known_and_stays(status):
    process = multiprocessing.get_context("fork").Process(target=HOW[status])
    process.start()
    end = time.monotonic() + 60
    while ended(process) is None and time.monotonic() < end:
        time.sleep(0.01)
    assert ended(process) == status
    process.join()
    assert process.exitcode == ended(process) == status


def test_a_process_that_runs_has_not_ended():
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    process.start()
    try:
        assert ended(process) is None
    finally:
        process.kill()
        process.join()


class Worker:
    def __init__(self, status):
        self._popen = self
        self.returncode = status


class Iterator:
    """As torch's: it holds its workers and raises."""

    def __init__(self, *statuses):
        self._workers = [Worker(status) for status in statuses]

    def next(self):
        return self.data()

    def data(self):
        raise RuntimeError("a worker exited unexpectedly")


def test_the_lost_workers_of_the_loader_that_raised():
    with pytest.raises(RuntimeError) as raised:
        Iterator(1, 0, -9).next()
    assert [how(status) for _, status in lost_in(raised.value.__traceback__)] == [
        "left with exit status 1",
        "left with exit status 0",
        "was killed by SIGKILL",
    ]
    with pytest.raises(ZeroDivisionError) as other:
        1 / 0  # noqa: B018
    assert not list(lost_in(other.value.__traceback__))
