"""Answers a question about settings that were not tried: predictions, their checks, and what a machine needs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

from pipebench.errors import UsageError
from pipebench.predict.asked import at_best_beside, beside_workers, changed, crowds
from pipebench.predict.bounds import bounds, core_s
from pipebench.predict.intervals import around, expected, predicted
from pipebench.predict.ladder import ladder
from pipebench.predict.load import MODEL_ERROR, borne_out, present
from pipebench.predict.loader import Setting, short_pass, simulate
from pipebench.predict.one_machine import one_machine
from pipebench.results.costs import LoopCosts, Passport
from pipebench.results.plan import Asked, Check, Figure, Need, Plan, Prediction, Resource
from pipebench.stats import CONFIDENCE, Speedup

_MOST_WORKERS = 128
_LEAST_RATIO = 1e-9  # of a prediction to what was measured: figures that no run gives are no reason to fail
_HELPS = 1.02
_NEARLY = 0.98
_FED = 0.97  # of what the consumers use
_LACKING = 1.1  # a rate that is so far below what each resource allows, and would not be with more cores, lacks cores
_VARIES = 1.1  # CPU time of the same batch in another setting: caches and clocks differ
_PLENTY = 1e6  # cores: more than any threads want


def plan(passport: Passport, asked: Asked) -> Plan:
    """The answer. Raises UsageError if `asked` names a stage that the run does not have, or what torch refuses."""
    if asked.workers == 0 and asked.prefetch_factor is not None:
        remedy = "leave out --prefetch-factor, or name --workers 1 or more"
        raise UsageError("--workers 0 and --prefetch-factor exclude each other: torch refuses both", remedy)
    told, passport = passport.others, borne_out(passport)
    checks = tuple(checked(passport))
    error = _error(checks, _fit(told, passport))
    question = _Question(passport, asked, changed(passport, asked), error)
    rows = tuple(question.rows())
    costs = passport.costs
    best = _best(rows, asked, costs.workers if question.here else None)
    wanted = None if asked.consumer is None else asked.consumer * asked.loops
    needs = tuple(question.needs(rows[best].workers, wanted)) if wanted is not None else ()
    found = Plan(
        asked,
        costs.workers,
        passport.all_cores,
        costs.samples / costs.iteration_s,
        rows,
        best,
        checks,
        error,
        wanted,
        needs=needs,
        from_alone=not costs.workers,
        unread=not costs.read_bytes,
        one_machine=one_machine(passport, asked, question.ways, error, question.sharing),
        others=passport.others * passport.ranks,
        others_told=told * passport.ranks if told > passport.others else None,
        part=question.cores if passport.shared_cores is not None and asked.devices is None else None,
    )
    return replace(found, fed=_fed(found))


def _best(rows: Sequence[Prediction], asked: Asked, present: int | None) -> int:
    """The place of the setting that was asked for; of a ladder, of the fewest workers that are nearly the fastest.

    If the `present` workers are nearly the fastest, they stay: what another number brings is no more than that.
    """
    if asked.workers is not None:
        return len(rows) - 1
    nearly = [place for place, one in enumerate(rows) if _rate(one) >= _NEARLY * max(map(_rate, rows))]
    return next((place for place in nearly if rows[place].workers == present), nearly[0])


def foreseen(passport: Passport, workers: int, prefetch_factor: int, beside_others: bool = True) -> Speedup:
    """The speed-up of the loop over the present setting, with so many workers and batches ahead of each.

    Without `beside_others`, both are for a machine on which no other processes run. However unsure the simulation is,
    more workers and more batches ahead bring no more than the cores and the device allow. Where a pass is short, both
    are of whole passes, without the start of workers.
    """
    told, passport = passport.others, borne_out(passport)
    error = _error(tuple(checked(passport)), _fit(told, passport))
    if not beside_others:
        passport = replace(passport, others=0.0)
    costs = passport.costs
    turns = short_pass(costs, max(workers, costs.workers), prefetch_factor)
    now = present(passport, turns) / costs.samples
    setting = Setting(workers, prefetch_factor, passport.cores, passport.others, turns)
    found = beside_workers(costs, workers, passport.cores)
    then = predicted([found], setting, error)
    most = 1 / costs.device_s if costs.device_s else math.inf
    if workers >= costs.workers and costs.workers:
        most = min(most, bounds(found, setting)["cores"])
    slowest = min(now, 1 / costs.iteration_s)
    at_best = then
    if crowds(costs, workers, passport.cores):
        at_best = predicted([at_best_beside(costs, workers, passport.cores)], setting, error)
    high = min(at_best.high, max(then.value, _VARIES * now / slowest * most))
    return Speedup(then.value / now, then.low / now, high / now, CONFIDENCE)


def _fit(told: float, passport: Passport) -> float | None:
    """What the load was fitted by: the logarithm of the model's rate with the load that was told, over the measured."""
    if told <= passport.others:
        return None
    return math.log(present(replace(passport, others=told)) / (passport.costs.samples / passport.costs.iteration_s))


