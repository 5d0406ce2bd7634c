"""What a remedy knows when it decides whether to be tried: the watched run, and how the loader was made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pipebench.predict.more_workers import NEARLY
from pipebench.predict.room import PREFETCH_FACTOR, Room
from pipebench.results.account import STARTING, AccountRow, Cause
from pipebench.results.advice import Change, Place, Value
from pipebench.results.drilled import DrilledLine, NeedlessCall, runs_of
from pipebench.results.watched import LoaderResult, StageResult, WatchResult, WorkerResult
from pipebench.stats import Speedup
from pipebench.units import code_place, size
from pipebench.watch.record.own_code import owner
from pipebench.watch.record.trial_lines import LoaderMade
from pipebench.watch.stages.called import GETTERS

_TELLING = 10.0  # a limit above this says nothing about what a change will bring
# Parts of a wait that workers do not change. Receiving is none: on a busy machine it holds waits for a worker, too.
_OF_THE_SCRIPT = ("sampler", "send-indices")
_BLOCKED = 0.5  # of the time of a sample on a core, at most
_LONG_PASS_S = 60.0  # the start of workers takes some tenths of a second, or some seconds
_CLEARLY = 1.2  # times the speed-up of the lowest rung: then that one is passed over
WORTH = 1.03  # a speed-up that is worth an edit
TRY_FROM = 1.08  # a limit that is worth a trial: runs differ so much that an interval shows hardly less


@dataclass(frozen=True)
class Seen:
    """The figures behind every proposal. `settings` are the loader's present ones, `batches` the length of a pass.

    `any_order` says that the user allows trials that change the order of batches, and `discards` that he allows those
    after which the weights are worth nothing. `free_bytes` is free memory, of one rank. `made` is where the loader was
    made, and `all_made` where each loader was. `lengths` are successive iterations of a pass, in any unit. `ranks`
    is how many ranks of the training share the cores and the memory, each with loaders of its own. `foretold` is what
    the simulation says of a change of this loader (None: it does not know the change). `measures`: a remedy may take
    some seconds to measure on the user's files before it proposes; else its change is `rough`.
    """

    watched: WatchResult
    loader: LoaderResult
    settings: dict[str, Value]
    batches: int | None
    device: bool = False
    free_bytes: float | None = None
    any_order: bool = False
    discards: bool = False
    made: LoaderMade | None = None
    all_made: Mapping[int, LoaderMade] = field(default_factory=dict)
    lengths: Sequence[float] = ()
    ranks: int = 1
    foretold: Callable[[Change], Speedup | None] = lambda change: None
    measures: bool = False

    def place_of(self, made: LoaderMade | None) -> tuple[str, int]:
        """File and line in the user's own code that led to a loader; ("", 0) if it is not known."""
        if made is None:
            return "", 0
        if not owner(made.file):
            return made.file, made.line
        found = next((one for one in self.watched.loaders if one.loader == made.loader), None)
        return (found.file, found.line) if found is not None and not owner(found.file) else ("", 0)

    def at(self, made: LoaderMade | None) -> Place | None:
        """The same as a place that an advice names."""
        file, line = self.place_of(made)
        return Place("the loader", file, line) if file else None

    @property
    def at_collate(self) -> Place | None:
        """Where the collate function of this loader is written, if that is the user's own code."""
        collate = self.made.collate if self.made is not None else None
        return Place(*collate) if collate and not owner(collate.file) else None

    def number(self, name: str) -> int:
        found = self.settings.get(name)
        return int(found) if isinstance(found, int | float) else 0

    def has_cause(self, *codes: str) -> bool:
        """Whether the account of the watched run has one of these causes."""
        account = self.watched.account
        return account is not None and any(one.code in codes for one in account.causes)

    @property
    def blocked(self) -> bool:
        """Whether making batches needs hardly a core: workers sleep or wait for storage, or would."""
        if self.has_cause("storage", "workers-blocked"):
            return True
        whole, cpu = self.loader.sample_s, self.loader.sample_cpu_s
        return self.has_cause("no-workers") and None not in (whole, cpu) and (cpu or 0.0) < _BLOCKED * (whole or 0.0)

    @property
    def slow_hand_off(self) -> bool:
        """Whether handing batches over is a cause in the account."""
        return self.has_cause("hand-off", "pickling")

    @property
    def stages(self) -> list[StageResult]:
        """The rows of this loader."""
        return [one for one in self.watched.stages if one.loader == self.loader.loader]

    def lines(self) -> Iterator[tuple[str, float, DrilledLine]]:
        """The lines of the user's own code that looks at the stack found: the kind of the row, and the line's share.

        It is the share of the time in which this loader's workers were busy.
        """
        for row in self.watched.drilled:
            for line in row.lines if row.loader == self.loader.loader else ():
                if line.file:
                    yield row.kind, row.of_lines * line.share, line

    @property
    def needless(self) -> list[NeedlessCall]:
        """What did the same again in samples of this loader, the longest first."""
        in_lines = (line.needless for _, _, line in self.lines() if line.needless is not None)
        found = [*in_lines, *(one for one in self.watched.needless if one.loader == self.loader.loader)]
        return sorted(dict.fromkeys(found), key=lambda one: -one.share)

    @property
    def its_workers(self) -> list[WorkerResult]:
        """The workers of this loader, each with its figures."""
        return [one for one in self.watched.workers if one.loader == self.loader.loader]

    def cause(self, code: str) -> Cause | None:
        """The first cause of this code in the account of the watched part."""
        account = self.watched.account
        return next((one for one in account.causes if one.code == code), None) if account else None

    def at_loader_of(self, cause: Cause | None) -> Place | None:
        """Where the loader was made that a cause is about."""
        return self.at(self.all_made.get(cause.loader or 0)) if cause is not None else None

    def could_save(self, code: str) -> float:
        """The seconds that this cause could save of the watched part."""
        account = self.watched.account
        return sum(one.recoverable_s or 0.0 for one in account.causes if one.code == code) if account else 0.0

    @property
    def workers(self) -> int:
        return self.number("num_workers")

    @property
    def cores(self) -> float:
        """The usable cores for this rank: its own, or its part of those that the ranks share."""
        host, own = self.watched.host, self.watched.usable_cores
        shared = host.shared_cores if host is not None and host.shared_cores is not None else own
        return min(own, shared / self.ranks)

    @property
    def wait_share(self) -> float:
        """The share of the settled loop's time in which it waits for batches, or in which the device idles."""
        idle, share = self.watched.device_idle, self.watched.wait_share
        return idle.share if idle is not None else self.loader.wait_share if share is None else share

    @property
    def most(self) -> float:
        """The speed-up of a loop that waits for no batch. Shorter start-up of passes comes on top of it."""
        return without_share(self.wait_share)

    @property
    def serves_stages(self) -> bool:
        """Whether stages may be served from a memo here, and may matter: the loop waits, or workers share its cores."""
        return self.discards and self.workers > 0 and (self.most >= WORTH or self.workers >= self.cores)

    @property
    def training_gains_too(self) -> bool:
        """Whether training gets faster with less work of workers: torch's threads wait for cores that these use."""
        return self.workers > 0 and self.cause("many-threads") is not None

    @property
    def without_waits(self) -> float | None:
        """`most`, if it says anything: None of a loop that does little besides waiting."""
        return telling(self.most)

    @property
    def most_by_workers(self) -> float:
        """The speed-up of a loop that waits for no worker. The sampler takes as long as before."""
        own = sum(one.share for one in self.watched.wait_parts if one.part in _OF_THE_SCRIPT)
        return without_share(self.wait_share * (1 - min(1.0, own)))

    @property
    def promise(self) -> float | None:
        """`most_by_workers`, if it says anything."""
        return telling(self.most_by_workers)

    @property
    def waits(self) -> bool:
        """Whether the loop waits for workers so long that more batches in time would be worth a trial."""
        return self.most_by_workers >= TRY_FROM

    @property
    def iteration_s(self) -> float:
        return self.loader.s_per_iteration or 0.0

    @property
    def samples_per_batch(self) -> float:
        """As the loader says, else as were made: a sampler of batches has a size of its own."""
        return self.number("batch_size") or max(1.0, self.loader.samples / max(1, self.loader.iterations))

    @property
    def turns(self) -> float | None:
        """The iterations of a pass (None: not known). A loop that leaves it early makes fewer than its loader has."""
        if self.loader.passes < 2:
            return self.batches
        most = self.loader.iterations / (self.loader.passes - 1)
        if self.batches is not None and self.batches <= most:
            return self.batches
        return self.loader.iterations / (self.loader.passes - 0.5)  # the last pass is half done, on average

    @property
    def pass_s(self) -> float | None:
        """The seconds of a whole pass (None: its length is not known)."""
        return None if self.turns is None else self.turns * self.iteration_s + self.between_s

    @property
    def between_s(self) -> float:
        """The seconds that a pass loses to the start and the end of workers, before its second batch."""
        later = self.loader.later_startup_s
        start = self.loader.startup_s if later is None else later
        return (start or 0.0) + (self.loader.pass_end_s or 0.0)

    def starts_in_passes(self, settings: Mapping[str, Value]) -> bool:
        """Whether each pass would start the first workers of this loader, and is so short that this matters."""
        first = not self.workers and bool(settings.get("num_workers")) and self.loader.passes > 1
        lives = settings.get("persistent_workers") and not self.loader.again
        return first and not lives and (self.pass_s or _LONG_PASS_S) < _LONG_PASS_S

    @property
    def without_start(self) -> float:
        """The speed-up of whole passes if workers neither started nor ended in them."""
        whole = self.pass_s
        return whole / max(1e-9, whole - self.between_s, 0.01 * whole) if whole else 1.0

    @property
    def room(self) -> Room:
        """What there is for workers of this loader."""
        given = self.watched, self.loader, self.workers, self.prefetch_factor
        return Room(*given, self.turns, self.free_bytes, self.ranks)

    def ahead_with(self, change: Change) -> tuple[int, int]:
        """The workers, and the batches that each makes ahead, after a change."""
        workers = int(change.settings.get("num_workers", self.workers) or 0)
        return workers, int(change.settings.get("prefetch_factor") or self.prefetch_factor)

    def first_rung(self, setting: str, rungs: Sequence[int]) -> int:
        """Of a ladder of values of a setting, the lowest that the simulation holds for nearly the best.

        It is the lowest of all if the simulation does not know that one, or holds it for about as good.
        """
        told = {rung: self.foretold(Change(setting, {setting: rung})) for rung in rungs}
        known = {rung: one.speedup for rung, one in told.items() if one is not None}
        if rungs[0] not in known:
            return rungs[0]
        best = min(rung for rung, speedup in known.items() if speedup >= NEARLY * max(known.values()))
        return best if known[best] >= _CLEARLY * known[rungs[0]] else rungs[0]

    @property
    def prefetch_factor(self) -> int:
        return self.number("prefetch_factor") or PREFETCH_FACTOR

    def processes(self, more: int) -> str:
        """What so many more worker processes cost, in words."""
        each = " a rank" if self.ranks > 1 else ""
        if more <= 0:
            return f"−{-more} process{'es' if more < -1 else ''}{each}"
        each_bytes = self.room.worker_bytes
        memory = f", {size(more * each_bytes)}" if each_bytes else ""
        return f"+{more} process{'es' if more > 1 else ''}{memory}{each}"


