"""The lines in which a process of a watched command says which of its programs it is, and how it ended."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple, TypeAlias

from pipebench.watch.record.line import line
from pipebench.watch.record.trial_lines import LineLooks


@line
class ProgramStarted:
    """A process that the command started. Written when it imports torch.

    `argv` is the script or module that it was started with, and its arguments: `sys.argv` may change later. `began` is
    the begin of its Python, and `parent` the process that started it.
    """

    began: int
    parent: int
    argv: list[str] = field(default_factory=list)


@line
class WithoutTorch:
    """The process looked for torch and has not imported it when it ends. `missing`: its Python, `python`, has none."""

    python: str
    missing: bool


@line
class LoadsInFork:
    """A process that a program forked, and that is no worker, iterates a loader over this class. It is not watched."""

    dataset: str


@line
class RankFound:
    """The process is one of the `of` ranks that train together. The last line of this kind counts.

    `local` is its number on this machine, and `here` how many there are (None: not known). `meeting` is where the ranks
    of one training find each other: the address and port of the first, and how often they were started anew. Its call
    of `init_process_group`, in which ranks wait for each other, took `joined_ns` (None: it is not from there).
    """

    rank: int
    of: int
    local: int | None = None
    meeting: str = ""
    here: int | None = None
    joined_ns: int | None = None


@line
class CoresAllowed:
    """The numbers of the cores on which a rank may run (its affinity), at its first steps and when they have changed.

    The last line of this kind counts. Workers inherit them when they are started.
    """

    cores: list[int] = field(default_factory=list)


@line
class LeftOn:
    """Tools of torch that were on at each look so far: "anomaly-detection", "profiler". The last line counts.

    So do "float16" and "float64", in which most of a step was computed.
    """

    tools: list[str] = field(default_factory=list)


@line
class LastLayerWork:
    """What the last layer before a cross entropy computes: see `script/head_work.py`.

    So many `rows` of so many `outputs`: that is the `share` of what all products of matrices multiply.
    """

    rows: int
    outputs: int
    share: float


@line
class GradientRows:
    """An optimiser over so many `numbers`, of which its `largest` parameter has so many, in `rows`.

    Of `looked` of these rows, `touched` had a gradient that is not zero.
    """

    name: str
    numbers: int
    largest: int
    rows: int
    looked: int
    touched: int


@line
class ProgramFailed:
    """The exception that no code of the program caught, in one line."""

    text: str


class OwnStep(NamedTuple):
    """What a rank did by itself in one step: it waited for batches, and it worked. Steps are numbered from 0.

    Backward and collectives are in neither, because there the ranks wait for each other. Nor is what is in no iteration
    of the loop in which the step was made: validation, a checkpoint between two loops, the start and the end of a pass.
    That is `outside_ns`, since the step that was kept before. The loop is that over `loader` (None: the step was made
    outside all loops), and `made` is how many steps were made there so far.
    """

    number: int
    wait_ns: int
    work_ns: int
    outside_ns: int = 0
    loader: int | None = None
    made: int = 0


@line
class OwnSteps:
    """Some steps of this rank: all of the first, later fewer and fewer. All ranks choose the same.

    Written after each `LoopSums` of the main thread, so both are of the same moment: how many iterations a step has
    follows from them, also of a rank that was killed.
    """

    steps: list[OwnStep] = field(default_factory=list)


@line
class StartLooks:
    """Where the main thread was before its first loop, in so many looks from `begin` to `end`.

    `imports` of them were inside an import, which a library may do late. `lines` are the innermost ones of the user's
    own in the others; looks that found none are in `looks` only. If another thread forked before the first loop, `end`
    is the fork. `after`: they are of what follows the last loop instead.
    """

    begin: int
    end: int
    looks: int
    lines: list[LineLooks] = field(default_factory=list)
    imports: int = 0
    after: bool = False


@line
class LastStep:
    """How long ago a rank made its last step when its process ended at `at`, and what it did since.

    It had made `made` steps, the last one `since_ns` ago. Before, one step followed another within `longest_ns`. Since
    then it did something by itself for `own_ns`, and for `outside_ns` outside the loop of that step; the rest is
    backward and collectives, in which it waited for the others.
    """

    at: int
    made: int
    since_ns: int
    longest_ns: int
    own_ns: int
    outside_ns: int = 0


ProgramLine: TypeAlias = (
    ProgramStarted
    | WithoutTorch
    | LoadsInFork
    | RankFound
    | CoresAllowed
    | LeftOn
    | LastLayerWork
    | OwnSteps
    | LastStep
    | GradientRows
    | ProgramFailed
    | StartLooks
)
