"""The result of `advise`: which changes of a loader were tried inside the script's own loop, and what each brought."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

from pipebench.results.programs import Program
from pipebench.results.trial_reads import TrialReads
from pipebench.stats import Speedup

Value = str | int | float | bool | None
Outcome = Literal["gain", "no-gain", "slower", "unclear", "not-tried"]
Ended = Literal["done", "budget", "script-ended", "refused", "fault"]
NoText = Literal[
    "", "no-change", "new-loader-each-pass", "by-hand", "library", "no-call", "other-loaders", "encoding", "no-python",
    "changed", "outside", "not-saved",
]  # fmt: skip
"""Why a change is not written into the user's files ("": it is).

"no-change": none is advised. "new-loader-each-pass": first the loader must be made once. "by-hand": the change is no
text that we know. "library": an installed library makes the loader. "no-call": the call of the loader was not found, or
does not show its arguments. "other-loaders": this call makes, or may make, other loaders too, which were not tried.
"encoding": a file is not UTF-8, or cannot be read. "no-python": a file would not be Python any more. "changed": a
file is newer than the run, so its places are not those of the run. Only of patches: "outside": a file is not in the
current folder, so no patch of this folder can name it. "not-saved": the patch itself could not be written.
"""
_CLEARLY = 0.95  # of a speed-up: what is less is clearly less
ANEW = "new-loader-each-pass"  # why workers could not live on: the script makes its loader again and again
NO_LOADER = "no-loader"  # a refusal: the training takes no batch from a DataLoader
_ROOM = 0.8  # of the free memory: the most that a cache may take
TOGETHER = "together"  # the remedy of what is tried together
SOME_PASSES = 10  # of a training, for what must be made once
_PAYS = 1.03  # in so many passes: the least speed-up that is worth an edit
LEAST_PAIRS = 3  # of a trial; below it, an interval is too wide to be read
_GIVEN_BACK, _MOST_GIVEN_BACK = 0.1, 0.95  # of the time with a changed loader: less hardly lowers its gain
_SCATTERED = 2.5  # times the smallest ratio of a trial: a larger one makes an interval that says nothing
_MOST = 0.5  # of the time in which samples are made
_NAMED = 1.1  # the least speed-up of a change of the script that is named first


@dataclass(frozen=True)
class Place:
    """A function or a call in the user's own code. `name` is what it is called."""

    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Rewrite:
    """What replaces the bytes from `begin` to `end` of a file. `helper`: it is a definition that the rest needs."""

    file: str
    begin: int
    end: int
    new: str
    helper: bool = False


@dataclass(frozen=True)
class Part:
    """What the user writes for one of several changes, and where (None: the lines say so, or it is for all of them)."""

    how: tuple[str, ...]
    at: Place | None = None


