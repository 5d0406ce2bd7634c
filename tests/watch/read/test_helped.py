"""What threads of the script's own do while the loop waits for them, as it makes a batch itself, is told."""

from __future__ import annotations

import pytest

from pipebench.render.in_loop import helped
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.helped import helpers
from pipebench.watch.record.lines import LoopLooks, ProcessStarted
from pipebench.watch.record.trial_lines import LineLooks


@pytest.mark.parametrize(
    ("making", "looks", "count", "told"),
    [(60, 40, 30, True), (60, 40, 10, False), (12, 12, 12, False), (100, 40, 30, False)],
)
def test_a_function_with_half_of_the_looks_is_named(making: int, looks: int, count: int, told: bool) -> None:
    lines = [LineLooks("/a/train.py", "download", 4, "", count), LineLooks("/a/train.py", "work", 9, "", 2)]
    seen = LoopLooks(1, "/a/train.py", 50, [], making=making, for_threads=looks, helpers=lines)
    found = helpers(Run([Process([ProcessStarted(1, "script", 0), seen])], ShownTime(), (1,)), 1)
    assert bool(found) == told == bool(helped(found))
    if told:
        assert helped(found) == (
            " There, it waits for other threads: in 75 % of the stack samples, some of these are in download "
            "(train.py:4)."
        )
