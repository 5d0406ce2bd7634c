"""A script may run threads while its workers are forked: what they hold of ours at that moment is held in no child."""

import ast
import os
import signal
from pathlib import Path

import pytest

from pipebench.native import region
from pipebench.watch.record.exclusive_time import Stages

WATCH = Path(__file__).parents[2] / "pipebench" / "watch"
IN_THE_SCRIPT = ("record", "stages", "worker", "script", "trial")
LOCKS = {"Lock", "RLock", "Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier", "SimpleQueue"}


def test_what_records_has_no_lock():
    """A thread that holds a lock is not in the forked process, so nobody would release it there."""
    files = [one for room in IN_THE_SCRIPT for one in (WATCH / room).glob("*.py")]
    assert len(files) > 50
    for file in files:
        calls = [one.func for one in ast.walk(ast.parse(file.read_text())) if isinstance(one, ast.Call)]
        names = {getattr(one, "attr", getattr(one, "id", "")) for one in calls}
        asked = {"Event"} if file.name == "device_idle.py" else set()  # those of a device
        assert names & LOCKS <= asked, file


def test_a_thread_that_was_naming_a_stage():
    stages = Stages()
    stages.number("transform", "flip")
    next(stages._numbers)  # as far as the other thread had come
    stages.all_again()  # what a forked process calls first
    assert stages.kind(stages.number("decode", "open")) == "decode"


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_thread_that_was_registering_the_operator():
    with region._registering:
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # ends a child that waits for ever
            free = region._registering.acquire(blocking=False)
            os._exit(0 if free else 1)
    assert os.waitpid(child, 0)[1] == 0