@dataclass(frozen=True)
class Change:
    """One change of a loader. `remedy` names its kind, and `settings` are the keywords of DataLoader that differ.

    `one_thread` sets the thread pools in the workers to one thread, for which `pools` names the settings.
    `loop_threads` is how many threads torch then has in the script's own process (0: as many as now). `by_passes`
    says that only whole passes show what it brings. `cost` says what the user pays for it. `predicted` is the most
    that it could bring, as a speed-up, by the figures of the watched run (None: these figures say nothing about it).
    `asked_for` says that it is the remedy of a cause in the account of this run: of equal changes it is tried first.

    A change that is no keyword has a `title`. `edits` are what the workers do otherwise while it is tried: names of
    remedies with their arguments. `how` says what the user writes, and `at` where; `rewrites` write it, if the place
    was found. `knock_out` says that a stage is served from a memo: no change for the user, but the most that any change
    of this stage could bring. `discards` says that the training gets other values while it is tried, so its weights are
    worth nothing. `of_script` says that it is a change of the script besides its loader: only predicted, not tried.
    `basis` says in words what such a prediction rests on, if it is more than the figures of the watched part. Changes
    of one `group` do the same work in different ways, so they are never made together. `gives_up` says that the samples
    are not equal, and that the change is shown, but never advised. `partly` says that its settings and `rewrites` are
    not all of it: the rest is written by hand. `if_once` is what it is called, and what the user writes, if one result
    serves all samples: only a trial shows that; `if_changed` is what he writes besides, if somebody changes a result in
    place. `untried` is why it cannot be tried at all ("": it can).
    `rough`: before it is tried, the remedy measures on the user's files whether it is worth that. `varies` is how far
    its gain differs between runs, where that is more than usual: the standard deviation of the gain's logarithm.
    `parts` are what the user writes for several changes in one; those without a place come first. `or_more`:
    `predicted` is no limit, because the change also frees cores that training waits for; `frees` is the share of the
    workers' time that it can save. `of_run`: `predicted` is of all that a run repeats, also between its loops. `about`:
    `predicted` rests on looks at stacks, so it may be somewhat more.
    """

    remedy: str
    settings: dict[str, Value]
    cost: str = ""
    one_thread: bool = False
    pools: tuple[str, ...] = ()
    by_passes: bool = False
    predicted: float | None = None
    asked_for: bool = False
    title: str = ""
    edits: dict[str, dict[str, Value]] = field(default_factory=dict)
    how: tuple[str, ...] = ()
    at: Place | None = None
    knock_out: bool = False
    discards: bool = False
    of_script: bool = False
    rewrites: tuple[Rewrite, ...] = ()
    basis: str = ""
    group: str = ""
    gives_up: bool = False
    partly: bool = False
    if_once: tuple[str, ...] = ()
    if_changed: tuple[str, ...] = ()
    untried: str = ""
    rough: bool = False
    varies: float = 0.0
    parts: tuple[Part, ...] = ()
    loop_threads: int = 0
    or_more: bool = False
    frees: float = 0.0
    of_run: bool = False
    about: bool = False

    @property
    def limit(self) -> str:
        """`predicted` in words, where nothing was tried."""
        most = f"{self.predicted or 1.0:.2f}×"
        return f"about {most} or more" if self.or_more else f"{'about' if self.about else 'at most'} {most}"

    @property
    def promise(self) -> float | None:
        """What is told as the most that it could bring. Of fewer threads, no figure tells it."""
        return None if self.loop_threads else self.predicted

    @property
    def no_workers(self) -> bool:
        """Whether the loader has no workers after it."""
        return self.settings.get("num_workers") == 0


@dataclass(frozen=True)
class Difference:
    """How far the samples of a change are from those without it: the largest and the mean difference of a value.

    It was measured on `values` values of some of the user's samples, which lie in a range of `span`.
    """

    largest: float
    mean: float
    span: float
    values: int


@dataclass(frozen=True)
class Cache:
    """A cache of whole samples: the mean size of one, how many there are, and how much memory is free (None: unknown).

    It is possible because the dataset gives the same sample for one index each time, bit for bit, where that was tried.
    `once`: one of them serves all samples. One process makes all of them in about `fill_s` seconds, and a pass without
    the cache takes `pass_s`, with what lies between it and the next one (None: not known).
    """

    sample_bytes: float
    samples: int
    free_bytes: float | None = None
    once: bool = False
    fill_s: float | None = None
    pass_s: float | None = None

    @property
    def bytes(self) -> float:
        return self.sample_bytes * self.samples

    @property
    def fits(self) -> bool:
        """Whether free memory holds it, as far as that is known."""
        return self.free_bytes is None or self.bytes <= _ROOM * self.free_bytes


