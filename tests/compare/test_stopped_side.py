"""A side of a comparison that is stopped in a reading: the reading is taken again, and the benchmark's row says so."""

import os
import signal
from types import SimpleNamespace

import pytest

from pipebench.compare import round_process, rounds, schedule
from pipebench.compare.server import Server
from pipebench.render.ab import notes


class Runner:
    """Its first readings are interrupted by stops, each of which ends with SIGCONT, and take long because of that."""

    def __init__(self, stops):
        self.stops = stops

    def reading(self, identity, calls):
        self.stops -= 1
        if self.stops >= 0:
            os.kill(os.getpid(), signal.SIGCONT)
        return (9.0 if self.stops >= 0 else 1.0), None


@pytest.mark.parametrize(("stops", "again"), [(0, False), (1, True)])
def test_in_the_side_the_reading_is_taken_again(stops, again):
    side, before = round_process.Side(None), signal.signal(signal.SIGCONT, signal.SIG_DFL)
    try:
        side.begin(0)
        side._runner = Runner(stops)
        assert side.reading("bench/a", 1) == (1.0, None, again)
    finally:
        signal.signal(signal.SIGCONT, before)


class Answering(Server):
    """A server whose side was stopped in its third reading."""

    def __init__(self):
        self.taken_again, self._readings, self.side = 0, 0, SimpleNamespace(label="a")

    def send(self, method, *arguments):
        pass

    receive = leave = lambda self: None

    def _ask(self, method, *arguments):
        self._readings += 1
        return 1.0, None, self._readings == 3


def test_the_row_says_it():
    row, servers, clock = schedule.Row("bench/a"), [Answering(), Answering()], iter(range(1000))
    row.add(*rounds._round(row, servers, servers, {}, lambda: next(clock) / 20))
    said = " ".join(notes([rounds._change(row, 1)]))
    assert "2 readings taken again, because a side was stopped (SIGSTOP) or the machine suspended" in said
    assert "again" not in " ".join(notes([rounds._change(schedule.Row("bench/a", rounds=row.rounds), 1)]))
