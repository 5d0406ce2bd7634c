"""Other programs: what they said before their deadline is known, and none outlives it."""

import contextlib
import time

import psutil

from pipebench.doctor import probe
from pipebench.doctor.asking import asked

SLOW = "sleep 60 & echo $!; sleep 60"


def test_what_was_said_before_the_deadline_is_known_and_nothing_is_left():
    slow, quick, none = asked([("sh", "-c", SLOW), ("echo", "here"), ("no-such-program",)], 1.0)
    assert (slow.status, quick.text, quick.status, none) == (None, "here\n", 0, None)
    with contextlib.suppress(psutil.NoSuchProcess):  # the kernel ends it soon after the signal
        until = time.monotonic() + 60
        while psutil.Process(int(slow.text)).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_library_that_talks_and_a_line_that_is_cut():
    said = f'hello\n{probe.MARK}["pillow", {{"version": "1"}}]\n{probe.MARK}["torch", {{"err'
    assert probe.answers(said) == {"pillow": {"version": "1"}}


def test_each_library_answers_for_itself(capsys, monkeypatch):
    def broken():
        raise SystemExit("I leave")

    asked_for = {"a": ("json", broken), "b": ("no_such", broken), "c": ("json", lambda: {"x": 1})}
    monkeypatch.setattr(probe, "ASKED", asked_for)
    probe.main()
    found = probe.answers(capsys.readouterr().out)
    assert found == {"a": {"error": "SystemExit: I leave"}, "b": {"missing": True}, "c": {"x": 1}}
