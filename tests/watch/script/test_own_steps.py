"""A rank's own time of a step, by a clock that moves only when told to."""

from __future__ import annotations

import importlib
import os
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from clockwork import Clock, run_by

from pipebench.watch.read.gather import gather
from pipebench.watch.record.program_lines import CoresAllowed, LastStep, OwnStep, OwnSteps, RankFound
from pipebench.watch.record.record_file import BACKWARD, FORWARD, OPTIMISER, OTHER, TRANSFER, WAIT
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.record.sampling import STEP_BITS
from pipebench.watch.script import own_steps, phases
from pipebench.watch.script.optimisers import watch_optimisers
from pipebench.watch.script.own_steps import OwnTime
from pipebench.watch.script.phases import LoopPhases
from pipebench.watch.script.ranks import from_environment, watch_process_group


class Batches:
    """Stands for an iterator."""


def _all_of(folder: Path) -> list[OwnStep]:
    (process,) = gather(folder)
    return [step for line in process.of(OwnSteps) for step in line.steps]


def _kept(folder: Path) -> list[OwnStep]:
    """What each step waited and worked."""
    return [OwnStep(*step[:3]) for step in _all_of(folder)]


def test_backward_and_collectives_are_in_no_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(own_steps, "perf_counter_ns", clock)
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))
    for _ in range(2):
        own.spent(1, WAIT, 10, OTHER, 0)
        own.meets()
        own.meets()  # a collective that calls another one
        clock.burn(7)
        own.met()
        own.met()
        own.spent(1, FORWARD, 20, FORWARD, 3)
        own.spent(1, BACKWARD, 500, OTHER, 0)
        own.spent(1, OPTIMISER, 4, OTHER, 0)
        own.stepped()
    own.write()
    assert _kept(tmp_path) == [OwnStep(0, 10, 20), OwnStep(1, 10, 20)]


