"""A limit for what would otherwise never end."""

import contextlib
import signal

import pytest


@contextlib.contextmanager
def within(seconds):
    """Fails the test if the block takes longer. Nothing in it catches that, because it is no `Exception`."""

    def late(*_):
        pytest.fail("it does not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
