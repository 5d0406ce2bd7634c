"""Records of a run of which everything is known, for tests of its account."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from render import made_up

from pipebench.render import layout, watch_account, watch_causes
from pipebench.results.account import Account, Cause
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.read.gather import Process
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import (
    Arrival,
    FetchSums,
    LibraryThreads,
    Line,
    LoaderFound,
    LoopSums,
    Moment,
    NewStage,
    PassBegun,
    Pool,
    ProcessStarted,
    StageName,
)
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

MS = 1_000_000
TURNS = 100


class Planted:
    """A run of which everything is known, in milliseconds: one TimeSpent line for each part."""

    def __init__(self) -> None:
        self.lines: list[Line] = [ProcessStarted(1, "script", 0)]
        self.workers: list[Process] = []
        self.now = self.cpu = 0
        self.first_pass = 0, 1000 * MS
        self.outside(100, "before")

    def outside(self, spent: int, where: Any = "between") -> None:
        self.lines.append(TimeSpent(self.now, self.now + spent * MS, spent * MS, where, [], self.cpu))
        self.now += spent * MS

    def loader(self, number: int = 1, *, trains: bool = True, passes: int = 1, cpu: int = 0, **how: Any) -> None:
        """A loader, and its passes. What is left of `how` are rows of each pass in ms, by the names of `ROWS`."""
        found = LoaderFound(
            number, "Photos", how.pop("workers", 2), 4, "fork", 2, how.pop("persistent", False),
            can_persist=how.pop("can_persist", True),
            shards=how.pop("shards", 0 if how.pop("iterable", False) else None),
        )  # fmt: skip
        twice, asked = how.pop("twice", 0) * MS, how.pop("asked", 0) * MS
        besides = None if (besides := how.pop("besides", None)) is None else besides * MS
        idle, waits, arrived = how.pop("idle", None), how.pop("waits", []), how.pop("arrived", [])
        no_core = how.pop("no_core", 0) * MS
        self.lines.append(found)
        rows = [how.pop(name.replace("-", "_"), 0) * MS for name in ROWS]
        assert not how
        if number == 1:
            self.first_pass = self.now, self.now + sum(rows)
        for one in range(passes):
            arrivals = arrived or [Arrival(task, 1, 0, 0, wait, 0, 0, 0) for task, wait in enumerate(waits)]
            phases = [sum(rows[:10]), rows[10], *rows[11:15]]
            self.lines += [
                PassBegun(number, one, self.now, twice_ns=twice),
                LoopSums(
                    number, one, 0, self.now, TURNS, TURNS * trains, phases, rows[0], arrivals=arrivals,
                    wait_parts_ns=[0, asked, *[0] * 7], core_wait_ns=one * no_core,
                    idle=None if idle is None else DeviceIdleTime(idle * MS, TURNS - 1, besides),
                ),
                TimeSpent(self.now, self.now + sum(rows), 0, "between", [SpentInPass(number, one, rows)], self.cpu),
            ]  # fmt: skip
            self.now += sum(rows)
            self.cpu += cpu * MS

    def worker(self, number: int = 0, *, busy: float = 1.0, cpu: float = 1.0, threads: int = 0, **more: Any) -> None:
        """A worker that made batches for `busy` of the first pass over loader 1, `cpu` of this on a core.

        Times of `more` that end in `_ns` are those of a pass of one second.
        """
        begin, end = self.first_pass
        spent = int(busy * (end - begin))
        more = {
            name: value * (end - begin) // (1000 * MS) if name[-3:] == "_ns" else value for name, value in more.items()
        }
        sums = [
            FetchSums(
                1, begin, begin + 1, batches=1, samples=1, stages_ns={1: 1},
                process_cpu_ns=min(1, more.get("process_cpu_ns", 0)),
            ),
            FetchSums(
                1, begin + 1, end, busy_ns=spent, cpu_ns=int(cpu * spent),
                stages_ns={1: int(0.7 * spent), 2: int(0.3 * spent)}, **{"batches": 50, "samples": 200, **more},
            ),
        ]  # fmt: skip
        pools = [Pool("OpenBLAS", 4, "OPENBLAS_NUM_THREADS=1")] if threads else []
        self.workers.append(Process([
            ProcessStarted(20 + number, "worker", 0, 1, number, "fork"), NewStage(1, StageName("decode", "load", True)),
            NewStage(2, StageName("transform", "Flip")), *sums, LibraryThreads(pools, threads or None),
            Moment("end", self.now),
        ]))  # fmt: skip

    def account(
        self, cores: float = 4, footprint: Footprint | None = None, ran_on: int = 0, warmup: int = 0
    ) -> Account:
        last = Moment("stop" if ran_on else "end", self.now + MS)
        self.lines += [TimeSpent(self.now, self.now + MS, MS, "after", [], self.cpu), last]
        processes = [Process(self.lines), *self.workers]
        seen = footprint or Footprint()
        found = summarise(
            processes, WatchOptions(warmup=warmup), 0, cores, seen, lived=(0, self.now + MS + ran_on * MS)
        ).account
        assert found is not None
        assert sum(one.s for one in found.rows) == pytest.approx(found.wall_s, abs=1e-9)
        assert all(one.code in watch_causes.SENTENCES for one in found.causes)
        return found

    def causes(self, cores: float = 4) -> dict[str, Cause]:
        return {one.code: one for one in self.account(cores).causes}


TRAINS = {"forward": 400, "backward": 500, "optimiser": 100}


def said(account: Account) -> str:
    run = replace(made_up.watched(), account=account)
    return " ".join(layout.text(watch_account.causes(run), width=80).split())