def test_a_collective_is_taken_out_of_the_phase_that_it_was_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python can call one in backward, in `next()` without workers, and where an iterator is made."""
    clock = Clock()
    monkeypatch.setattr(own_steps, "perf_counter_ns", clock)
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))

    def collective(ns: int) -> None:
        own.meets()
        clock.burn(ns)
        own.met()

    collective(100)
    own.outside()
    collective(7)
    own.spent(1, WAIT, 10, OTHER, 0)
    own.spent(1, FORWARD, 20, OTHER, 0)
    collective(300)
    own.spent(1, BACKWARD, 500, OTHER, 0)
    own.meets()
    clock.burn(5)
    own.spent(1, OTHER, 8, OTHER, 0)  # the collective goes on
    clock.burn(2)
    own.met()
    collective(6)  # in time that is named later
    own.spent(1, TRANSFER, 4, OTHER, 0)
    own.spent(1, OPTIMISER, 1, OTHER, 9)
    own.stepped()
    own.write()
    assert _kept(tmp_path) == [OwnStep(0, 3, 20 + 3 + 4 + 10 - 8)]


def test_time_that_is_named_later_is_own_work_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(phases, "perf_counter_ns", clock)
    loop = LoopPhases(Recording(Settings(str(tmp_path)), "script"))
    loop.own = OwnTime(loop.recording)
    loop.spend(OTHER)
    loop.own.stepped()
    clock.burn(40)
    loop.defer()
    loop.name(OTHER)
    loop.own.stepped()
    loop.own.write()
    assert _kept(tmp_path)[1] == OwnStep(1, 0, 40)


def test_what_is_in_no_iteration_of_the_loop_is_outside(tmp_path: Path) -> None:
    """The first wait of a pass and the last one, a checkpoint between two passes, and validation with a loader."""
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))

    def iterates(first: bool = False) -> None:
        own.spent(1, WAIT, 500 if first else 3, OTHER, 0)
        if first:
            own.at_an_end()
        own.spent(1, FORWARD, 20, OTHER, 0)
        own.stepped([1])

    iterates(first=True)
    iterates()
    own.spent(1, WAIT, 40, OTHER, 0)
    own.at_an_end()
    own.spent(None, OTHER, 7, OTHER, 0)
    own.spent(2, FORWARD, 900, OTHER, 0)
    iterates(first=True)
    own.write()
    assert _all_of(tmp_path) == [
        OwnStep(0, 0, 20, 500, 1, 1), OwnStep(1, 3, 20, 0, 1, 2), OwnStep(2, 0, 20, 40 + 7 + 900 + 500, 1, 3),
    ]  # fmt: skip


def test_steps_are_counted_by_their_loop_and_the_one_after_its_end_is_its_own(tmp_path: Path) -> None:
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))
    for loops in ([1], [1], [], [], [1, 2], [1]):
        own.spent(None, OTHER, 5, OTHER, 0)
        own.stepped(loops)
    own.write()
    assert [(one.loader, one.made) for one in _all_of(tmp_path)] == [(1, 1), (1, 2), (1, 3), (None, 1), (2, 1), (1, 4)]
    assert [(one.work_ns, one.outside_ns) for one in _all_of(tmp_path)][2:5] == [(0, 5), (5, 0), (0, 5)]


def test_what_thinned_steps_had_outside_is_kept_with_the_next_one(tmp_path: Path) -> None:
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))
    for _ in range(2 << STEP_BITS):
        own.spent(None, OTHER, 5, OTHER, 0)
        own.stepped([1])
    own.write()
    kept = _all_of(tmp_path)
    assert len(kept) < 2 << STEP_BITS and sum(one.outside_ns for one in kept) == 5 * (kept[-1].number + 1)


def test_waits_at_the_ends_of_a_pass_are_in_no_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two passes of two batches: 50 ns for the first, 3 for the second, and 8 for the end."""
    clock = Clock()
    run_by(clock, monkeypatch)
    loop = LoopPhases(Recording(Settings(str(tmp_path)), "script"))
    loop.own, loop.here.mark = OwnTime(loop.recording), clock()
    for number in range(2):
        batches = Batches()
        loop.pass_begins(batches, 1, number)
        for waits in (50, 3, 8):
            loop.before_next(batches)
            clock.burn(waits)
            loop.after_next(batches, "exhausted" if waits == 8 else None)
            if waits != 8:
                clock.burn(20)
                loop.spend(FORWARD)
                loop.own.stepped([one.loader for one in loop.here.open])
        clock.burn(700)
        loop.loader_opens()
    loop.own.write()
    assert _all_of(tmp_path) == [
        OwnStep(0, 0, 20, 50, 1, 1), OwnStep(1, 3, 20, 0, 1, 2),
        OwnStep(2, 0, 20, 8 + 700 + 50, 1, 3), OwnStep(3, 3, 20, 0, 1, 4),
    ]  # fmt: skip


def test_the_cores_of_a_rank_are_told_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = iter([{1, 0}, {1, 0}, {1}])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: next(allowed))
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))
    for _ in range(3):
        own.stepped()
        own.write()
    (process,) = gather(tmp_path)
    assert [one.cores for one in process.of(CoresAllowed)] == [[0, 1], [1]]


def _process_group(clock: Clock, ranks: int) -> Any:
    module: Any = ModuleType("process_group")
    module.init_process_group = lambda: None
    module.get_rank, module.get_world_size = (lambda: 1), (lambda: ranks)
    module.all_reduce = lambda ns: clock.burn(ns)
    module.Work = type("Work", (), {"wait": lambda self, ns: clock.burn(ns)})
    return module


