"""What the causes of large rows are read from. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipebench.results.account import Account, AccountRow
from pipebench.results.watched import LoaderResult, StageResult, WatchResult, WorkerResult
from pipebench.watch.read.compiling import compiled
from pipebench.watch.read.device_idle import besides_share
from pipebench.watch.read.drilled import wilson
from pipebench.watch.read.gather import Run
from pipebench.watch.read.growing import Grown
from pipebench.watch.read.in_loop import Apart, told_apart
from pipebench.watch.read.moves import USED_UP, cores_of, threads_of_torch, waited_for
from pipebench.watch.read.prepared import FORWARDS
from pipebench.watch.read.script_cpu import Stretch, stretches
from pipebench.watch.record.lines import LoopSums, PassBegun
from pipebench.watch.record.spent import TimeSpent

MATTERS = 0.05  # of the time of the loops; less is within their scatter
_SURELY = 0.5  # of what matters
_IDLES = 0.1  # of the time: a device that could do a transform of the workers
_SEVERAL = 2  # threads: one has no helpers


@dataclass(frozen=True)
class Seen:
    """What the causes are read from. `s(code, ...)` is the time of these rows in the loops that train.

    `grown` has the phase that takes longer and longer, of each loop that has one.
    """

    run: Run
    result: WatchResult
    account: Account
    grown: Mapping[int, Grown]

    def rows(self, *codes: str, loader: int | None = None) -> list[AccountRow]:
        """The rows of these codes, or of all."""
        return [one for one in self.account.rows if one.code in (codes or (one.code,)) and loader in (None, one.loader)]

    def s(self, *codes: str, loader: int | None = None) -> float:
        return sum(one.s for one in self.rows(*codes, loader=loader))

    def forward_s(self, loader: int, *more: str) -> float:
        """The time of these rows and of all before a backward, but for torch's compiler: what looks divide."""
        return max(0.0, self.s(*FORWARDS, *more, loader=loader) - compiled(self.run, loader).forward_s)

    def matters(self, whole_s: float, share: float, looks: int, part: float = MATTERS) -> bool:
        """Whether a share of a time is such a part of the loops, and half of that for certain.

        So many looks found it. For certain: at the low end of what so few may mean.
        """
        low, _ = wilson(looks, max(looks, round(looks / share)))
        least_s = part * self.loops_s
        return share * whole_s >= least_s > 0 and low * whole_s >= _SURELY * least_s

    def saved(self, *codes: str, loader: int | None = None) -> float | None:
        found = [one.recoverable_s for one in self.rows(*codes, loader=loader) if one.recoverable_s is not None]
        return sum(found) if found else None

    @cached_property
    def loops_s(self) -> float:
        """The time from the first loop's begin to the last one's end."""
        return self.account.loops_s

    @cached_property
    def in_loop(self) -> list[LoaderResult]:
        return [one for one in self.result.loaders if one.loader in self.result.loaders_in_loop]

    @cached_property
    def apart(self) -> list[tuple[float, Apart | None]]:
        """What the loops that train do besides: of each loader its seconds, and what looks say of them.

        With a device, looks say it only where its own clock does, too.
        """
        training = [one.loader for one in self.in_loop if one.training]
        told = {one: told_apart(self.run, one) for one in training if not self.on_device or one in self.besides_s}
        return [(self.s("other", loader=one), told.get(one)) for one in training]

    @property
    def on_device(self) -> bool:
        return self.result.device_idle is not None

    @cached_property
    def besides_s(self) -> dict[int, float]:
        """How long a device had no training to do while each loop did other work, where that is known."""
        shares = {one.loader: besides_share(self.run, one.loader) for one in self.in_loop}
        return {one: share * self.s("other", loader=one) for one, share in shares.items() if share is not None}

    def batches(self, loader: LoaderResult) -> int:
        """The iterations over a loader in the whole run, as the account is: also those of the warm-up."""
        return sum(one.turns for one in self.run.of_loader(LoopSums, loader.loader))

    def from_pass_to_pass_s(self, loader: LoaderResult) -> float | None:
        """The mean time from the begin of a pass to that of the next one, with what the script does between them."""
        begins = sorted(one.begin for one in self.run.of_loader(PassBegun, loader.loader))
        return (begins[-1] - begins[0]) / 1e9 / (len(begins) - 1) if len(begins) > 1 else None

    def workers(self, loader: LoaderResult) -> list[WorkerResult]:
        return [one for one in self.result.workers if one.loader == loader.loader]

    def stage(self, loader: LoaderResult) -> StageResult | None:
        own = (one for one in self.result.stages if one.loader == loader.loader and one.kind != "serialise")
        return max(own, key=lambda one: one.exclusive_s_per_sample, default=None)

    def script_cores(self, loader: LoaderResult) -> float | None:
        """How many cores the script's own process used in the loop of a loader, on average: once it has settled.

        If too little of it was seen: in all loops.
        """
        return loader.script_cores if loader.script_cores is not None else self._script_cores

    @cached_property
    def _script_cores(self) -> float | None:
        script = next(iter(self.run.of_script()), None)
        lines = [one for one in script.of(TimeSpent) if one.where != "after"] if script is not None else []
        if len(lines) < 2 or lines[-1].end <= lines[0].end:
            return None
        return (lines[-1].cpu_ns - lines[0].cpu_ns) / (lines[-1].end - lines[0].end)


