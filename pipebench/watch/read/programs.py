"""Turns the records of all processes of a command into results: which programs there were, and what each did."""

from __future__ import annotations

import dataclasses
import math
import os
import signal
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pipebench.results.programs import Program, WatchedCommand
from pipebench.results.ranks import Ranks, StepOfRank
from pipebench.results.watched import Note, WatchResult
from pipebench.watch.launch.exits import Exit
from pipebench.watch.launch.footprint import Footprint
from pipebench.watch.launch.stacks import Looks
from pipebench.watch.read.bound_of_ranks import bound_of_ranks
from pipebench.watch.read.gather import Process, loaders_found
from pipebench.watch.read.hang import in_iterations, last_step, with_hang
from pipebench.watch.read.moves import among_ranks
from pipebench.watch.read.notes import seen_stopped
from pipebench.watch.read.one_of_ranks import one_of_ranks, rank_of
from pipebench.watch.read.rank_groups import groups, in_loops_s
from pipebench.watch.read.ranks import Rank, compared
from pipebench.watch.read.summary import summarise
from pipebench.watch.read.verdict import nothing_watched
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.program_lines import (
    CoresAllowed,
    OwnStep,
    OwnSteps,
    ProgramFailed,
    ProgramStarted,
    RankFound,
    WithoutTorch,
)
from pipebench.watch.record.spent import TimeSpent

_NS = 1e-9
_LONGEST = 60  # characters of a command line


@dataclass(frozen=True)
class Records:
    """What is known of one program: its records, what was seen from outside, whether it still runs, and its exit."""

    processes: list[Process]
    footprint: Footprint
    looks: Looks
    running: bool = False
    left: Exit | None = None

    @property
    def script(self) -> Process:
        return next((one for one in self.processes if one.role == "script"), Process([]))

    @property
    def rank(self) -> RankFound | None:
        """Which rank it is; None if it trains alone."""
        return rank_of(self.processes)

    @property
    def cores(self) -> tuple[int, ...]:
        """The cores that it may use by its own affinity; none if that is not known."""
        found = next(reversed(self.script.of(CoresAllowed)), None)
        return tuple(found.cores) if found is not None else ()

    @property
    def steps(self) -> list[OwnStep]:
        return [step for line in self.script.of(OwnSteps) for step in line.steps]

    @property
    def lived(self) -> tuple[int, int] | None:
        """The begin of its Python, and its last record; None if it wrote too little."""
        started, lines = self.script.of(ProgramStarted), self.script.of(TimeSpent)
        end = self.script.moment("end") or (lines[-1].end if lines else None)
        return (started[0].began, end) if started and end is not None else None


def programs_of(
    command: Sequence[str],
    records: Iterable[Records],
    options: WatchOptions,
    status: int,
    usable_cores: float,
    hidden: Iterable[Sequence[str]] = (),
    lost: Iterable[Sequence[str]] = (),
) -> tuple[WatchResult, WatchedCommand]:
    """The figures of the program that is shown, and all programs. `status` is the exit status of the command."""
    every = list(records)
    loaded = sorted((one for one in every if loaders_found(one.processes)), key=_began)
    found = [_program(one, _began(loaded[0]), options, usable_cores) for one in loaded]
    _note_early(found)
    _among_ranks(found, loaded, usable_cores)
    _without_siblings(found, loaded, [one.rank for one in every if one.rank is not None])
    shown, ranks = _shown(found)
    if options.bound:  # replays are no steps of a rank's own
        shown, ranks = _with_bounds(found, loaded, shown), None
    main = None if shown is None else found[shown].watched
    if shown is None or main is None:
        verdicts = [nothing_watched(one.processes) for one in every]
        main = summarise([], options, status, usable_cores)
        main = dataclasses.replace(main, verdict=next((one for one in verdicts if one.lacks), main.verdict))
    else:
        found[shown] = dataclasses.replace(found[shown], watched=None)
    return dataclasses.replace(main, status=status), WatchedCommand(
        command=tuple(command),
        status=status,
        programs=tuple(map(_without_series, found)),
        shown=shown,
        others=sum(not loaders_found(one.processes) and not one.script.of(WithoutTorch) for one in every),
        hidden=tuple(sorted({named(one) for one in hidden})),
        lost=tuple(sorted({named(one) for one in lost})),
        ranks=ranks,
        running=sum(one.running for one in every if not loaders_found(one.processes)),
        torchless=tuple(sorted({line.python for one in every for line in one.script.of(WithoutTorch) if line.missing})),
    )