def test_once_the_process_group_is_there_the_rank_and_its_collectives_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(own_steps, "perf_counter_ns", clock)
    recording = Recording(Settings(str(tmp_path)), "script")
    loop, module = LoopPhases(recording), _process_group(clock, ranks=2)
    plain, waits = module.all_reduce, module.Work.wait
    watch_process_group(loop, module)
    assert loop.own is None
    monkeypatch.setattr(time, "perf_counter_ns", iter((100, 107)).__next__)
    module.init_process_group()
    monkeypatch.undo()
    monkeypatch.setattr(own_steps, "perf_counter_ns", clock)
    assert loop.own is not None and module.all_reduce is not plain
    module.all_reduce(15)
    module.Work().wait(30)  # of a collective that was started before
    loop.own.spent(1, FORWARD, 50, OTHER, 0)
    loop.own.stepped()
    loop.finish()  # as `--steps` does, too
    assert _kept(tmp_path) == [OwnStep(0, 0, 5)]
    (process,) = gather(tmp_path)
    assert [(one.rank, one.of, one.joined_ns) for one in process.of(RankFound)] == [(1, 2, 7)]
    recording.stop()
    assert module.all_reduce is plain and module.Work.wait is waits


def test_one_process_alone_is_no_rank(tmp_path: Path) -> None:
    recording = Recording(Settings(str(tmp_path)), "script")
    loop, module = LoopPhases(recording), _process_group(Clock(), ranks=1)
    plain = module.all_reduce
    watch_process_group(loop, module)
    module.init_process_group()
    assert loop.own is None and module.all_reduce is plain
    recording.stop()


def test_a_step_is_written_once(tmp_path: Path) -> None:
    own = OwnTime(Recording(Settings(str(tmp_path)), "script"))
    for number in range(70):
        own.stepped()
        if number % 32 == 0:
            own.write()
    own.write()
    own.write()
    assert [one.number for one in _kept(tmp_path)] == list(range(70))


def test_the_launcher_says_the_rank() -> None:
    found = from_environment({"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_PORT": "29500"})
    assert found is not None and (found.rank, found.of, found.local) == (3, 4, 1)
    assert from_environment({"RANK": "3"}) is None
    assert from_environment({"RANK": "first", "WORLD_SIZE": "4"}) is None


class Holding(torch.optim.SGD):
    """Steps by the optimiser that it holds, which fails at first, as where memory runs out."""

    def __init__(self) -> None:
        weights = [torch.ones(1, requires_grad=True)]
        super().__init__(weights)
        self.held, self.fails = torch.optim.SGD(weights), True

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.held.step(self._fail if self.fails else None)

    def _fail(self) -> float:
        self.fails = False
        raise MemoryError


def test_an_optimiser_that_holds_another_one_makes_one_step(tmp_path: Path) -> None:
    recording = Recording(Settings(str(tmp_path)), "script")
    loop, optimiser = LoopPhases(recording), Holding()
    loop.own = OwnTime(recording)
    watch_optimisers(loop, importlib.import_module("torch.optim.optimizer"))
    with pytest.raises(MemoryError):
        optimiser.step()
    for _ in range(3):
        optimiser.step()
    recording.stop()
    loop.own.write()
    assert [one.number for one in _kept(tmp_path)] == [0, 1, 2]


@pytest.mark.parametrize(("loader", "own", "outside"), [(1, 150, 0), (None, 30, 120)])
def test_what_a_rank_did_since_its_last_step_is_written_when_it_ends(
    loader: int | None, own: int, outside: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(own_steps, "perf_counter_ns", clock)
    rank = OwnTime(Recording(Settings(str(tmp_path)), "script"))
    rank.ends(None, clock.now)  # it never made a step
    for length in (1000, 40, 70, 50):  # what came before the first step is no step
        clock.burn(length)
        rank.stepped([1])
    rank.spent(1, WAIT, 10, FORWARD, 20)
    clock.burn(230)
    rank.ends(loader, clock.now - 120)
    (process,) = gather(tmp_path)
    (line,) = process.of(LastStep)
    assert (line.at, line.made, line.since_ns, line.longest_ns) == (clock.now, 4, 230, 70)
    assert (line.own_ns, line.outside_ns) == (own, outside)
