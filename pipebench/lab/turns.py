"""Takes the readings of one task in one process of each place: every row in turn, so that drift cancels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pipebench.lab.checking import Row, fail
from pipebench.lab.fresh import ProcessLost
from pipebench.results.measurement import FEWEST_READINGS
from pipebench.runner import Runner, RunnerFailed, Runners
from pipebench.task import OPEN_FILES, Task, Workload
from pipebench.units import printable

MOST_DEATHS = 2  # a row in whose turns so many processes died has failed
USUAL_TRIES = 512  # samples of a data set, unless a call has more: 50,000 would take hours
QUICK_TRIES = 16  # what a quick plan tries, unless a call has more samples
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Plan:
    """How long to measure in one process.

    Each variant gets `rounds` readings, or fewer if the task's `budget_s` runs out first, but at least `least_rounds`.
    Each reading takes about `reading_s`.
    """

    rounds: int = 24
    least_rounds: int = FEWEST_READINGS
    budget_s: float = 6.0
    reading_s: float = 0.010
    tries: int | None = None  # how many samples at most are tried before timing; None: all that are listed

    @classmethod
    def quick(cls) -> Plan:
        return cls(rounds=6, budget_s=0.8, tries=QUICK_TRIES)

    @classmethod
    def rigorous(cls) -> Plan:
        return cls(rounds=60, least_rounds=12, budget_s=40.0, reading_s=0.020)


def take_readings(
    task: Task,
    rows: list[Row],
    workload: Workload,
    runners: Runners,
    plan: Plan,
    progress: Progress,
    now: Callable[[], float],
) -> None:
    """Arms every row with its keys, then takes one reading of each in turn; the order rotates. In one process a place.

    If a process dies, its readings are forgotten, and another takes its place. A row in whose turns `MOST_DEATHS`
    processes died has failed.
    """
    while True:
        live = [row for row in rows if row.able]
        for row in live:
            row.counts.append(0)
        try:
            _renew(task, live, workload, runners)
            for row in (one for one in live if one.able):
                _guard(row, runners, partial(_arm, row, workload, plan))
            before = runners.load()
            _take_turns(task, rows, runners, plan, progress, now)
        except ProcessLost:
            for row in live:
                row.forget_process()
            continue
        load = runners.load() - before  # for all turns together: the counters tick every 10 ms, too coarse for one row
        for row in live:
            row.load += load
        return


def _renew(task: Task, live: Sequence[Row], workload: Workload, runners: Runners) -> None:
    """Gives each row its place for the readings, with a fresh process where a place can have one."""
    fresh: dict[int, bool] = {}
    keys = tuple(dict.fromkeys(key for row in live for key in row.keys))

    def settle(row: Row) -> None:
        place = runners.of(row.variant)
        if id(place) not in fresh:
            fresh[id(place)] = place.renew(task.id, workload, keys)
        if fresh[id(place)]:
            _prepare_again(row, place, workload)
        row.timed_in = place

    for row in live:
        _guard(row, runners, partial(settle, row))


def _prepare_again(row: Row, place: Runner, workload: Workload) -> None:
    if (prepared := place.prepare(row.id, workload)).skip_code is not None:
        raise RunnerFailed(f"it can be built in one process and not in another: {prepared.skip_reason}")


def _take_turns(
    task: Task, rows: Sequence[Row], runners: Runners, plan: Plan, progress: Progress, now: Callable[[], float]
) -> None:
    deadline = now() + plan.budget_s
    for turn in range(plan.rounds):
        if turn >= plan.least_rounds and now() > deadline:
            break
        live = [row for row in rows if row.able]
        for row in live[turn % len(live) :] + live[: turn % len(live)] if live else []:
            _guard(row, runners, partial(_read, row))
        progress(turn + 1, plan.rounds, f"{task.id}: timing {len(live)} variants")


def _guard(row: Row, runners: Runners, action: Callable[[], None]) -> None:
    """Does something for a row. An error is this row's.

    The death of a process that can be replaced counts as one in this row's turn, and goes on upwards.
    """
    try:
        action()
    except ProcessLost as error:
        row.deaths += 1
        row.codes.add("process-lost")
        if row.deaths >= MOST_DEATHS:
            row.failed = printable(str(error))
        raise
    except Exception as error:
        fail(row, runners, error)


def _arm(row: Row, workload: Workload, plan: Plan) -> None:
    """Loads the inputs and makes two calls. In the first process, also sets the size of a block.

    In the other processes, a call that takes as long as a reading is made once: a second would be a third of the time.
    """
    assert row.timed_in is not None
    first = row.work is None
    work = row.timed_in.arm(row.id, workload, row.keys, row.called)
    if first or row.calls > 1:
        first_s, _ = row.timed_in.reading(row.called, 1)
        if first:
            row.first_s, row.calls = first_s, _calls(row, row.timed_in, workload, plan)
    row.work = work  # last: where the process dies before, the next one is the first


def _calls(row: Row, place: Runner, workload: Workload, plan: Plan) -> int:
    """How many calls make a block that takes about as long as a reading."""
    if workload.cache == "cold" and row.variant.stage in OPEN_FILES:
        return 1  # a second call would find the files warm
    once, _ = place.reading(row.called, 1)
    return max(1, math.ceil(plan.reading_s / max(once, 1e-9)))


def _read(row: Row) -> None:
    assert row.timed_in is not None
    seconds, code = row.timed_in.reading(row.called, row.calls)
    row.readings.append(seconds)
    row.counts[-1] += 1
    if code:
        row.codes.add(code)
