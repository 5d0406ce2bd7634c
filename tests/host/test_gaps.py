"""Gaps are noticed: a real stop of this process, and a suspension by a clock that is made up."""

import os
import signal
import time

import pytest

from pipebench.host.gaps import GAP, TAKEN_ANEW, Gaps, StoppedAgain, suspended_s
from pipebench.host.machine import Load
from pipebench.results.measurement import warnings_of
from pipebench.runner import LocalRunner


def test_a_suspension_is_the_difference_of_two_clocks():
    now = {time.CLOCK_MONOTONIC: 100.0, time.CLOCK_BOOTTIME: 160.0}
    assert suspended_s(now.__getitem__) == 60.0


def test_a_core_that_is_lost_between_the_clocks_is_no_suspension():
    moments = iter([100.0, 103.0, 103.0, 103.0, 103.0, 103.0])
    assert suspended_s(lambda clock: next(moments)) == 0.0


def test_the_clocks_of_this_machine_agree():
    assert abs(suspended_s() - suspended_s()) < 0.01


def test_a_stop_ends_with_a_signal_that_is_noticed():
    before = signal.getsignal(signal.SIGCONT)
    with Gaps() as gaps:
        mark = gaps.mark()
        assert not gaps.since(mark)
        os.kill(os.getpid(), signal.SIGCONT)
        assert gaps.since(mark) and not gaps.since(gaps.mark())
    assert signal.getsignal(signal.SIGCONT) == before


def test_the_handler_of_somebody_else_stays():
    heard = []
    before = signal.signal(signal.SIGCONT, lambda *_: heard.append(1))
    try:
        with Gaps():
            os.kill(os.getpid(), signal.SIGCONT)
        assert heard == [1]
    finally:
        signal.signal(signal.SIGCONT, before)


class Stopped(LocalRunner):
    """Its first readings are interrupted by stops, and take long because of that."""

    def __init__(self, stops, gaps):
        super().__init__(gaps=gaps)
        self.stops = stops

    def _taken(self, identity, calls):
        self.stops -= 1
        if self.stops >= 0:
            os.kill(os.getpid(), signal.SIGCONT)
        return (9.0 if self.stops >= 0 else 1.0), None


@pytest.mark.parametrize(("stops", "code"), [(0, None), (1, GAP), (TAKEN_ANEW, GAP)])
def test_a_reading_with_a_gap_is_taken_again_and_said(stops, code):
    with Gaps() as gaps:
        assert Stopped(stops, gaps).reading("decode/rgb/pillow", 1) == (1.0, code)
    said = [one.problem for one in warnings_of([1.0] * 9, Load(), {code} - {None})]
    assert any("was stopped" in one for one in said) == (code is not None)


def test_a_process_that_is_stopped_again_and_again_gives_no_reading():
    with Gaps() as gaps, pytest.raises(StoppedAgain, match="stopped in every reading"):
        Stopped(TAKEN_ANEW + 1, gaps).reading("decode/rgb/pillow", 1)