def as_made(one: LoaderResult) -> dict[str, str | int | float]:
    """How a loader was made, where that decides how its workers can live on."""
    told: dict[str, str | int | float] = {
        "again": one.again,
        "made_by": one.made_by,
        "called_by": one.called_by,
        "remade": one.remade if one.remade != "same" else "",
        "others": one.others if one.remade != "other" else 0,
    }
    return {name: value for name, value in told.items() if value}


def on_cores_s(seen: Seen, one: LoaderResult, used: float, whole_s: float) -> float:
    """What faster workers could save of a loop, at most: if those that use so many cores had all that it leaves.

    As many threads as that use cores up without every core being busy all the time.
    """
    free = USED_UP * seen.result.usable_cores - (seen.script_cores(one) or 0.0)
    return whole_s * (1 - 1 / max(1.0, free / used)) if used else whole_s


def wanted_cores(workers: Sequence[WorkerResult]) -> float:
    """The cores that workers use, and those that they want and do not get, because others have them."""
    return sum(map(cores_of, workers)) + waited_for(workers)


def stage_values(seen: Seen, one: LoaderResult) -> dict[str, str | int | float]:
    stage, idle = seen.stage(one), seen.result.device_idle
    if stage is None:
        return {}
    moved = idle is not None and idle.share >= _IDLES and stage.kind == "transform" and not stage.includes_read
    return {
        "stage": stage.name, "kind": stage.kind, "includes_read": int(stage.includes_read),
        "stage_share": stage.worker_share, "sample_s": one.sample_s or 0.0,
        **({"device_idle": idle.share} if idle is not None and moved else {}),
    }  # fmt: skip


def without_core_s(seen: Seen, one: LoaderResult) -> float:
    """How long training was held up for want of a core: without what lies between passes, if known.

    The loop's own thread was ready to run and had none, or it waited for a helper that computes a part of an operation
    and had none.
    """
    lines = seen.run.turns(one.loader)
    found = stretches(lines)
    if turns := sum(each.turns for each in found):
        waited = sum(each.waited_ns for each in found)
        return (waited + _for_helpers_ns(seen, one, found)) / 1e9 * one.iterations / turns
    kept = [line.core_wait_ns for line in lines]
    return (max(kept) - min(kept)) / 1e9 if kept else 0.0


def for_helpers_s(seen: Seen, one: LoaderResult) -> float:
    """How long a thread that helps training was ready to run and had no core, whether the loop waited for it or not."""
    found = stretches(seen.run.turns(one.loader))
    turns = sum(each.turns for each in found)
    return sum(each.helper_ns for each in found) / 1e9 * one.iterations / turns if turns else 0.0


def _for_helpers_ns(seen: Seen, one: LoaderResult, found: Sequence[Stretch]) -> float:
    """How long the loop waited for helpers without a core, besides its own waits for one: no longer than it could.

    A helper may also want a core while nobody waits for it. But training takes its CPU time, divided among its threads.
    What it takes longer is the most that it can have waited. What helpers spin is CPU time, too, so the most is less.
    """
    threads = min(threads_of_torch(seen.result), seen.result.usable_cores)
    if threads < _SEVERAL or seen.on_device:
        return 0.0
    of_data = (one.wait_s_per_iteration or 0.0) / one.s_per_iteration if one.s_per_iteration else 0.0
    trained = sum(each.wall_ns for each in found) * (1 - of_data)
    most = trained - sum(each.cpu_ns for each in found) / threads - sum(each.waited_ns for each in found)
    return max(0.0, min(most, sum(each.helper_ns for each in found)))