def _error(checks: Sequence[Check], fit: float | None = None) -> float:
    """The error of the model, as one standard deviation: what it is elsewhere, and what it was in this run.

    Where the load was fitted to the measured rate, its error there is the one before the `fit`.
    """
    errors = [math.log(max(_LEAST_RATIO, 1 + one.error)) for one in checks]
    errors = errors if fit is None else [max(fit, math.log(_LEAST_RATIO)), *errors[1:]]
    return math.hypot(MODEL_ERROR, math.hypot(*errors) / math.sqrt(len(errors) or 1))


def _fed(found: Plan) -> bool | None:
    """Whether the consumers are fed. None: the interval does not tell, or nothing was asked."""
    if found.wanted is None:
        return None
    rate, least = found.chosen.samples_per_s, _FED * found.wanted
    if all(one.enough for one in found.needs if one.available is not None) and rate.low >= least:
        return True
    return False if rate.high < least or any(one.enough is False for one in found.needs) else None


def checked(passport: Passport) -> Iterator[Check]:
    """The model on the present setting, and on every setting that was tried in the run."""
    costs, others = passport.costs, passport.others
    now, measured = present(passport), costs.samples / costs.iteration_s
    yield Check(costs.workers, costs.prefetch_factor, "samples_per_s", measured, now)
    for one in passport.tried:
        setting = Setting(one.workers, one.prefetch_factor, passport.cores, others)
        then = beside_workers(costs, one.workers, passport.cores)
        speedup = simulate(then, setting).batches_per_s * costs.samples / now
        yield Check(one.workers, one.prefetch_factor, "speedup", one.speedup, speedup)


