"""How long a device is idle in waits: one mean for the verdict, the account and predictions."""

from __future__ import annotations

import pytest
from planted_runs import MS, TRAINS, Planted

from pipebench.watch.read.device_idle import in_waits
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import LoopSums


def test_the_mean_is_of_the_waits_that_were_measured() -> None:
    lines = [LoopSums(1, 0, turns=4, idle=DeviceIdleTime(6 * MS, 3)), LoopSums(1, 0, turns=9)]
    assert in_waits(lines) == (pytest.approx(0.002), 3)
    assert in_waits(lines[1:]) is None


def test_waits_that_were_not_measured_are_as_the_others() -> None:
    """Of 99 waits of 10 ms, 50 were measured: the device was idle for 2 ms of each."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=990, idle=0)
    (line,) = (one for one in run.lines if isinstance(one, LoopSums))
    line.idle = DeviceIdleTime(100 * MS, 50)
    (row,) = (one for one in run.account().rows if one.code == "wait-for-worker")
    assert row.recoverable_s == pytest.approx(0.2 * 0.99)
