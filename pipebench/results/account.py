"""Where a whole run went: rows that add up to its wall time, and what could be saved of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

STARTING = ("start-up", "end-of-pass")
"""Rows of the begin and the end of passes: where workers do not live on, they start and end in them."""
_ONCE = ("interpreter", "before-loops", "after-loops", "exit", "not-recorded")  # rows: a longer run has as much of them


@dataclass(frozen=True)
class AccountRow:
    """One part of the run, in seconds of its main thread. The rows of an account exclude each other.

    Once in a run: "interpreter" (from the command to the script's first line, with the begin of recording),
    "before-loops" (imports, building the dataset and the model), "after-loops", "exit" (from the end of the script to
    the end of its process), and "not-recorded" (`--steps` has ended recording, or the process was killed).

    For each `loader`: "start-up" (an iterator's construction and the wait for the first batch of each pass), the parts
    of every later wait ("wait-for-worker", "receive", "unpickle", "pin", "make-batch", "after-loader", "send-indices",
    and "next", which is the rest of it), "sampler" (in start-up, too), "host-to-device", "prepare" (work on a batch
    before the model, as far as looks at the loop's stack tell it from forward), "forward", "backward", "optimiser",
    "other" (callbacks, logging; in a loop that does not train, all its work) and "end-of-pass" (the last `next()` of a
    pass, and the end of workers). "spans" are the functions of `--span` in the loop, and "recording" is what pipebench
    takes there. Loader 0 is a loop that trains without one: its "before-backward" is the making of a batch, and
    forward.

    "validation" is all time in the loops of one loader that did not train, in a run that trains: validation, or another
    use of a trained model. `inside` divides it into the same rows, and `passes` is their number; a loop around one that
    trains is a part of training. "outside-loops" is between loops: checkpoints, work without a loader.

    `recoverable_s` is about what a change could save of `s`, and `reason` is the code of the change:
    "persistent-workers", "one-iterator", "faster-loading", "more-overlap", "sampler-ahead", "smaller-hand-off",
    "pinning", "overlap-copies", "off-the-path", "in-workers", "one-tensor", "less-kept", "kept-outputs",
    "unused-gradients". None: nothing is known to save. Every such figure is a prediction that nobody has tried.
    `on_device` says that the row rests on CUDA figures.
    """

    code: str
    s: float
    loader: int | None = None
    recoverable_s: float | None = None
    reason: str | None = None
    on_device: bool = False
    inside: tuple[AccountRow, ...] = ()
    passes: int | None = None


IN_VAIN = "in_vain"
"""A value of batches that are made inside the loop: workers "hardly" help, or are "unsure" to; cheaper samples do."""
LITTLE = 0.01  # of a cause: less of it is no saving that is told


@dataclass(frozen=True)
class Cause:
    """Something that took time of the run, with its evidence.

    `s` is the time that it took, and `recoverable_s` about what a change could save of it (None: not known). `code`
    is one of those in `watch.read.causes`, or "sync-points", which only `advise` finds; `values` are the figures behind
    it, in base units. `unsure` is true if the figures support another cause of the same time as well: then all of them
    are given. `on_device` says that the figures are of CUDA.
    """

    code: str
    s: float
    recoverable_s: float | None = None
    loader: int | None = None
    values: dict[str, str | int | float] = field(default_factory=dict)
    unsure: bool = False
    on_device: bool = False

    @property
    def saving_s(self) -> float:
        """What a change is known to save, if that is worth telling; else 0."""
        saved = self.recoverable_s or 0.0
        return saved if saved >= LITTLE * self.s else 0.0

    @property
    def doubtful(self) -> bool:
        """Whether it stands behind the others: a wait for a device is possible, or a change of results."""
        return "even" in self.values or "varies" in self.values

    @property
    def at_most_s(self) -> float:
        """The most that could be saved as far as is known: all of it, where nothing is known."""
        return self.s if self.recoverable_s is None else self.recoverable_s

    @property
    def ranked_s(self) -> float:
        """By what causes are put in order: `at_most_s`, but of a stream that begins anew only what is known."""
        return float(self.values.get("kept_s", self.at_most_s))


@dataclass(frozen=True)
class Account:
    """The rows of a run. They add up to `wall_s`, from the start of its process to its end.

    `causes` says what the large rows come from, first what could save most; it is empty if nothing is worth a change.
    `beside_s` is the time of loops in threads other than the main one. It is in no row.
    """

    wall_s: float
    rows: tuple[AccountRow, ...]
    causes: tuple[Cause, ...] = ()
    beside_s: float = 0.0
    script_cpu_s: float | None = None

    @property
    def loops_s(self) -> float:
        """The time from the first loop's begin to the last one's end."""
        return self.wall_s - sum(one.s for one in self.rows if one.code in _ONCE)


def work_between(causes: Iterable[Cause]) -> Cause | None:
    """Work between the loops that takes much of their time, and whose place is known; None: there is none."""
    return next((one for one in causes if one.code == "outside-loops" and {"large", "line"} <= set(one.values)), None)


def largest_saving(causes: Iterable[Cause]) -> Cause | None:
    """The cause that could save most of the run; doubtful ones stand behind the others. None: none saves anything."""
    return max((one for one in causes if one.saving_s), key=lambda one: (not one.doubtful, one.saving_s), default=None)