def stopped_programs(records: Iterable[Records], told: int) -> Iterator[Note]:
    """Notes the programs that were seen stopped in some looks, but for the process `told`: its stops are known."""
    for one in records:
        pid, rank = one.script.pid, {} if one.rank is None else {"rank": one.rank.rank}
        if pid != told:
            yield from seen_stopped(pid, one.footprint, {"pid": pid, **rank})


def _without_series(one: Program) -> Program:
    """The program without what only pictures show: many ranks would make a large report."""
    return (
        one
        if one.watched is None
        else dataclasses.replace(one, watched=dataclasses.replace(one.watched, over_time=None))
    )


def _shown(found: Sequence[Program]) -> tuple[int | None, Ranks | None]:
    """The place of the program whose figures are shown, and the ranks that train with it.

    It is the one that spent the most time in loops; of several ranks, the one that the others wait for, or the
    first that loads.
    """
    if not found:
        return None, None
    most = max(range(len(found)), key=lambda place: in_loops_s(found[place].watched))
    together = next((one for one in groups(found) if most in one), [])
    if len(together) < 2:
        return most, None
    ranks = compared(
        found[most].ranks or len(together),
        [
            Rank(its.rank or 0, its.pid, its.steps, its.watched, its.ended, its.joined_s)
            for place in together
            if (its := found[place]).watched is not None
        ],
    )
    ranks = with_hang(ranks, [found[place] for place in together])
    chosen = ranks.held_up_by
    if chosen is None:
        chosen = (ranks.readers or (ranks.rows[0].rank,))[0]
    return next(place for place in together if found[place].rank == chosen), ranks


def _with_bounds(found: list[Program], records: Sequence[Records], shown: int | None) -> int | None:
    """Gives the bound of each job to that of its ranks which waits longest. Returns the place of what is shown."""
    for group in groups(found):
        its = {found[place].rank or 0: place for place in group}
        of = found[group[0]].ranks or len(its)
        job = bound_of_ranks(of, {rank: records[place].script.lines for rank, place in its.items()})
        longest = its[max(job.ranks, key=lambda one: one.wait_s).rank] if job.ranks else group[0]
        for place in group:
            if (watched := found[place].watched) is not None and watched.bound is not None:
                bound = job if place == longest else None
                found[place] = dataclasses.replace(found[place], watched=dataclasses.replace(watched, bound=bound))
        shown = longest if shown in group else shown
    return shown


def _among_ranks(found: list[Program], records: Sequence[Records], usable_cores: float) -> None:
    """Tells the figures of each rank that its siblings on this machine are none of the other processes."""
    for group in groups(found):
        seen = [(place, its) for place in group if (its := found[place].watched) is not None]
        used = {place: _used_cores(records[place].footprint) for place, _ in seen}
        for place, its in seen if len(seen) > 1 else ():
            others = [one for other, one in seen if other != place]
            told = among_ranks(its, others, sum(used.values()) - used[place], usable_cores)
            found[place] = dataclasses.replace(found[place], watched=told)


