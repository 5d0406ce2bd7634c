"""A loop that takes one batch and then trains on it for long: what is kept of that iteration has a bound."""

from __future__ import annotations

from pathlib import Path

import pytest
from clockwork import Clock, loop_by

from pipebench.watch.read.decoding import read
from pipebench.watch.record.lines import IterationInFull, LoopSums
from pipebench.watch.record.record_file import FORWARD, OTHER
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script.phases import LoopPhases

STEPS = 100_000


class Iterator:
    """Of a loader, as far as a loop looks at it."""


def test_a_long_iteration_is_kept_in_part_and_counted_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = Clock()
    loop_by(clock, monkeypatch)
    loop = LoopPhases(Recording(Settings(str(tmp_path), every=1), "script"))
    iterator = Iterator()
    loop.pass_begins(iterator, 1, 0)
    for steps in (STEPS, 2):
        loop.before_next(iterator)
        loop.after_next(iterator, None)
        for _ in range(steps):
            clock.burn(10)
            loop.spend(FORWARD)
        assert len(loop.here.open[-1].log) <= 8192 + 3
    loop.before_next(iterator)
    loop.after_next(iterator, "exhausted")
    lines, _ = read(next(tmp_path.iterdir()))
    spent = sum(one.phases_ns[FORWARD] for one in lines if isinstance(one, LoopSums))
    assert spent == (STEPS + 2) * 10
    long, short = (one.phases for one in lines if isinstance(one, IterationInFull))
    assert len(long) % 3 == 0 and len(long) > 8_000
    assert short[-9:] == [
        *(clock.now - 20, clock.now - 10, FORWARD),
        *(clock.now - 10, clock.now, FORWARD),
        *(clock.now, clock.now, OTHER),
    ]
