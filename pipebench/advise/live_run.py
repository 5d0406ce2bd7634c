"""What a `Conductor` sees of a script that runs, or of the program of a command that trains: of ranks, rank 0."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pipebench.advise.tail import Tail
from pipebench.host.limits import free_memory
from pipebench.host.machine import usable_cores
from pipebench.predict.untried import Foretell, foretelling
from pipebench.remedies.seen import Seen
from pipebench.results.programs import Program
from pipebench.results.watched import WatchResult
from pipebench.watch.command import own_exit, records_of
from pipebench.watch.launch.exits import exits_noted
from pipebench.watch.launch.footprint import Looker, looked_at
from pipebench.watch.launch.programs import Programs, looking
from pipebench.watch.launch.stacks import StackReader
from pipebench.watch.launch.supervisor import Ended
from pipebench.watch.read.gather import Process, Run, ShownTime, gather
from pipebench.watch.read.programs import named, programs_of
from pipebench.watch.read.stalls import lengths_of
from pipebench.watch.read.summary import summarise
from pipebench.watch.record.lines import Line, Moment
from pipebench.watch.record.options import WatchOptions
from pipebench.watch.record.orders import Order, give
from pipebench.watch.record.program_lines import RankFound
from pipebench.watch.record.trial_lines import LoaderMade, TrialFailed
from pipebench.watch.trace.excerpt import timeline

_BY_SIGNAL = 128  # the status of a script that a signal ended is above that


class _UntilTrials(StackReader):
    """Looks at the stacks of workers while the script is watched, and not while changes are tried."""

    over = False

    def look(self) -> None:
        if not self.over:
            super().look()


@dataclass
class LiveRun:
    """The running script, for a `Conductor`. `any_order` and `discards` say what the user allows: see `Seen`."""

    folder: Path
    argv: Sequence[str]
    module: bool = False
    any_order: bool = False
    discards: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.looker = Looker(self.folder)
        self._reader: _UntilTrials | None = None  # of a script alone: a command's folder has one for each program
        self._tail = Tail(self.folder)
        self._processes: list[Process] = []

    def now(self) -> float:
        return time.monotonic()

    def wait(self, seconds: float) -> bool:
        return not self.ended.wait(seconds)

    def lines(self) -> list[Line]:
        return self._tail.new()

    def order(self, order: Order) -> None:
        give(str(self.folder), order)

    def looking(self) -> AbstractContextManager[None]:
        """Looks at the processes from outside, again and again, while the block runs."""
        self._reader = _UntilTrials(self.folder)
        return looking(self.looker, self._reader)

    def watched(self, status: int = 0) -> WatchResult:
        options = WatchOptions(module=self.module)
        if self._reader is not None:
            self._reader.over = True
        if status < _BY_SIGNAL:  # else nobody has waited for the workers
            self.looker.note_load()
        self._processes = gather(self.folder)
        looks = self._reader.found if self._reader is not None else None
        found = summarise(self._processes, options, status, usable_cores(), self.looker.found, looks)
        return dataclasses.replace(found, timeline=timeline(self._processes, found.loaders_in_loop))

    def cut_short(self, ended: Ended | None) -> tuple[Program, ...]:
        """The programs that have failed or were killed by now, without figures; none after an interrupt of the user's.

        `ended` is how what was run has ended (None: it goes on).
        """
        if ended is None or not ended.status or ended.lived is None or ended.interrupted:
            return ()
        wall_s = (ended.lived.ended - ended.lived.began) * 1e-9
        one = Program(ended.pid, named(self.argv), 0.0, wall_s, "failed", f"exit status {ended.status}")
        if ended.signal is not None:
            one = dataclasses.replace(one, ended="cut", error="", exit_status=-ended.signal)
        return (one,)

    @property
    def ranks(self) -> int:
        """How many ranks of one training share this machine."""
        return 1

    def leave_together(self, number: int) -> bool:
        """Whether all ranks end at the same batch if they are asked to leave, counted by this loader (0: by any)."""
        return True

    def seen(self, watched: WatchResult, made: LoaderMade, all_made: Mapping[int, LoaderMade]) -> Seen | None:
        loader = next((one for one in watched.loaders if one.loader == made.loader), None)
        if loader is None or not loader.s_per_iteration:
            return None
        free = free_memory()
        return Seen(
            watched, loader, dict(made.settings), made.batches, watched.device_idle is not None,
            None if free is None else free / self.ranks, self.any_order, self.discards, made, all_made,
            lengths_of(Run(self._processes, ShownTime(), (made.loader,)), made.loader), self.ranks,
        )  # fmt: skip

    def foretelling(self, seen: Seen) -> Foretell:
        return foretelling(dataclasses.replace(seen.watched, usable_cores=seen.cores), seen.loader.loader)


class CommandRun(LiveRun):
    """The program of a command whose loader was iterated first; of ranks that train together, rank 0 is asked.

    Rank 0 hands each order to the others. What one of them could not try, the job could not.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.programs = Programs(self.folder)
        self._tails: dict[Path, Tail] = {}
        self._before: dict[Path, list[Line]] = {}
        self._main: Path | None = None
        self._rank: RankFound | None = None
        self._made: dict[int, LoaderMade] = {}
        self._others: dict[Path, dict[int, LoaderMade]] = {}
        self._told: dict[int, LoaderMade] = {}
        self._over = False

    def wait(self, seconds: float) -> bool:
        return super().wait(seconds) and not self._over

    def lines(self) -> list[Line]:
        self.programs.take_new()
        found: list[Line] = []
        for one in self.programs.all():
            new = self._tails.setdefault(one.folder, Tail(one.folder)).new()
            if self._main is None:
                self._before.setdefault(one.folder, []).extend(new)
            elif one.folder == self._main:
                found += self._of_main(new)
            else:
                found += self._of_another(one.folder, new)
        if self._main is None and (main := next(filter(self._trains, self._before), None)) is not None:
            self._main = main
            before, self._before = self._before, {}
            found += self._of_main(before.pop(main))
            found += [line for one, lines in before.items() for line in self._of_another(one, lines)]
        return [*found, *self._loaders()]

    def _trains(self, folder: Path) -> bool:
        """Whether this program iterates a loader, and is not another rank than the first."""
        lines = self._before[folder]
        rank = next((one for one in reversed(lines) if isinstance(one, RankFound)), None)
        return any(isinstance(one, LoaderMade) for one in lines) and (rank is None or rank.rank == 0)

    def _of_main(self, lines: Sequence[Line]) -> Iterator[Line]:
        for one in lines:
            if isinstance(one, LoaderMade):
                self._made[one.loader] = one
                continue
            if isinstance(one, RankFound):
                self._rank = one
            self._over |= isinstance(one, Moment) and one.name == "end"
            yield one

    def _of_another(self, folder: Path, lines: Sequence[Line]) -> Iterator[Line]:
        """What the job must know of another rank: it cannot try."""
        for one in lines:
            if isinstance(one, LoaderMade):
                self._others.setdefault(folder, {})[one.loader] = one
            elif isinstance(one, TrialFailed) and self._rank is not None:
                yield one

    def _loaders(self) -> Iterator[LoaderMade]:
        """What is new of the loaders of rank 0. One is refused as long as not every rank has it by this number."""
        for number, own in self._made.items():
            agreed = own.refusal or self._on_all_ranks(number, partial(_alike, own))
            found = own if agreed else dataclasses.replace(own, refusal="ranks-differ")
            if self._told.get(number) != found:
                self._told[number] = found
                yield found

    def _on_all_ranks(self, number: int, alike: Callable[[LoaderMade], bool]) -> bool:
        """Whether each other rank has a loader by this number, and it is `alike`."""
        found = [one[number] for one in self._others.values() if number in one]
        return self._rank is None or (len(found) >= self._rank.of - 1 and all(map(alike, found)))

    def leave_together(self, number: int) -> bool:
        own = self._made.get(number)
        place = None if own is None else (own.file, own.line, own.column)
        return self._on_all_ranks(number, lambda theirs: (theirs.file, theirs.line, theirs.column) == place)

    @property
    def ranks(self) -> int:
        return self._rank.of if self._rank is not None else 1

    def order(self, order: Order) -> None:
        if self._main is not None:
            give(str(self._main), order)

    def cut_short(self, ended: Ended | None) -> tuple[Program, ...]:
        if not (self._over if ended is None else ended.status and not ended.interrupted):
            return ()  # nothing says that one of them was
        exits = {**self.programs.exits.found, **(own_exit(ended) if ended is not None else {})}
        records = [records_of(one, exits.get(one.pid)) for one in self.programs.all()]
        status = ended.status if ended is not None else 0
        _, found = programs_of(self.argv, records, WatchOptions(command=True), status, usable_cores())
        short = (one for one in found.programs if one.ended in ("failed", "cut"))
        return tuple(dataclasses.replace(one, watched=None, steps=()) for one in short)

    def looking(self) -> AbstractContextManager[None]:
        return _looking(self.programs)

    def watched(self, status: int = 0) -> WatchResult:
        """The figures of the program that is asked: of ranks, of the one that the others wait for, or of the first."""
        alone = self._main is not None and self._rank is None
        records = [records_of(one) for one in self.programs.all() if not alone or one.folder == self._main]
        options = WatchOptions(command=True)
        found, command = programs_of(self.argv, records, options, status, usable_cores())
        pid = None if command.shown is None else command.programs[command.shown].pid
        self._processes = next((one.processes for one in records if one.script.pid == pid), [])
        return dataclasses.replace(found, timeline=timeline(self._processes, found.loaders_in_loop))


@contextmanager
def _looking(looker: Looker | Programs) -> Iterator[None]:
    noted = exits_noted(looker.exits, looker.failed) if isinstance(looker, Programs) else nullcontext()
    with noted, looked_at(looker.look, looker.failed), looked_at(looker.glance, looker.failed):
        yield


def _alike(own: LoaderMade, theirs: LoaderMade) -> bool:
    """Whether ranks make this loader in one way. Others at its place do not count: many validate on rank 0."""
    return dataclasses.replace(theirs, others=own.others) == own
