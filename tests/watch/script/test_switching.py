"""How soon Python lets the looking thread run, and that the script finds its own setting again."""

from __future__ import annotations

import _thread
import os
import sys
import threading
import time

import pytest
import torch  # noqa: F401  (what is written of a loop asks it)
from looked_at import made_up_recording

from pipebench.watch.script import loop_looks
from pipebench.watch.script.loop_looks import RARELY_S, LoopLooker
from pipebench.watch.script.switching import SOON_S, Switching


@pytest.fixture(autouse=True)
def _plain():
    plain = sys.getswitchinterval()
    yield
    sys.setswitchinterval(plain)


def test_it_is_set_and_set_back():
    plain, switching = sys.getswitchinterval(), Switching()
    assert switching.plain_s == plain
    switching.soon()
    switching.soon()
    assert sys.getswitchinterval() == pytest.approx(SOON_S) and switching.plain_s == plain
    switching.back()
    switching.back()
    assert sys.getswitchinterval() == switching.plain_s == plain


def test_what_the_script_sets_stays():
    switching = Switching()
    switching.soon()
    sys.setswitchinterval(0.5)
    switching.back()
    assert sys.getswitchinterval() == 0.5


def test_what_the_script_has_read_meanwhile_and_sets_again_is_not_kept():
    plain, switching = sys.getswitchinterval(), Switching()
    switching.soon()
    read = sys.getswitchinterval()
    sys.setswitchinterval(0.5)
    switching.back()
    sys.setswitchinterval(read)
    assert switching.plain_s == plain
    switching.soon()
    switching.back()
    assert sys.getswitchinterval() == plain


def test_a_shorter_time_stays():
    sys.setswitchinterval(SOON_S / 10)
    short, switching = sys.getswitchinterval(), Switching()
    switching.soon()
    assert sys.getswitchinterval() == short
    switching.back()
    assert sys.getswitchinterval() == short


@pytest.fixture
def made_up():
    looker = LoopLooker(made_up_recording(), RARELY_S)
    yield looker
    looker.end()


@pytest.mark.parametrize("met", [False, True])
def test_while_the_loop_is_looked_at_and_no_other_thread_runs(met, made_up, monkeypatch):
    plain, looker = sys.getswitchinterval(), made_up
    looker.others.met = met
    waits, looks = [], []
    monkeypatch.setattr(looker.others, "sleeps", lambda seconds: waits.append(sys.getswitchinterval()))
    monkeypatch.setattr(looker, "_look", lambda again=False: looks.append(sys.getswitchinterval()))
    looker.came(1, sys._getframe())
    while len(looks) < 3:
        time.sleep(0.01)
    looker.pause()
    assert waits == [pytest.approx(plain if met else SOON_S)] * len(waits)
    assert looks == [plain] * len(looks), "else the thread of the loop could go on while its frames are read"
    assert sys.getswitchinterval() == plain


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks")
def test_a_fork_has_the_plain_time(made_up):
    plain = sys.getswitchinterval()
    made_up.came(1, sys._getframe())
    child = os.fork()
    if not child:
        os._exit(sys.getswitchinterval() != plain)
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_that_ends_too_late_ends_without_a_word(made_up, monkeypatch):
    """As on a machine that has no core for it for a second: what it would say is on the script's stderr."""
    looks, goes_on, said = threading.Event(), threading.Event(), []
    monkeypatch.setattr(loop_looks, "_PATIENCE_S", 0)
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    monkeypatch.setattr(made_up, "_look", lambda again=False: looks.set() or goes_on.wait())
    before = _thread._count()
    made_up.came(1, sys._getframe())
    looks.wait()
    made_up.pause()
    goes_on.set()
    while _thread._count() > before:
        time.sleep(0.01)
    assert not said
