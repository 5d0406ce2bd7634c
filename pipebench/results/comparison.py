"""The results of comparing two commits: the rounds of each benchmark, and the speed-up that they support.

What can be computed from other fields of the same object is computed when the object is made, also when it is loaded.
It is saved for programs that read the JSON, and it can never differ from the readings in the same file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from pipebench.host.machine import Machine
from pipebench.stats import Speedup

ALARMS = 0.01  # chance that any benchmark of a family is called changed although all are equal
MIDDLE = 0.6  # share of the rounds' speed-ups that counts: as many are left out above as below
BLIND = 2.0  # times as long: a gate that does not see that tells nothing
Pair = tuple[float, float]  # seconds of the base and of the head, taken one right after the other
SLOWER, FASTER, NOT_TOLD, TOO_FEW = "slower", "faster", "no difference detected", "too few rounds"
NOT_MEASURED, FAILED = "not measured", "failed"
CHANGED = "changed output"  # and not slower: a benchmark whose output changed is never called faster
VERDICTS = (SLOWER, FASTER, CHANGED, NOT_TOLD, TOO_FEW, NOT_MEASURED, FAILED)
NOTHING = "it returns nothing"  # why an output was not compared
GATE_FAILED, GATE_PASSED, NO_RESULT = "failed", "passed", "no result"  # what a gate says


@dataclass(frozen=True)
class Judgement:
    """The speed-up of the head over the base for one benchmark, and whether its rounds suffice to judge it.

    A speed-up of 0.97 is 3 % slower. `wanted` is the confidence that each benchmark of the family needs.
    """

    head_over_base: Speedup
    rounds: int
    wanted: float

    @property
    def enough(self) -> bool:
        """Whether this number of rounds can reach the wanted confidence."""
        return self.head_over_base.confidence >= self.wanted

    @property
    def told(self) -> bool:
        """Whether the rounds support a difference. If not, the table prints `~`."""
        return self.enough and self.head_over_base.told

    def exceeds(self, limit: float) -> bool:
        """Whether the whole interval is more than `limit` slower. A limit of 0.05 means over 1.05 times as long."""
        return self.told and self.head_over_base.high < 1.0 / (1.0 + limit)


@dataclass(frozen=True)
class Block:
    """The rounds that one run took of a benchmark, where several runs were joined, and what its readings consist of."""

    rounds: int
    calls_per_reading: int
    samples_per_call: int


@dataclass(frozen=True)
class Difference:
    """How an output of the head differs from the base's.

    `kind` is the first that was found of: another number of samples, another structure or type, another shape, another
    dtype, other values, an output of the head alone that is not the same twice, an answer from a cache, an answer that
    ignores its input. `part` is what was compared: the outputs of the timed inputs
    ("output"), those of inputs that no timed call gets ("unseen"), or the inputs themselves ("input"). `place` is the
    first leaf that differs so; `leaves` of `all_leaves` do. `base` and `head` are what the two sides have there: a
    type, a dtype or a number. For values: `share` of them differ, by `largest` at most and by `mean` on average over
    all values of these leaves.
    """

    kind: Literal["samples", "structure", "shape", "dtype", "values", "unrepeatable", "cached", "ignored"]
    part: str = "output"
    place: str = ""
    base: str = ""
    head: str = ""
    base_shape: tuple[int, ...] = ()
    head_shape: tuple[int, ...] = ()
    leaves: int = 0
    all_leaves: int = 0
    share: float | None = None
    largest: float | None = None
    mean: float | None = None


@dataclass(frozen=True)
class Outputs:
    """Whether both sides return the same for the same inputs and the same seed.

    `close`: they differ by the rounding of floating point, or within the tolerance of the lab's task. `unrepeatable`:
    the base does not return the same twice, or a side varies by rounding (`sides`), so what varies is not compared; all
    else is equal. `unknown`: they could not be compared, for the `reason`, which is `NOTHING` where there is none.
    `at_end`: they were compared after the rounds too.
    `unread` are types whose contents cannot be compared; all else is what `state` says. `cached` are the sides that
    answer an input from a cache the second time. `unseen` is why an answer from a cache would not be seen; empty if it
    would be.
    """

    state: Literal["same", "close", "changed", "unrepeatable", "unknown"]
    difference: Difference | None = None
    sides: tuple[str, ...] = ()
    place: str = ""
    reason: str = ""
    at_end: bool = False
    unread: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    unseen: str = ""

    @property
    def compared(self) -> bool:
        """Whether all of it was compared that is the same twice, or a difference was found."""
        return self.state == "changed" or (self.state != "unknown" and not self.unread)


@dataclass(frozen=True)
class Change:
    """One benchmark on both sides: all readings of all rounds and their judgement, or why there is none.

    A reading is the seconds of `calls_per_reading` calls. Where the head is far faster or slower, it took another
    number of calls, and its seconds are scaled to this number.

    `base_s` and `head_s` are seconds of one call, the minimum of all rounds; they follow from the rounds.
    `head_samples_per_call` is 0 where a call of the head has as many samples as one of the base. `blocks` are the runs
    that were joined, in the order of their rounds; empty if there was one run.

    `servers` has the rounds of each pair of servers, in the order of the rounds; empty if each run had one pair.

    `without_waiting`: the readings leave out the time that a side was ready to run and waited for a processor.

    The last four fields follow from the others. `verdict` is one of `VERDICTS`. `detectable` is the smallest relative
    change that so many rounds can detect, and None if they are too few. The times of one sample are None if nothing was
    measured.
    """

    benchmark: str
    judgement: Judgement | None = None
    base_s: float | None = None
    head_s: float | None = None
    samples_per_call: int = 0
    rounds: tuple[tuple[Pair, ...], ...] = ()
    calls_per_reading: int = 0
    skipped: str | None = None
    failed: str | None = None
    notes: tuple[str, ...] = ()
    head_samples_per_call: int = 0
    blocks: tuple[Block, ...] = ()
    outputs: Outputs | None = None
    without_waiting: bool = False
    servers: tuple[int, ...] = ()
    verdict: str = field(init=False, default="")
    detectable: float | None = field(init=False, default=None)
    base_s_per_sample: float | None = field(init=False, default=None)
    head_s_per_sample: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        base_s, head_s = (_shortest(self, 0), _shortest(self, 1)) if self.rounds else (self.base_s, self.head_s)
        samples = self.samples_per_call, self.head_samples_per_call or self.samples_per_call
        judged = self.judgement
        derived = {
            "base_s": base_s,
            "head_s": head_s,
            "verdict": _verdict(self),
            "detectable": judged.head_over_base.smallest_change if judged and judged.enough else None,
            "base_s_per_sample": base_s / samples[0] if base_s and samples[0] else None,
            "head_s_per_sample": head_s / samples[1] if head_s and samples[1] else None,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def changed(self) -> bool:
        """Whether the two sides did not do the same work."""
        return self.outputs is not None and self.outputs.state == "changed"

    @property
    def live(self) -> bool:
        """Whether it belongs to the family whose intervals hold together."""
        return self.skipped is None and self.failed is None

    @property
    def runs(self) -> tuple[Block, ...]:
        """The rounds by run."""
        return self.blocks or (Block(len(self.rounds), self.calls_per_reading, self.samples_per_call),)


def _shortest(change: Change, side: int) -> float | None:
    """Seconds of the fastest call of one side (0: base, 1: head), for as many samples as `change` says a call has."""
    found, begin = [], 0
    for run in change.runs:
        rounds = change.rounds[begin : begin + run.rounds]
        begin += run.rounds
        share = change.samples_per_call / run.samples_per_call if change.blocks and run.samples_per_call else 1.0
        found += [share * pair[side] / run.calls_per_reading for one in rounds for pair in one if run.calls_per_reading]
    return min(found, default=None)


def _verdict(change: Change) -> str:
    judged = change.judgement
    if change.failed is not None or judged is None:
        return FAILED if change.failed is not None else NOT_MEASURED
    if not judged.told:
        return NOT_TOLD if judged.enough else TOO_FEW
    if judged.head_over_base.speedup < 1:
        return SLOWER
    return CHANGED if change.changed else FASTER


@dataclass(frozen=True)
class Measured:
    """What one side of a comparison ran: a commit with the hash of its files, where they lay, and the interpreter.

    `commit` and `tree` are None for the working tree. `roots` are the folders on the import path. `python_version` is
    None in reports of earlier versions.
    """

    label: str
    commit: str | None
    tree: str | None
    roots: tuple[str, ...]
    python: str
    python_version: str | None = None


@dataclass(frozen=True)
class Said:
    """A line that the measured code wrote to standard error, such as a warning, and how often each side wrote it."""

    text: str
    base: int = 0
    head: int = 0


@dataclass(frozen=True)
class Run:
    """One of the runs that were joined: when and on which machine it was, and the load average before and after it."""

    created: str | None
    machine: Machine | None
    load: tuple[float, float] | None


@dataclass(frozen=True)
class Comparison:
    """Two commits, or two settings of one commit, measured against each other.

    `fail_above` is the gate that the user asked for. With 0.05, a benchmark fails the gate if its whole interval is
    more than 5 % slower. With `fail_on_change`, a benchmark whose output changed fails too. With `allow_changed`, it is
    judged as any other. `seeded`: both sides got the same seed before each round. `data` is the data set; None for a
    project's own loader. `load` is the load average of one minute before and after the run, which counts the run's own
    processes. `runs` are the runs that were joined; empty if there was one run. `most_rounds` is the number of rounds
    at which the run was told to stop; None for joined runs and in reports of earlier versions.

    `gate` and `exceeding`, the names of the benchmarks that fail the gate, follow from the others. `gate` is one of
    `GATE_FAILED`, `GATE_PASSED` and `NO_RESULT`, and None without a gate.
    """

    base: str
    head: str
    changes: tuple[Change, ...]
    fail_above: float | None = None
    sides: tuple[Measured, ...] = ()
    data: str | None = None
    load: tuple[float, float] | None = None
    said: tuple[Said, ...] = ()
    runs: tuple[Run, ...] = ()
    fail_on_change: bool = False
    allow_changed: bool = False
    seeded: bool = False
    most_rounds: int | None = None
    gate: str | None = field(init=False, default=None)
    exceeding: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        over = exceeding(self.changes, self.fail_above) if self.fail_above is not None else []
        object.__setattr__(self, "gate", gate(self.changes, self.fail_above, self.fail_on_change))
        object.__setattr__(self, "exceeding", tuple(one.benchmark for one in over))


class Judged(Protocol):
    """A row with a judgement: a benchmark of `ab`, or a figure that two saved reports have."""

    @property
    def judgement(self) -> Judgement | None: ...


Some = TypeVar("Some", bound=Judged)


def exceeding(changes: Sequence[Some], limit: float) -> list[Some]:
    """The benchmarks whose whole interval is more than `limit` slower. A limit of 0.05 means 5 % more time."""
    return [one for one in changes if one.judgement and one.judgement.exceeds(limit)]


def gate(changes: Sequence[Change], limit: float | None, on_change: bool = False) -> str | None:
    """What a gate of this limit says, and with `on_change` a gate on changed outputs. None: no gate.

    No result: a benchmark failed or was not reached, had too few rounds for the limit or is `unseen`, or has outputs
    that could not be compared.
    """
    if limit is None and not on_change:
        return None
    over = exceeding(changes, limit) if limit is not None else []
    if over or (on_change and any(one.changed for one in changes)):
        return GATE_FAILED
    judged = [one.judgement for one in changes if one.judgement]
    reached = not any(one.failed for one in changes) and not unreached(changes)
    whole = bool(judged) and reached and not (on_change and uncompared(changes))
    seen = limit is None or (all(one.enough for one in judged) and not unseen(changes))
    return GATE_PASSED if whole and seen else NO_RESULT


def unseen(changes: Sequence[Change]) -> list[Change]:
    """The benchmarks that a gate would pass although they took twice as long as its limit allows: so wide they are.

    One that is faster for certain is none of them.
    """
    judged = [(one, one.judgement.head_over_base) for one in changes if one.judgement and one.judgement.enough]
    return [one for one, over in judged if over.low <= 1.0 and over.high > BLIND * over.speedup]


def unreached(changes: Sequence[Change]) -> list[Change]:
    """The benchmarks that had no round before the run was cut short."""
    return [one for one in changes if not (one.judgement or one.skipped or one.failed)]


def uncompared(changes: Sequence[Change]) -> list[Change]:
    """The measured benchmarks whose outputs were not compared, or not all of their contents."""
    return [one for one in changes if one.judgement and (one.outputs is None or not one.outputs.compared)]


def figures(changes: Sequence[Change]) -> Iterator[float]:
    """The figures of the rounds that a judgement or a time per sample divides by. Every run gives positive ones."""
    for one in changes:
        yield from (seconds for pairs in one.rounds for pair in pairs for seconds in pair)
        yield from (run.calls_per_reading for run in one.runs if one.rounds)


def wanted_confidence(benchmarks: int, alarms: float = ALARMS) -> float:
    """The confidence that each of `benchmarks` comparisons needs.

    With it, the chance of any false alarm among all of them is at most `alarms`. This is Bonferroni's inequality: the
    chances of the single alarms add up to `alarms`, and it holds however the alarms depend on each other.
    """
    return 1.0 - alarms / max(1, benchmarks)


def left_out(rounds: int) -> int:
    """How many of so many rounds do not count in their middle, at each end."""
    return round((1 - MIDDLE) / 2 * rounds)


def reachable(rounds: int) -> float:
    """The confidence that so many rounds can reach, if all of them say the same.

    The test of `compare/permutation.py` exchanges base and head in some rounds. If all rounds have a slower head, those
    nearest to no difference are left out of their middle. Exchanging any of them, `left_out` in number, can leave the
    estimate as it is, and so can exchanging all others. So the chance cannot be shown to be less than that of these.
    """
    return 1.0 - min(1.0, 2.0 ** (1 + left_out(rounds) - rounds))


def rounds_needed(confidence: float) -> int:
    """The smallest number of rounds that can reach this confidence: 10 for one benchmark, 14 for each of six."""
    return next(rounds for rounds in itertools.count(1) if reachable(rounds) >= confidence)


def unjudged(changes: Sequence[Change]) -> tuple[int, int]:
    """How many benchmarks had too few rounds to be judged, and how many rounds each benchmark needs."""
    judged = [one.judgement for one in changes if one.judgement]
    wanted = max((one.wanted for one in judged), default=wanted_confidence(1))
    return sum(not one.enough for one in judged), rounds_needed(wanted)
