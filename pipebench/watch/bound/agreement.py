"""How the ranks of one training choose the same windows: by files in a folder that they share, on one machine.

Nothing goes through the training's process group. Each rank offers what it can do. Rank 0 decides when all have
offered, or when `PATIENCE_S` is over. The others wait twice as long, and rank 0 takes no offer that is older than
`PATIENCE_S`, so whoever it counts on still waits. A rank that gets no decision, or one against windows, has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pipebench.watch.bound.alternation import Refused
from pipebench.watch.bound.schedule import Schedule, least_steps, planned
from pipebench.watch.record.program_lines import RankFound

PATIENCE_S = 60.0  # a rank comes to its first window after an iteration that it shares with the others
LEAVING_S = 10.0
_POLL_S = 0.005
Found = TypeVar("Found")


@dataclass(frozen=True)
class Offer:
    """What one process can do: windows of at most `most` batches, of `batch_bytes` each, and these replays.

    `limit` is what is scarce, and `left` how much of it is left. The script has had `given` batches of its pass.
    """

    given: int
    batch_bytes: int
    most: int
    limit: str
    left: int
    lead: int
    workers: int
    replays: Sequence[str]


def decided(offers: Sequence[Offer], steps: int, begin: int) -> Schedule:
    """The schedule that every process can follow. Raises `Refused` if there is none."""
    if len({one.given for one in offers}) > 1:
        raise Refused("bound-ranks-differ")
    scarce = min(offers, key=lambda one: one.most)
    if scarce.most < 2:
        raise Refused("bound-no-window", batch_bytes=scarce.batch_bytes, limit=scarce.limit, left=scarce.left)
    lead, turn = max(one.lead for one in offers), max(1, *(one.workers for one in offers))
    replays = tuple(kind for kind in scarce.replays if all(kind in one.replays for one in offers))
    schedule = planned(steps, begin, lead, replays, scarce.most, turn)
    if not schedule.rounds:
        raise Refused("bound-few-steps", steps=steps, needed=least_steps(begin, lead, replays))
    return schedule


def together(folder: str, found: RankFound, since: float) -> Ranks:
    """The ranks of this training. Raises `Refused` if they have no folder in common."""
    here = ranks_here(os.environ)
    if here is not None and here < found.of:
        raise Refused("bound-one-machine", ranks=found.of, here=here)
    if not folder:
        raise Refused("bound-ranks-apart", ranks=found.of)
    return Ranks(folder, found, since)


def ranks_here(names: Mapping[str, str]) -> int | None:
    """How many ranks the launcher has started on this machine: torchrun, Open MPI, MPICH or srun. None: not known.

    srun gives the tasks of each node as `2(x3),1`: three nodes with two, and one with one.
    """
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        if (value := names.get(name, "")).isdigit():
            return int(value)
    nodes = re.findall(r"(\d+)(?:\(x(\d+)\))?", names.get("SLURM_STEP_TASKS_PER_NODE", ""))
    tasks = [int(count) for count, times in nodes for _ in range(int(times or 1))]
    number = names.get("SLURM_NODEID", "")
    return tasks[int(number)] if number.isdigit() and int(number) < len(tasks) else None


class Ranks:
    """The other ranks, as one of them sees them. What a file says of the time before `since` is of an earlier run."""

    def __init__(
        self,
        folder: str,
        found: RankFound,
        since: float,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rank, self.of, self.since, self.now, self.sleep = found.rank, found.of, since, now, sleep
        self._path = os.path.join(folder, f"bound-{zlib.crc32(f'{found.of} {found.meeting}'.encode()):08x}-")

    def agreed(self, offer: Offer, steps: int, begin: int) -> Schedule:
        """The schedule of all ranks. Raises `Refused` if they have none."""
        at = self.now()
        self._put(f"offer-{self.rank}", at, vars(offer))
        if self.rank == 0:
            decision: Mapping[str, Any] | None = self._decide(steps, begin)
        else:
            decision = self._wait(2 * PATIENCE_S, lambda: self._decision(at))
        if decision is None:
            raise _silent(0)
        if decision["problem"]:
            code, values = decision["problem"]
            raise Refused(code, **values)
        return Schedule(**{**decision["schedule"], "replays": tuple(decision["schedule"]["replays"])})

    def _decide(self, steps: int, begin: int) -> Mapping[str, Any]:
        self._wait(PATIENCE_S, lambda: len(self._offers()) == self.of or None)
        offers = self._offers()
        decision: dict[str, Any] = {"to": {rank: at for rank, (at, _) in offers.items()}, "problem": None}
        try:
            if len(offers) < self.of:
                raise _silent(min(set(range(self.of)) - set(offers)))
            schedule = decided([Offer(**one) for _, one in offers.values()], steps, begin)
            decision["schedule"] = vars(schedule)
        except Refused as error:
            decision["problem"] = error.reason
        self._put("decision", self.now(), decision)
        return decision

    def _offers(self) -> dict[int, tuple[float, Any]]:
        """Rank -> when it made its offer, and the offer."""
        oldest = max(self.since, self.now() - PATIENCE_S)
        found = {rank: self._get(f"offer-{rank}") for rank in range(self.of)}
        return {rank: one for rank, one in found.items() if one is not None and one[0] >= oldest}

    def _decision(self, at: float) -> Mapping[str, Any] | None:
        """The decision that knows the offer of this rank."""
        found = self._get("decision")
        return found[1] if found is not None and found[1]["to"].get(str(self.rank)) == at else None

    def leaves(self) -> None:
        """Tells the others not to wait for this rank."""
        self._put(f"left-{self.rank}", self.now(), None)

    def leave_together(self) -> None:
        """Waits for a while until the others leave too: one may still be in a collective, or write its records."""
        self.leaves()
        self._wait(LEAVING_S, lambda: all(map(self._has_left, range(self.of))) or None)

    def _has_left(self, rank: int) -> bool:
        found = self._get(f"left-{rank}")
        return found is not None and found[0] >= self.since

    def _wait(self, patience_s: float, look: Callable[[], Found | None]) -> Found | None:
        end = self.now() + patience_s
        while (found := look()) is None and self.now() < end:
            self.sleep(_POLL_S)
        return found

    def _put(self, name: str, at: float, what: object) -> None:
        """Writes a file whole."""
        new = f"{self._path}{name}.{os.getpid()}.new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump([at, what], file)
        os.replace(new, self._path + name)

    def _get(self, name: str) -> tuple[float, Any] | None:
        with contextlib.suppress(FileNotFoundError), open(self._path + name, encoding="utf-8") as file:
            at, what = json.load(file)
            return at, what
        return None


def _silent(rank: int) -> Refused:
    return Refused("bound-rank-silent", rank=rank, waited_s=PATIENCE_S)