def telling(limit: float) -> float | None:
    """A limit of a speed-up, or None if it is so high that it says nothing."""
    return limit if limit <= _TELLING else None


def without_share(share: float) -> float:
    """The speed-up if what takes this share of the time took none (Amdahl); 100 at most."""
    return 1 / max(0.01, 1 - share)


def were_free(share: float) -> float | None:
    """The speed-up of workers if what takes this share of their time took none (Amdahl), if that says anything."""
    return telling(without_share(share))


def hand_off_share(seen: Seen) -> float:
    """The share of an iteration in which each worker pickles, or in which the script receives: the larger one."""
    found = seen.watched.hand_off
    in_worker = found.serialise_s_per_batch / max(1, seen.workers) if found is not None else 0.0
    in_script = sum(one.s_per_iteration for one in seen.watched.wait_parts if one.part in ("receive", "unpickle"))
    return min(1.0, max(in_worker, in_script) / max(1e-9, seen.iteration_s))


def share_of(seen: Seen, kind: str, name: str = "") -> float:
    """The share of the workers' time in the rows of this kind and name, also of one of several objects of a class."""
    rows = (one for one in seen.stages if one.kind == kind)
    return sum(one.worker_share for one in rows if not name or one.name.split(" (")[0] == name)


def whole_share(one: StageResult) -> float:
    """The share of the workers' time with the stages inside. Records of earlier versions do not have it."""
    return one.worker_share if one.whole_share is None else one.whole_share


