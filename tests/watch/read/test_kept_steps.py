"""Many ranks of a long run in little memory: their steps as columns, and one report at a time."""

from __future__ import annotations

import random
import subprocess
import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_merged import _report

from pipebench.results.ranks import StepOfRank
from pipebench.results.report import Report, save
from pipebench.watch.read.kept_steps import Counted, KeptSteps, Places
from pipebench.watch.read.merged import merged
from pipebench.watch.record.sampling import STEP_BITS, thinned

STEPS = (StepOfRank(0, 1, 2, 3, 1), StepOfRank(1, 4, 5), StepOfRank(5, 2**70, 0, 0, 6))


def test_steps_come_back_as_they_were() -> None:
    kept = KeptSteps(STEPS)
    assert [*kept[:2]] == [*STEPS[:2]] and kept[-1] == STEPS[2]._replace(wait_ns=2**63 - 1) and len(kept) == 3
    assert all(type(one) is StepOfRank for one in kept)
    assert not KeptSteps(()) and [*KeptSteps(())] == []
    with pytest.raises(IndexError):
        kept[3]


def test_steps_after_the_warm_up_are_found_by_their_numbers() -> None:
    known: Places = {}
    for steps in (STEPS, KeptSteps(STEPS)):
        found = Counted(steps, 1, known)
        assert [*found] == [1, 5] and found[1] == STEPS[1] and len(found) == 2
        assert type(found[1]) is StepOfRank and found[1].so_far == 2
    assert len(known) == 1 and [*Counted(STEPS, 2, known)] == [5]
    assert dict(Counted((), 1, known)) == {}


def test_reports_are_read_one_at_a_time() -> None:
    refs: list[weakref.ref[Report]] = []

    def each() -> Iterator[Report]:
        for rank in range(4):
            report = _report(f"node{rank}", [rank])
            refs.append(weakref.ref(report))
            yield report
            del report
            assert sum(one() is not None for one in refs) <= 1  # the one that the loop still holds

    found = merged(each())
    assert found.command is not None and found.command.ranks is not None and found.command.ranks.straggler == 2


@pytest.mark.slow
def test_256_ranks_of_a_million_steps_are_merged_in_little_memory(tmp_path: Path) -> None:
    """The limits are those of a small machine: 500 MB, and a minute of CPU time."""
    kept = [number for number in range(1_000_000) if thinned(number, STEP_BITS)]
    for rank in range(256):
        drawn = random.Random(rank)
        steps = tuple(
            StepOfRank(number, drawn.randrange(10**7, 10**8), drawn.randrange(10**7, 10**8), 0, number + 1)
            for number in kept
        )
        report = _report(f"node{rank // 8}", [rank], of=256)
        assert report.command is not None
        programs = (replace(report.command.programs[0], steps=steps),)
        save(replace(report, command=replace(report.command, programs=programs)), tmp_path / f"{rank}.json")
    command = [sys.executable, "-m", "pipebench", "show", "--merge", str(tmp_path)]
    # what a process used at most includes what the one that started it held then, so a small one starts it
    done = subprocess.run([sys.executable, "-c", _MEASURED, *command], stdout=subprocess.PIPE, text=True, check=True)
    used, _, said = done.stdout.partition("\n")
    status, most_kb, cpu_s = used.split()
    assert int(status) == 0 and "256 ranks train together" in said
    assert int(most_kb) < 500_000 and float(cpu_s) < 60


_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(done.returncode, used.ru_maxrss, used.ru_utime + used.ru_stime)
print(done.stdout)
"""