@dataclass(frozen=True)
class Finding:
    """What is known about one change.

    `gain` is the speed-up of the whole training loop, in iterations per second, with the changed loader. Its interval
    is for the speed-up that another such trial would find. It comes from `ratios`, one for each pair of neighbouring
    windows (or of whole passes: `by`). `reason` says why a change was not tried, or why its trial ended. `predicted` is
    the speed-up by the simulation, also of what was tried (None: it does not know this change).
    `difference` is of its samples (None: not measured, because it changes none). `cache` is what a cache of samples
    takes (None: not asked, or the samples differ each time).

    `given_back` is the share of the time with the changed loader in which the script's own values were made again, out
    of what it would get after the change. That is in the gain. What the loop waited for workers is taken off.

    `needs_s` is how long the shortest trial would have taken, where the budget left less (None: it is not why).

    `read` is what the workers read while it was tried, and what storage gave of that (None: not known).

    `belied`: trials of other numbers of workers brought nothing of what the simulation said of them. So what it says of
    this one does not count.

    `run` is what this gain means for all that a run repeats, as the watched part shows it: passes with the start of
    their workers, validation, and what is between loops. Their time stays as it is (None: not known).
    """

    change: Change
    outcome: Outcome
    gain: Speedup | None = None
    ratios: tuple[float, ...] = ()
    by: Literal["windows", "passes"] = "windows"
    reason: str = ""
    predicted: Speedup | None = None
    run: Speedup | None = None
    difference: Difference | None = None
    cache: Cache | None = None
    given_back: float = 0.0
    needs_s: float | None = None
    belied: bool = False
    read: TrialReads | None = None

    @property
    def scattered(self) -> bool:
        """Whether the pairs are so far apart that their interval says nothing."""
        return len(self.ratios) > 1 and max(self.ratios) > _SCATTERED * min(self.ratios)

    @property
    def fills(self) -> bool:
        """Whether it keeps results of many samples, so that it gains when they are there."""
        return "cache" in self.change.edits and not (self.cache is not None and self.cache.once)

    @property
    def keeps_workers(self) -> bool:
        """Whether the present workers live on, maybe with other changes."""
        of_workers = self.change.remedy == TOGETHER and self.change.settings.get("persistent_workers") is True
        return of_workers or self.from_second

    @property
    def from_second(self) -> bool:
        """Whether it saves nothing in the first pass: workers that live on have to start once."""
        return self.change.settings == {"persistent_workers": True}

    def after(self, passes: int) -> Speedup | None:
        """What it gains in a run of so many passes. None: nothing is known of the gain, or of what filling it takes.

        One process first makes what is kept. Each pass is faster by the gain then. Workers that live on save their
        start from the second pass on; with other changes, the first pass gains something between nothing and all.
        """
        found = self.run or self.gain
        if found is None or not (self.fills or self.keeps_workers):
            return found
        if not self.fills:
            later = _mixed(found, 1 / passes, 1 - 1 / passes)
            between = math.sqrt(later.speedup * found.speedup)
            return later if self.from_second else replace(later, speedup=between, high=found.high)
        cache = self.cache
        if cache is None or cache.fill_s is None or cache.pass_s is None:
            return None
        if min(found.low, found.speedup, found.high, cache.pass_s) <= 0.0 or cache.fill_s < 0.0:  # of a made-up report
            return None
        return _mixed(found, cache.fill_s / cache.pass_s / passes, 1.0)

    def in_run(self, passes: int = SOME_PASSES) -> Speedup | None:
        """What it gains in a run, as far as that is known; else in all that a run repeats, or in the loop."""
        return self.after(passes) or self.run or self.gain

    @property
    def pays(self) -> bool:
        """Whether a run of ten passes gains by it, as far as that is known, though it must be filled first."""
        told = self.after(SOME_PASSES) if self.fills else None
        return told is None or told.speedup >= _PAYS

    @property
    def if_taken(self) -> float | None:
        """About what it brings to a script that takes what it gets. None: the gain says enough."""
        if self.gain is None or self.outcome == "gain" or self.given_back < _GIVEN_BACK:
            return None
        return self.gain.speedup / (1 - min(self.given_back, _MOST_GIVEN_BACK))

    @property
    def advisable(self) -> bool:
        """Whether the user may be advised to do this: it gives nothing up, and what it keeps fits and pays."""
        fits = "cache" not in self.change.edits or self.cache is None or self.cache.fits
        return fits and self.pays and not self.change.gives_up