def functions(seen: Seen) -> list[StageResult]:
    """The functions that make samples, with their shares.

    Without workers, the script's own functions have no rows, because only a worker's copy of them may be timed. But
    looks at the stack find their lines.
    """
    rows = [one for one in seen.stages if one.kind == "function"]
    if seen.workers:
        return rows
    shares: dict[str, float] = {}
    for kind, share, line in seen.lines():
        if kind not in ("collate", "transform"):
            shares[line.function] = shares.get(line.function, 0.0) + share
    known = {one.name for one in rows}
    return rows + [
        StageResult(name, "function", seen.loader.loader, 0, 0.0, share, whole_share=share)
        for name, share in shares.items()
        if name not in known and name.split(".")[-1] not in GETTERS and "<" not in name
    ]


def function_s(seen: Seen, name: str, samples: int) -> float | None:
    """The seconds that a function of the dataset takes for so many samples, in one process that always has a core.

    None: not known.
    """
    rows = [one for one in functions(seen) if one.name == name]
    if not rows or seen.loader.sample_s is None:
        return None
    waited, busy = sum(one.core_wait_s for one in seen.its_workers), sum(one.busy_s for one in seen.its_workers)
    with_core = 1 - min(1.0, waited / busy) if busy else 1.0
    return samples * seen.loader.sample_s * max(map(whole_share, rows)) * with_core


