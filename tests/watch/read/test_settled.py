"""The figures of an iteration, without the iterations whose batches workers made as they started."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipebench.render import layout
from pipebench.render.watch import parts
from pipebench.render.watch_verdict import verdict
from pipebench.results.watched import WatchResult
from pipebench.watch.read.gather import Process
from pipebench.watch.read.rank_groups import in_loops_s
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.device_lines import DeviceIdleTime
from pipebench.watch.record.lines import Line, LoaderFound, LoadersTogether, LoopSums, PassBegun, ProcessStarted
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.record_file import WAIT_PARTS
from pipebench.watch.record.spent import ROWS, SpentInPass, TimeSpent

MS = 1_000_000
READY, WAITED = 0, 9


def _loader(workers: int, number: int = 1, persistent: bool = False) -> LoaderFound:
    return LoaderFound(number, "Photos", workers, 4, "fork" if workers else "none", 2, persistent)


def _pass(*waits_ms: int, number: int = 0, loader: int = 1, again: int = 0, **more: Any) -> list[Line]:
    """A pass: each iteration waits so long, and trains for 1 ms."""
    lines: list[Line] = [PassBegun(loader, number, 0, again)]
    for turn, wait in enumerate(waits_ms):
        phases = [wait * MS, 0, MS, 0, 0, 0]
        first = None if turn else wait * MS
        lines.append(LoopSums(loader, number, turn, turn * 10 * MS, 1, 1, phases, first, **more))
    return lines


def _result(*lines: Line) -> WatchResult:
    return summarise([Process([ProcessStarted(10, "script", 0), *lines])], WatchOptions(), 0, 4)


def _waits(result: WatchResult) -> tuple[float, int | None]:
    """The wait of an iteration in ms, and of how many iterations that is."""
    return round(result.loop[0].s_per_iteration * 1e3, 6), result.settled_iterations


def test_batches_that_were_made_as_workers_started_give_no_verdict() -> None:
    result = _result(_loader(4), *_pass(50, READY, READY))
    assert (result.verdict.limit, result.iterations, result.settled_iterations) == ("no-iteration", 3, 0)
    assert result.loop == () and result.wait_share is None and result.next_move is None
    assert verdict(result.verdict) == (
        "There is nothing to judge yet: the loop made 3 iterations, on batches that workers made as they started, "
        "while it waited for the first one. Seen of loader 1 (Photos): 3 batches of 0 samples; 50.0 ms of start-up up "
        "to the first batch. Train on more batches in a pass."
    )


def test_the_verdict_is_on_the_iterations_after_these() -> None:
    result = _result(_loader(4), *_pass(50, READY, READY, READY, WAITED, WAITED))
    assert (result.verdict.limit, result.wait_share) == ("data", pytest.approx(0.9))
    assert (_waits(result), result.iterations) == ((9, 2), 6)


def test_workers_that_start_for_each_pass_make_first_batches_in_each() -> None:
    first, later = _pass(50, READY, WAITED), _pass(50, READY, WAITED, number=1)
    assert _waits(_result(_loader(2), *first, *later)) == (9, 2)


def test_workers_that_live_on_start_in_the_first_pass_only() -> None:
    later = _pass(50, READY, WAITED, number=1)
    assert _waits(_result(_loader(2, persistent=True), *_pass(50, READY, WAITED), *later)) == (6, 4)
    anew = _pass(50, READY, WAITED, number=1, again=1)  # the loader was made anew, so its workers were, too
    assert _waits(_result(_loader(2, persistent=True), *_pass(50, READY, WAITED), *anew)) == (9, 2)


def test_without_workers_only_the_very_first_iteration_is_left_out() -> None:
    first, later = _pass(50, 4, 4), _pass(50, 4, 4, number=1)
    assert _waits(_result(_loader(0), *first, *later)) == (4, 5)
    assert _waits(_result(_loader(0), *_pass(50))) == (50, 1)


def test_a_line_of_many_iterations_counts_if_most_of_them_have_settled() -> None:
    def late(turns: int) -> LoopSums:
        return LoopSums(1, 0, 1, 10 * MS, turns, turns, [turns * 2 * MS, 0, turns * MS, 0, 0, 0])

    assert _waits(_result(_loader(4), *_pass(50), late(7))) == (2, 7)
    assert _result(_loader(4), *_pass(50), late(6)).loop == ()


def test_loaders_in_step_are_judged_if_both_have_settled() -> None:
    one, two = _loader(1), _loader(3, number=2)
    sampler = [0] * len(WAIT_PARTS)
    sampler[WAIT_PARTS.index("sampler")] = 3 * MS
    lines = [*_pass(50, 3, 3, 3, wait_parts_ns=sampler), *_pass(50, READY, READY, 6, loader=2, spans_ns={"f": MS})]
    result = _result(one, two, LoadersTogether(1, 2), *lines)
    assert (_waits(result), result.iterations) == ((9, 3), 4)  # an iteration waits for both
    assert {part.part: part.s_per_iteration for part in result.wait_parts}["sampler"] == pytest.approx(0.003)
    assert [span.s_per_iteration for span in result.spans] == [pytest.approx(0.001)]
    short = [*_pass(50, 3, 3), *_pass(50, READY, READY, loader=2)]
    assert _result(one, two, LoadersTogether(1, 2), *short).loop == ()


def test_loops_after_each_other_count_by_all_their_iterations() -> None:
    """Of three iterations each, one and two have settled. The loops count alike."""
    result = _result(_loader(2), _loader(1, number=2), *_pass(50, READY, 4), *_pass(50, 8, 8, loader=2))
    assert _waits(result) == (6, 3)


def test_the_idle_time_of_a_device_is_of_the_same_iterations() -> None:
    idle, busy = DeviceIdleTime(5 * MS, 1), DeviceIdleTime(0, 1)
    start, later = (
        _pass(50, READY, READY, READY, idle=busy),
        LoopSums(1, 0, 4, 90 * MS, 1, 1, [9 * MS, 0, MS], idle=idle),
    )
    result = _result(_loader(4), *start, later)
    assert (result.verdict.limit, result.verdict.waits) == ("data", "device")
    assert result.verdict.wait_share == pytest.approx(0.5)
    begun = _result(_loader(4), *start)
    assert begun.verdict.limit == "no-iteration" and begun.device_idle is not None  # there is a device all the same


def test_the_report_says_of_how_few_iterations_its_figures_are() -> None:
    spent = TimeSpent(0, 100 * MS, 0, "between", [SpentInPass(1, 0, [MS] * len(ROWS))])
    result = _result(_loader(4), *_pass(50, *[READY] * 3, *[WAITED] * 6), spent)
    assert (result.iterations, result.settled_iterations) == (10, 6)
    assert "\nThe figures of an iteration are of 6 iterations only.\n" in layout.text(parts(result))
    older = replace(result, settled_iterations=None)  # a saved report
    assert "The figures of an iteration" not in layout.text(parts(older))


def test_a_program_that_trains_on_few_batches_is_the_main_one() -> None:
    trains = _result(_loader(4), *_pass(50, READY, READY))
    other = _result(_loader(0), *(replace(one, trained=0) if isinstance(one, LoopSums) else one for one in _pass(5, 5)))
    assert in_loops_s(trains) > in_loops_s(other) > 0
