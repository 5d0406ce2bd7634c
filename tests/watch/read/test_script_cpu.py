"""The script's CPU time in its loop: of iterations without another loop inside, if there are some."""

from __future__ import annotations

import pytest

from pipebench.watch.read.host_use import script_cores
from pipebench.watch.read.script_cpu import stretches
from pipebench.watch.record.lines import LoopSums
from pipebench.watch.record.record_file import PHASES

MS = 1_000_000


def _line(begin_ms: int, cpu_ms: int, turns: int = 10) -> LoopSums:
    """Iterations of 10 ms, which use one core. The CPU time is the process's since its start."""
    phases = [turns * 10 * MS, *[0] * (len(PHASES) - 1)]
    return LoopSums(1, 0, begin=begin_ms * MS, turns=turns, phases_ns=phases, process_cpu_ns=cpu_ms * MS)


def test_what_follows_the_last_line_counts_only_if_there_is_nothing_else() -> None:
    """A validation in the last iteration uses four cores, and its CPU time is in the line that follows it."""
    lines = [_line(0, 100), _line(100, 200), _line(200, 300), _line(300, 300 + 100 + 4 * 20_000)]
    found = stretches(lines)
    assert sum(one.cpu_ns for one in found) == sum(one.wall_ns for one in found) == 200 * MS
    assert sum(one.cpu_ns for one in stretches(lines[:2])) == 100 * MS  # nothing else is known


def test_the_script_s_cores_are_of_its_iterations_only() -> None:
    """What a pass used before its first line, start-up included, is left out."""
    lines = [
        LoopSums(1, 0, phases_ns=[10 * MS, 0, 0, 0, 0, 0], process_cpu_ns=900 * MS),
        LoopSums(1, 0, phases_ns=[6 * MS, 0, 4 * MS, 0, 0, 0], process_cpu_ns=905 * MS),
        LoopSums(1, 1, phases_ns=[10 * MS, 0, 0, 0, 0, 0], process_cpu_ns=999 * MS),
        LoopSums(1, 1, phases_ns=[8 * MS, 0, 2 * MS, 0, 0, 0], process_cpu_ns=1002 * MS),
    ]
    assert script_cores(lines) == pytest.approx(8 / 20)
    assert script_cores(lines[:1]) is None


def _lines(every_ms: int, cpu_ms: int, number: int = 10) -> list[LoopSums]:
    """Iterations that begin so often, with 10 ms of their own each."""
    return [
        LoopSums(1, 0, at, at * every_ms * MS, 1, phases_ns=[10 * MS], process_cpu_ns=(at + 1) * cpu_ms * MS)
        for at in range(number)
    ]


def test_the_script_s_cores_of_loaders_in_step_are_of_both_their_loops() -> None:
    assert script_cores(_lines(every_ms=20, cpu_ms=10)) == pytest.approx(0.5)


def test_the_script_s_cores_are_without_a_validation_between_iterations() -> None:
    lines = _lines(every_ms=10, cpu_ms=3, number=20)
    for later in lines[10:]:  # 500 ms on two cores, after the tenth iteration
        later.begin += 500 * MS
    for later in lines[9:]:
        later.process_cpu_ns += 1000 * MS
    assert script_cores(lines) == pytest.approx(0.3)
    lines[-1].process_cpu_ns += 1000 * MS  # and another one after the last
    assert script_cores(lines) == pytest.approx(0.3)
