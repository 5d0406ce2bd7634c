"""Causes that looks from outside tell: the state of workers over time, and their memory."""

from __future__ import annotations

from typing import Any

import pytest
from planted_runs import TRAINS, Planted, said

from pipebench.host.machine import Load
from pipebench.results.account import Account
from pipebench.watch.launch.footprint import Footprint, Held
from pipebench.watch.launch.over_time import OverTime, Seen
from pipebench.watch.record.lines import LoaderFound, PassBegun


def _looked_at(states: str, **more: Any) -> Account:
    """Two blocked workers, and the states of each in the looks from outside: s asleep, d for storage, r on a core."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=1000)
    seen = Footprint(**more)
    for number in range(2):
        run.worker(number, cpu=0.1)
        over = OverTime([Seen(0.5, 0, 0), Seen(1.5, 0, 2_000_000)], len(states), states.count("s"), states.count("d"))
        seen.processes[20 + number] = Held(over_time=over)
    return run.account(footprint=seen)


@pytest.mark.parametrize(
    ("states", "codes"),
    [
        ("ssssssssr", ["workers-blocked"]),
        ("ddddddddr", ["storage"]),
        ("ddddssss", ["storage", "workers-blocked"]),
        ("rrrrrrrr", ["workers-blocked"]),
    ],
)
def test_storage_is_told_from_other_waits_by_the_state_of_the_workers(states: str, codes: list[str]) -> None:
    account = _looked_at(states)
    found = [one for one in account.causes if one.code != "training"]
    assert [one.code for one in found] == codes and all(one.unsure == (len(codes) > 1) for one in found)
    if codes[0] == "storage":
        assert found[0].values["bytes_per_s"] == pytest.approx(4e6)
        assert "They wait for storage, which gives 4.00 MB/s: 2 workers busy 100 %" in said(account)
    elif "s" in states:
        assert "They sleep, or wait for a network or a lock: 2 workers" in said(account)


def test_workers_that_were_seen_asleep_do_not_wait_for_a_core() -> None:
    """Other processes use all cores, so no core is idle; but the workers would not use it."""
    busy = {"load": Load(10.0, 40.0, 0.0, 0.0, 0.0), "machine_cores": 4}
    assert next(one.code for one in _looked_at("ssss", **busy).causes) == "workers-blocked"
    assert next(one.code for one in _looked_at("rrrr", **busy).causes) == "stage"


def test_what_storage_gives_and_what_a_pass_keeps_is_told_with_what_is_between_passes() -> None:
    """Two passes of 1.4 s, and 1 s between them, in which workers that live on have nothing to do."""
    run = Planted()
    run.loader(**TRAINS, wait_for_worker=400, persistent=True)
    run.worker(cpu=0.1)
    run.outside(1000)
    between = run.now
    run.loader(**TRAINS, wait_for_worker=400, persistent=True)
    run.lines.remove(next(one for one in reversed(run.lines) if isinstance(one, LoaderFound)))
    run.lines[run.lines.index(PassBegun(1, 0, between))] = PassBegun(1, 1, between)
    moments = [Seen(0.2 + 0.1 * at, 10**8 + at * 500_000, at * 100_000) for at in range(36)]
    seen = Footprint({20: Held(over_time=OverTime(moments, 36, 0, 36))}, free_bytes=10**9)
    found = {one.code: one for one in run.account(footprint=seen).causes}
    assert found["memory-growth"].values["pass_bytes"] == pytest.approx(5e6 * 2.4)
    assert found["storage"].values["bytes_per_s"] == pytest.approx(35 * 100_000 / 2.5)


def test_memory_that_grows_is_told_with_its_end() -> None:
    def run(bytes_per_s: int, free: int, passes: int = 1, persistent: bool = True) -> Account:
        made = Planted()
        made.loader(**TRAINS, passes=passes, persistent=persistent)
        made.worker()
        over = OverTime([Seen(one, 10**8 + one * bytes_per_s) for one in range(12)], 12)
        return made.account(footprint=Footprint({20: Held(over_time=over)}, free_bytes=free))

    account = run(5_000_000, 10**9, passes=2)
    (found,) = [one for one in account.causes if one.code != "training"]
    assert (found.code, found.s) == ("memory-growth", 0.0) and found.values["pass_bytes"] == pytest.approx(5e6)
    assert (
        "The memory of the workers of loader 1 grew by 5.00 MB/s, 5.00 MB a pass, in 2.00 s of its loops. If it does "
        "not level off, as a buffer does that fills, the free 1.00 GB end in 3.33 min" in said(account)
    )
    assert "is worth a change" not in said(account)
    ends_with_each_pass = run(5_000_000, 10**9, passes=2, persistent=False)
    too_far = run(5_000_000, 10**10), run(5_000_000, 10**13)  # 2,000 s, of a run of a second; more than a day
    for nothing in (run(0, 10**9), *too_far, ends_with_each_pass):
        assert [one.code for one in nothing.causes] == ["training"]