def account_s(seen: Seen, code: str) -> list[tuple[float, AccountRow]]:
    """The rows of this code in the account of the watched part, each with its seconds."""
    rows = seen.watched.account.rows if seen.watched.account else ()
    return [(one.s, one) for one in rows if one.code == code]


def of_cause(
    seen: Seen, cause: Cause | None, remedy: str, title: str, how: tuple[str, ...], at: Place | None = None
) -> Change | None:
    """A change of the script that would save what a cause could save, as predicted; None if that is not worth it."""
    saved = (cause.recoverable_s if cause is not None else None) or 0.0
    predicted = without(seen.watched, saved)
    if predicted < WORTH:
        return None
    return Change(
        remedy, {}, f"saves about {saved:.1f} s", predicted=predicted, title=title, how=how, at=at, of_script=True
    )


def line_of(values: Mapping[str, str | int | float]) -> tuple[str, ...]:
    """What is written in place of the line of a cause, if that is known of the work of a loop or a sampler."""
    if "title" not in values or not values.get("slow_line"):
        return ()
    place = code_place(str(values["slow_file"]), int(values["slow_line"]))
    runs = runs_of(values)
    often = f" ({runs.often})" if runs is not None else ""
    return (f"Change {place}{often} to {values['title']}. {values['how']}",)


def without(watched: WatchResult, saved_s: float) -> float:
    """The speed-up of all loops if they took so many seconds less, at most.

    The start and the end of workers of a loader's only pass are not counted: a longer run does not repeat them. Neither
    is the rest of the run.
    """
    whole = looped_s(watched)
    return whole / max(0.01 * whole, whole - saved_s) if whole else 1.0


def looped_s(watched: WatchResult) -> float:
    """The seconds of all loops that a longer run repeats."""
    rows = watched.account.rows if watched.account else ()
    once = {one.loader for one in watched.loaders if one.passes < 2}
    return sum(one.s for one in rows if one.loader is not None and not (one.code in STARTING and one.loader in once))
