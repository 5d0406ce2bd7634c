"""The ranks of one training, compared step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

FEWEST_STEPS = 10  # that tell which rank the others wait for


class StepOfRank(NamedTuple):
    """What a rank did by itself in one step, in nanoseconds: it waited for batches, and it worked.

    Backward and collectives are in neither, because there the ranks wait for each other. Steps are numbered from 0.
    `outside_ns` is what it did since the step before outside the iterations of its training loop: validation, a
    checkpoint between two loops, the start and the end of a pass. `made` is how many steps the loop had made then (0:
    `number` and this one).
    """

    number: int
    wait_ns: int
    work_ns: int
    outside_ns: int = 0
    made: int = 0

    @property
    def so_far(self) -> int:
        """The steps of the training loop up to this one."""
        return self.made or self.number + 1


@dataclass(frozen=True)
class LastStep:
    """When a rank made its last step: `since_s` before it ended. Before, steps followed each other in `longest_s`.

    It made `made` steps (0: not known). Since the last one it did something by itself for `own_s`, and for `outside_s`
    outside the iterations of its training loop. The rest is backward and collectives, in which it waited for the
    others. `own_s` is None if that is not known, because its records have no end: then it made its last step at least
    `since_s` before, by how often it wrote lines before.
    """

    since_s: float
    longest_s: float
    made: int = 0
    own_s: float | None = None
    outside_s: float = 0.0


@dataclass(frozen=True)
class Hang:
    """No rank made a step for `s` before the first of them ended, much longer than any step took before.

    `ranks` are those that hung (none: that is not known), and `outside` says that they were outside the iterations of
    their training loop then. `waiting` are those that waited in backward or a collective meanwhile.
    """

    s: float
    ranks: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    outside: bool = False


@dataclass(frozen=True)
class RankRow:
    """What one rank did by itself in a step, as a mean over the compared steps.

    It waited for batches for `wait_s`, and worked for `work_s`: forward, the optimiser, everything but backward and
    collectives, in which the ranks wait for each other. `last_share` is the share of the steps to whose collective it
    came last; with a device, in which it waited longest for its batches. What that cost the others is `cost_s` in all.
    `samples` are those that it loaded, with about so many `tokens` (None: its batches show none). `cut`: its records
    have no end, so it may have loaded more.
    """

    rank: int
    pid: int
    wait_s: float
    work_s: float
    last_share: float
    cost_s: float
    samples: int
    tokens: float | None = None
    cut: bool = False


@dataclass(frozen=True)
class LateInFew:
    """A rank that came late to `steps` steps, by `s` in all, which is most of what the ranks cost each other.

    It did so by waiting for batches, or by its own work: the larger `part`.
    """

    rank: int
    steps: int
    s: float
    part: Literal["wait", "work"]


@dataclass(frozen=True)
class SlowStage:
    """A stage that takes one rank longer: seconds a sample there, and of the median of the other ranks.

    `worker` causes nearly all of the difference, with `worker_s` a sample (None: the rank's workers share it).
    """

    name: str
    kind: str
    s: float
    others_s: float
    worker: int | None = None
    worker_s: float = 0.0


@dataclass(frozen=True)
class LongerSamples:
    """By how many seconds a sample takes the workers of one rank longer than those of the median of the other ranks.

    They compute longer for `cpu_s`, have no core for `core_wait_s` longer, and for `blocked_s` longer they wait for
    something else: storage, a network, a lock, sleep. A negative figure is shorter.
    """

    cpu_s: float
    core_wait_s: float
    blocked_s: float


@dataclass(frozen=True)
class Ranks:
    """The ranks of one training of `of` ranks. `rows` are those that were seen here.

    In each of `steps` compared steps, the ranks wait for the last of them. `cost_s` is what a step would be shorter if
    the last rank were like the median one, as a sum over all steps, and `cost_share` the share of the loop's time. A
    step never gets shorter than what the workers of that rank need for its batches: a short wait can be the result of
    waiting for the others, because workers load meanwhile. It is predicted that so much is saved; nobody has tried it.

    `step_s` is the length of a step (0: it is not known, and neither is the cost).

    `hidden` says that the own work of a rank can hold its waits for the others. "device": the host waits for them where
    it waits for its device, as in `loss.item()`. Then only waits for batches are compared, as far as the device was
    idle. "work": the own parts of a step are equally long on all ranks though their waits for batches differ. Then the
    cost is not known, and is 0 here.

    `outside_rank` spends `outside_s` in all more than the median of the others outside the iterations of its training
    loop, as for validation or a checkpoint, while the others wait for it: `outside_share` of the time since the first
    of these steps (None, 0, 0: none does). It is in no cost.

    `readers` are the ranks that load the batches of all, if others load none (empty: each loads its own). They are
    never like the others, so there is neither a cost nor a straggler.

    `straggler` is the rank that causes most of the cost (None: none is told from chance, or there are too few steps).
    Its `part` of a step is `behind_s` longer than the median of the others. `stage` is the stage of its loading that
    differs most (None: it explains little of that), and `longer` says what its workers do meanwhile (None: it has no
    workers, or theirs are no slower).
    `saved_share` is the share of the loop's time that is saved if this rank alone is like the median of the others.
    `fewer_cores` are the cores that it may use, and the median of those of the others (None: it may use as many), and
    `fewer_workers` the same of the workers of its training loaders. `tokens` are those of a sample there, and of the
    median of the others (None: they are not more, do not show, or it does not work longer).

    `uneven` are the rank that made the most iterations a pass and the one that made the fewest, each with their number
    (None: they hardly differ, or are not known). The ranks with fewer wait at the end of each pass, so only steps of
    the first pass are compared, as far as all ranks came: later ones with the same number are not of the same moment.
    `late` is the rank that came to `init_process_group` last, and by how many seconds the median of the others waited
    longer there than it (None: by little, or not known).

    `late_in_few` is a rank that held the others up in a few steps only (None: none did, or one does so in many).

    `early` are the ranks that did not reach their end. `hang` says that the ranks made no step any more before the end
    (None: they did). Then no straggler is named from a few steps.
    """

    of: int
    rows: tuple[RankRow, ...]
    steps: int = 0
    step_s: float = 0.0
    cost_s: float = 0.0
    cost_share: float = 0.0
    straggler: int | None = None
    part: Literal["wait", "work"] | None = None
    behind_s: float = 0.0
    stage: SlowStage | None = None
    longer: LongerSamples | None = None
    saved_share: float = 0.0
    fewer_cores: tuple[float, float] | None = None
    fewer_workers: tuple[int, float] | None = None
    tokens: tuple[float, float] | None = None
    readers: tuple[int, ...] = ()
    hidden: Literal["device", "work"] | None = None
    outside_rank: int | None = None
    outside_s: float = 0.0
    outside_share: float = 0.0
    early: tuple[int, ...] = ()
    hang: Hang | None = None
    uneven: tuple[tuple[int, float], tuple[int, float]] | None = None
    late: tuple[int, float] | None = None
    late_in_few: LateInFew | None = None

    @property
    def held_up_by(self) -> int | None:
        """The rank that the others waited for: in many steps, when it hung, or in a few steps (None: not known)."""
        if self.straggler is not None:
            return self.straggler
        if self.hang is not None and self.hang.ranks:
            return self.hang.ranks[0]
        return None if self.late_in_few is None else self.late_in_few.rank

    @property
    def hours_a_day(self) -> float:
        """Hours of each day of training that the job spends on work instead of waiting, if the straggler is like the
        median of the others: 24 x `saved_share`."""
        return 24 * self.saved_share