def _mixed(found: Speedup, same: float, faster: float) -> Speedup:
    """The speed-up of a run of which `faster` is so much faster, in units of its present time, and `same` is not."""
    speedup, low, high = (
        1 / (same + faster / one) if one > 0 else 0.0 for one in (found.speedup, found.low, found.high)
    )
    return Speedup(speedup, low, high, found.confidence)


@dataclass(frozen=True)
class Snippet:
    """How the user writes a change: the lines of the call that makes the loader. `line` is the first of them."""

    file: str
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Patch:
    """The file of a patch, if the user asked for one. `reason` says why there is none.

    `partly` says that it is not all of the change: the rest is written by hand.
    """

    file: str
    reason: NoText = ""
    partly: bool = False


@dataclass(frozen=True)
class Advice:
    """The result of one run. `best` is the index of the finding to follow (None: nothing gained, or it is put `aside`).

    `file` and `line` are the place where the script makes the loader ("" and 0: not seen). `spent_s` of `budget_s`
    seconds were used. `ended` says why trying ended. `most` is the speed-up that the loop would have if it waited for
    no batch at all: no loader can bring more, as long as workers take no core from the training (None: not known, or so
    high that it says nothing). `or_more`: they do take some, for which torch's threads wait. `discarded` says that
    something was tried that spoils the weights. `foretold` is the index of the finding to follow where nothing was
    shown to gain: the simulation speaks for it, or each pair of a trial that was too short. `streamed`: the dataset is
    iterable, and each loader read the stream by itself.
    `ranks` is how many ranks of one training tried each change at the same batches; the gain is that of the job.
    `cut_short` are the programs that failed or were killed while changes were tried, without figures: of a script, it.
    `made_by` is the library that makes the loader ("": the user's own code does). `unwritten` says why there is no
    `snippet`, and `patch` what became of the file for a patch (None: not asked for).
    """

    findings: tuple[Finding, ...]
    best: int | None
    loader: int | None
    file: str
    line: int
    budget_s: float
    spent_s: float
    ended: Ended
    snippet: Snippet | None = None
    most: float | None = None
    or_more: bool = False
    refusal: str = ""
    discarded: bool = False
    foretold: int | None = None
    ranks: int = 1
    cut_short: tuple[Program, ...] = ()
    made_by: str = ""
    unwritten: NoText = ""
    patch: Patch | None = None
    streamed: bool = False

    @property
    def chosen(self) -> Finding | None:
        """The finding to follow: it was tried."""
        return None if self.best is None else self.findings[self.best]

    @property
    def followed(self) -> Finding | None:
        """The finding to follow, tried or only predicted."""
        return self.findings[self.foretold] if self.best is None and self.foretold is not None else self.chosen

    @property
    def aside(self) -> Finding | None:
        """Fewer threads of torch that gained, or probably do, where a change of the script could bring more.

        Training then waits for cores that this work of the workers takes, so they are to be tried when it is gone. If
        that is most of their work, the change brings more, whatever the waits of the loop say.
        """
        more = [one.change for one in self.findings if one.change.of_script and one.change.or_more]
        limit = max((one.predicted or 0.0 for one in more), default=0.0)
        frees = max((one.frees for one in more), default=0.0)
        tried = [one for one in self.findings if one.change.loop_threads and one.gain]
        found = [one for one in tried if one.outcome == "gain" or (one.ratios and min(one.ratios) > 1.0)]
        most = max(found, key=lambda one: one.gain.speedup if one.gain else 0.0, default=None)
        return most if most is not None and most.gain and (frees >= _MOST or limit > most.gain.speedup) else None

    @property
    def larger(self) -> Finding | None:
        """A change of the script besides its loader that could bring clearly more than the finding to follow.

        Without such a finding, one that could bring enough to be named first.
        """
        gain = (one.in_run() or one.predicted) if (one := self.followed) is not None else None
        others = [one for one in self.findings if one.change.of_script and one.change.predicted]
        most = max(others, key=lambda one: one.change.predicted or 0.0, default=None)
        least = gain.speedup / _CLEARLY if gain is not None else _NAMED
        return most if most is not None and (most.change.predicted or 0.0) > least else None
