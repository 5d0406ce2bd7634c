"""The script's CPU time in its loop: of iterations without another loop inside, if there are some."""

from __future__ import annotations

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
