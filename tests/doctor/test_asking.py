"""Other programs: what they said before their deadline is known, and none outlives it."""

import contextlib
import time

import psutil

from pipebench.doctor import probe
from pipebench.doctor.asking import Answer, asked
from pipebench.doctor.host import WHOLE_S, left_s, said

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
    probe.main(asked_for)
    found = probe.answers(capsys.readouterr().out)
    assert found == {"a": {"error": "SystemExit: I leave"}, "b": {"missing": True}, "c": {"x": 1}}


def test_every_library_is_asked_for_once():
    assert sorted(name for names in probe.PARTS for name in names) == sorted(probe.ASKED)


def test_other_programs_get_what_is_left_of_the_ten_seconds():
    """Found under load: two seconds of watching and six for torch were 10.4 s, with the start and the checks."""
    assert 5.0 < left_s(2.6) == left_s(3.6) + 1 and 3.6 + left_s(3.6) < WHOLE_S
    assert left_s(60.0) == 2.0


def test_a_library_that_was_too_late_is_told_from_one_that_ended_its_process():
    answers, late = said([Answer("", -11), Answer(f'{probe.MARK}["torch", {{"version": "2"}}]\n', None)], 5.5)
    assert answers == {"torch": {"version": "2"}}
    assert set(late) == set(probe.PARTS[1]) and late["device"] == 5.5
    assert said([None, Answer("", 0)], 5.5) == ({}, {})