@dataclass(frozen=True)
class _Question:
    """A question about one loop, its possible costs after the changes, and the error of the model."""

    passport: Passport
    asked: Asked
    ways: Sequence[LoopCosts]
    error: float

    @property
    def cores(self) -> float:
        """The cores of one device's loader."""
        return (self.asked.cores or self.passport.all_cores) / self.sharing

    @property
    def sharing(self) -> float:
        """How many loops share the machine: those of the devices that are asked for, else of the watched ranks."""
        return self.asked.devices or self.passport.ranks

    @property
    def _share(self) -> float:
        """The part of the machine that the predicted loops have together: all of it, but for one of several ranks."""
        return self.asked.loops / self.sharing

    @property
    def others(self) -> float:
        """The threads of other processes on the cores of one device's loader: they are on all cores.

        Other processes stay as they are on this machine; on another one there are none, if nothing is said.
        """
        as_watched = self.passport.others * self.passport.ranks if self.asked.cores is None else 0.0
        return (as_watched if self.asked.others is None else self.asked.others) / self.sharing

    @property
    def samples(self) -> float:
        return self.passport.costs.samples

    def rows(self) -> Sequence[Prediction]:
        """The settings: those asked for, or a ladder as long as it helps; on this machine also the present one."""
        costs = self.passport.costs
        ahead = self.asked.prefetch_factor or costs.prefetch_factor
        if self.asked.workers is not None:
            now, then = (costs.workers, costs.prefetch_factor), (self.asked.workers, ahead)
            return [self._row(*one) for one in dict.fromkeys([now, then] if self.here else [then])]
        rungs = list(self._ladder(ahead))
        if self.here and costs.workers and all(one.workers != costs.workers for one in rungs):
            rungs.append(self._row(costs.workers, ahead))
        return sorted(rungs, key=lambda one: one.workers)

    def _ladder(self, ahead: int) -> Iterator[Prediction]:
        """Rungs until two doublings bring no more, but at least up to the cores.

        Where some batches are far slower than others, few workers bring no more than one, and many do. Beyond the
        batches of a pass, a worker would have none to make.
        """
        best, worse, turns = 0.0, 0, self.passport.costs.turns
        rungs = ladder(1, min(_MOST_WORKERS, turns or _MOST_WORKERS), (self.cores, turns))
        for workers in rungs if self.asked.prefetch_factor is not None else [0, *rungs]:
            row = self._row(workers, ahead)
            doubled = workers > 1 and workers & (workers - 1) == 0
            worse = 0 if _rate(row) > best * _HELPS else worse + doubled
            best = max(best, _rate(row))
            yield row
            if worse >= 2 and workers >= self.cores:
                return

    @property
    def here(self) -> bool:
        """Whether the question is about this machine and this loop, so that the present setting is a row of it."""
        asked = self.asked
        changed = asked.cores, asked.others, asked.consumer, asked.devices
        return all(one is None for one in changed) and not asked.faster

    def _row(self, workers: int, ahead: int) -> Prediction:
        setting = Setting(workers, ahead, self.cores, self.others)
        rate = self._predicted(setting)
        factor = self.samples * self.asked.loops
        limits = {name: one * factor for name, one in bounds(self.ways[0], setting).items() if one < math.inf}
        if self.asked.consumer is not None:
            used = self.asked.consumer * self.asked.loops
            limits["consumer"] = limits.pop("loop", used) if workers else used
        carried: dict[str, float] = dict(self._carried())
        limits = limits | carried or {"loop": rate.value * factor}
        if rate.value * factor * _LACKING < min(limits.values()) and self._lacks_cores(setting, rate.value):
            limits["cores"] = rate.value * factor
        elif workers and rate.value * factor * _LACKING < min(limits.values()):
            limits["workers"] = rate.value * factor  # a slow batch holds up those that are ready behind it
        most = min(carried.values(), default=math.inf)
        figure = Figure(*(min(one * factor, most) for one in (rate.value, rate.low, rate.high)))
        limit = cast("Resource", min(limits, key=lambda one: limits[one]))
        return Prediction(workers, ahead, figure, limit, limits)

    def _lacks_cores(self, setting: Setting, rate: float) -> bool:
        """Whether the loop would be faster if no thread ever waited for a core."""
        plenty = replace(setting, cores=_PLENTY, others=0.0)
        return expected(self.ways, plenty) > _LACKING * rate

    def _predicted(self, setting: Setting) -> Figure:
        """Batches per second. A consumer takes no more than it can, so the interval is that of feeding without end."""
        if self.asked.consumer is None:
            return predicted(self.ways, setting, self.error)
        rate = expected(self.ways, setting)
        endless = predicted([replace(one, step_s=(0.0,)) for one in self.ways], setting, self.error)
        most = self.asked.consumer / self.samples
        return Figure(rate, min(rate, endless.low), max(rate, min(most, endless.high)))

    def _carried(self) -> Iterable[tuple[Resource, float]]:
        """The samples per second that storage and network could bring to the predicted loops."""
        each = self._bytes
        if each:
            yield from ((name, have / each) for name, have in self._paths() if have is not None)

    def _paths(self) -> tuple[tuple[Resource, float | None], ...]:
        """What the predicted loops have of each, in bytes per second."""
        storage, network = (have and have * self._share for have in (self.asked.storage, self.asked.network))
        return ("storage", storage), ("network", network)

    @property
    def _bytes(self) -> float:
        """Bytes read for a sample."""
        return (self.passport.costs.read_bytes or 0.0) / self.samples

    def needs(self, workers: int, wanted: float) -> Iterator[Need]:
        """What feeding `wanted` samples per second takes."""
        per_s = wanted / self.samples
        cores = [per_s * core_s(one, 1) for one in self.ways]
        there = (self.asked.cores or self.passport.all_cores) * self._share
        yield Need("cores", around(cores, self.error), there)
        each = [per_s / self.asked.loops * (one.made_s + one.between_s) for one in self.ways]
        if self.asked.workers != 0:  # else the loop itself makes the batches
            yield Need("workers", around(each, self.error), self.asked.workers)
        if self._bytes:
            for name, have in self._paths():
                if name == "storage" or have is not None:
                    yield Need(name, around([wanted * self._bytes], self.error), have, validated=False)
        shared = self.passport.costs.shared_bytes
        if shared:
            ahead = (self.asked.prefetch_factor or self.passport.costs.prefetch_factor) + 1
            held = shared * max(1, workers) * ahead * self.asked.loops
            yield Need("shared-memory", Figure(held, held, held))


def _rate(one: Prediction) -> float:
    return one.samples_per_s.value