def _without_siblings(found: list[Program], records: Sequence[Records], ranks: Sequence[RankFound]) -> None:
    """Tells the figures of each rank if fewer `ranks` of its job were seen than its machine may have."""
    for place, its in enumerate(found):
        rank = records[place].rank
        if rank is not None and its.watched is not None:
            seen = {one.rank for one in ranks if (one.of, one.meeting) == (rank.of, rank.meeting)}
            if len(seen) < (rank.here or rank.of):
                found[place] = dataclasses.replace(its, watched=one_of_ranks(its.watched, rank))


def _note_early(found: list[Program]) -> None:
    """Notes the ranks that reached their end while another one was in its training iterations, which then failed."""
    for group in groups(found):
        late = [found[place] for place in group if in_iterations(found[place])]
        for place in group if late else ():
            one = found[place]
            gone = one.ended == "ended" and one.left_s is not None
            if gone and any(other.left_s is not None and other.left_s > (one.left_s or 0.0) for other in late):
                found[place] = dataclasses.replace(one, early=True)


def _used_cores(found: Footprint) -> float:
    """The cores that a program used while it ran, its start-up included."""
    return found.load.own_s / found.load.wall_s if found.load is not None and found.load.wall_s else 0.0


def _began(one: Records) -> int:
    return one.lived[0] if one.lived else one.script.started.at


def _program(one: Records, first: int, options: WatchOptions, usable_cores: float) -> Program:
    script, lived = one.script, one.lived
    failed, rank = script.of(ProgramFailed), one.rank
    ended = _ended(one, bool(failed))
    left = one.left.status if one.left is not None else None
    cores = min(usable_cores, len(one.cores) or math.inf)
    watched = summarise(one.processes, options, int(ended != "ended"), cores, one.footprint, one.looks, lived)
    return Program(
        pid=script.pid,
        name=named(next((line.argv for line in script.of(ProgramStarted)), [])),
        began_s=(_began(one) - first) * _NS,
        wall_s=(lived[1] - lived[0]) * _NS if lived else 0.0,
        ended=ended,
        error=failed[0].text if failed else "",
        left_s=(one.left.at - first) * _NS if one.left is not None else None,
        exit_status=left,
        memory_ran_out=ended == "cut" and left in (None, -signal.SIGKILL) and bool(one.footprint.memory_kills),
        rank=rank.rank if rank is not None else None,
        ranks=rank.of if rank is not None else None,
        local_rank=rank.local if rank is not None else None,
        meeting=rank.meeting if rank is not None else "",
        cores=one.cores,
        watched=watched,
        steps=tuple(steps_of(one.steps, watched.loaders_in_loop)),
        last_step=last_step(script, one.left) if rank is not None else None,
        joined_s=next((ns * _NS for line in script.of(RankFound) if (ns := line.joined_ns) is not None), None),
    )


def steps_of(steps: Iterable[OwnStep], loaders: Collection[int]) -> Iterator[StepOfRank]:
    """The steps that were made in the loops over these loaders, or outside all loops."""
    made: dict[int | None, int] = {}
    for one in steps:
        if one.loader is None or one.loader in loaders:
            made[one.loader] = one.made
            yield StepOfRank(one.number, one.wait_ns, one.work_ns, one.outside_ns, sum(made.values()))


def _ended(one: Records, failed: bool) -> Literal["ended", "failed", "cut", "running"]:
    if failed:
        return "failed"
    if one.script.moment("end") is not None:
        return "ended"
    return "running" if one.running else "cut"


def named(words: Sequence[str]) -> str:
    """A command line as its user knows it: without the folder of what runs, and not too long.

    >>> named(["/home/me/train.py", "--epochs", "3"]), named(["/lib/pytest/__main__.py", "tests"]), named(["-c"])
    ('train.py --epochs 3', 'pytest tests', 'python -c')
    """
    first = words[0] if words else ""
    if os.path.basename(first) == "__main__.py":
        first = os.path.dirname(first)
    name = "python -c" if first == "-c" else os.path.basename(first) or "python"
    text = " ".join([name, *words[1:]])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
