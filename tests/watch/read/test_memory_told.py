"""Whose memory is told: of all processes only if a look met a worker, else of the script's own."""

from __future__ import annotations

import pytest

from pipebench.render import watch_details
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.read.gather import Process, Run, ShownTime
from pipebench.watch.read.host_use import host
from pipebench.watch.record.lines import ProcessStarted

MB = 10**6
OWN = "300 MB in the script's own process."


@pytest.mark.parametrize(
    ("workers_mb", "said"),
    [
        (120, f"Memory: 420 MB in all processes, shared pages counted once; {OWN}"),
        (None, f"Memory: {OWN} Its workers ended before they were measured."),
    ],
)
def test_memory_of_all_processes_is_not_told_if_no_worker_was_met(workers_mb: int | None, said: str) -> None:
    run = [Process([ProcessStarted(1, "script", 0)]), Process([ProcessStarted(20, "worker", 0, 1, 0, "fork")])]
    held = {1: Held(pss_bytes=300 * MB)} | ({} if workers_mb is None else {20: Held(pss_bytes=workers_mb * MB)})
    seen = Footprint(processes=held, pss_bytes=(300 + (workers_mb or 0)) * MB)
    assert next(iter(watch_details.host(host(Run(run, ShownTime(), (1,)), [1], seen), 8))) == said
