"""A rank that is killed: nothing is written at its end, and a step is as long as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from clockwork import Clock, run_by

from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.read.gather import gather
from pipebench.watch.read.programs import Records, steps_of
from pipebench.watch.read.ranks import Rank, compared
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import LoaderFound, LoopSums, PassBegun
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.program_lines import OwnSteps
from pipebench.watch.record.record_file import BACKWARD, FORWARD
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script.own_steps import OwnTime
from pipebench.watch.script.phases import LoopPhases

MS = 1_000_000


class Batches:
    """Stands for an iterator."""


class Killed:
    """A loop on a rank: 3 ms of waiting, 2 of forward and 5 of backward. It is killed in its last iteration."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.folder, self.clock, self.batches = folder, clock, Batches()
        recording = Recording(Settings(str(folder)), "script")
        self.loop = LoopPhases(recording)
        self.loop.own = OwnTime(recording)
        self.loop.here.mark = clock()
        recording.write(LoaderFound(1, "Photos", 0, 8, "none", None), PassBegun(1, 0, clock()))
        self.loop.pass_begins(self.batches, 1, 0)

    def trains(self, iterations: int, each: int = 1) -> None:
        """So many iterations, with a step of the optimiser after `each` of them."""
        for number in range(1, iterations + 1):
            self.loop.before_next(self.batches)
            self.clock.burn(3 * MS)
            self.loop.after_next(self.batches, None)
            for phase, ms in ((FORWARD, 2), (BACKWARD, 5)):
                self.clock.burn(ms * MS)
                self.loop.spend(phase)
            self.loop.here.open[-1].trained = True
            if number % each == 0:
                assert self.loop.own is not None
                self.loop.own.stepped([one.loader for one in self.loop.here.open])

    def step_s(self) -> float:
        """The length of a step that the report of two such ranks tells."""
        processes = gather(self.folder)
        assert processes[0].moment("end") is None
        found = summarise(processes, WatchOptions(), 0, 2.0)
        steps = list(steps_of(Records(processes, Footprint(), Looks()).steps, found.loaders_in_loop))
        return compared(2, [Rank(number, number, steps, found) for number in range(2)]).step_s


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Killed:
    clock = Clock()
    run_by(clock, monkeypatch)
    return Killed(tmp_path, clock)


@pytest.mark.parametrize("iterations", [4, 32, 63, 300, 700])
def test_a_step_of_a_rank_that_is_killed_is_as_long_as_it_was(killed: Killed, iterations: int) -> None:
    """From the 257th iteration on, records are written at intervals, and not after each iteration."""
    killed.trains(iterations)
    assert killed.step_s() == pytest.approx(0.010)


def test_a_step_of_several_iterations_is_as_long_as_it_was(killed: Killed) -> None:
    killed.trains(4 * 12 + 1, each=4)
    assert killed.step_s() == pytest.approx(0.040)


def test_a_rank_that_is_killed_after_it_has_left_its_loop_has_told_all_of_its_steps(killed: Killed) -> None:
    """The lines of a loop that is left hold what no line has told yet."""
    killed.trains(299)
    killed.loop.loader_opens(killed.batches)
    (process,) = gather(killed.folder)
    told = [step.number for line in process.of(OwnSteps) for step in line.steps]
    assert sum(one.turns for one in process.of(LoopSums)) == 298 and told == list(range(299))


def test_steps_that_another_thread_s_loop_would_write_wait_for_the_main_thread(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed.trains(3)
    monkeypatch.setattr(killed.loop.here, "main", False)
    killed.loop.write_own()
    assert len(Records(gather(killed.folder), Footprint(), Looks()).steps) == 2
    monkeypatch.undo()
    killed.loop.write_own()
    assert len(Records(gather(killed.folder), Footprint(), Looks()).steps) == 3
