"""The reference loop under an engine: windows of ready batches, of a DataLoader and of the engine take turns.

The engine makes nothing while the others are timed, because each of its windows is a pass of its own. The first batches
of a pass are not timed, as those that workers have made ahead are not, nor are the last, when its workers run dry.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from pipebench.errors import BadSample, PipebenchError
from pipebench.host import machine
from pipebench.reference import ray_cluster, ray_statistics
from pipebench.reference.dataloader import Live
from pipebench.reference.loader_table import said_against
from pipebench.reference.pipeline import LoadedBatch, Photographs
from pipebench.reference.ray_cluster import Cluster
from pipebench.reference.ray_work import STAGES, Work, reason
from pipebench.reference.training_loop import Cached, Consumer, Now, train
from pipebench.results.engine import Arm, Blocked, EngineRun, Outputs, Source, StageCost, middle
from pipebench.results.measurement import Warning
from pipebench.results.windows import LoopWindow, throughput
from pipebench.units import printable

CHECKED = 512  # samples of the first pass, at most
COMPARED = 32  # of these that are made again here
READY = 8  # distinct batches that are replayed
# Normalised floats: a level of 255 is 1 / (255 × 0.224). Nodes may have other releases of a decoder, which may differ
# by a few levels at single places (see `stages.agreement`).
MOST_DIFFERENT = 6.0 / (255 * 0.224)
COMPILING = 10.0  # times as long as other batches the first steps of a consumer may take
Tell = Callable[[int, int, str, float], None]
"""Gets rounds that are done, all rounds, what begins, and how many times the usual patience that may need."""


@dataclass
class Looked:
    """Looks at the batches of one pass: whether each place came once, and in which order."""

    work: Work
    samples: int
    seen: list[Any] = field(default_factory=list)

    def __call__(self, columns: dict[str, Any]) -> None:
        self.seen.append((columns["place"].numpy().copy(), columns["index"].numpy().copy()))

    def end(self) -> bool:
        """Whether the order was kept. Raises `PipebenchError` unless every place came once, with its own sample."""
        places = np.concatenate([place for place, _ in self.seen]) if self.seen else np.zeros(0, np.int64)
        counts = np.bincount(places, minlength=self.samples)
        if len(counts) != self.samples or not (counts == 1).all():
            lost, twice = int((counts[: self.samples] == 0).sum()), int((counts > 1).sum())
            raise PipebenchError(
                f"a pass of {self.samples} samples lost {lost} of them, and {twice} came more than once",
                "report this: a training would not see each sample once",
            )
        indices = np.concatenate([index for _, index in self.seen])
        if not np.array_equal(indices, self.work.indices(places)):
            raise PipebenchError("samples came under another number than their own", "report this")
        return bool((np.diff(places) > 0).all())


@dataclass
class Batches:
    """One pass of the engine as batches of the training loop. `start_s`: from its start to the first batch."""

    work: Work
    samples: int
    batch_size: int
    keys: Sequence[str]
    pin_memory: bool = False
    now: Now = time.perf_counter
    on_batch: Callable[[int], None] = lambda number: None
    compare: Callable[[dict[str, Any]], None] = lambda columns: None
    start_s: float = 0.0
    asked_s: float = 0.0
    kept: bool = True
    bad: dict[str, BadSample] = field(default_factory=dict)
    spent: list[Any] = field(default_factory=list)
    statistics: ray_statistics.Statistics = field(default_factory=ray_statistics.Statistics)

    def __iter__(self) -> Iterator[LoadedBatch]:
        looked = Looked(self.work, self.samples)
        asked = begin = self.now()
        every = ray_cluster.batches(self.work, self.samples, self.batch_size, self.pin_memory, self._read)
        for number, columns in enumerate(every):
            self.asked_s += self.now() - asked
            self.start_s = self.start_s or self.now() - begin
            looked(columns)
            self.compare(columns)
            self.spent.append(columns["spent"].numpy().mean(0))
            self.on_batch(number)
            yield self._batch(columns)
            asked = self.now()
        self.kept = looked.end()

    def _read(self, dataset: Any) -> None:
        self.statistics = ray_statistics.read(dataset)

    def _batch(self, columns: dict[str, Any]) -> LoadedBatch:
        images, labels, bad = columns["image"], columns["label"], columns["bad"]
        if not bad.any():
            return LoadedBatch(images, labels)
        found = []
        for place in bad.nonzero().flatten().tolist():
            kind, message = map(printable, reason(columns["said"][place].numpy()))
            found.append(BadSample("loader", self.keys[int(columns["index"][place])], None, kind, message, 0.0))
        self.bad.update((one.sample, one) for one in found)
        return LoadedBatch(images[~bad], labels[~bad], tuple(found))


@dataclass
class Compared:
    """Makes some samples again in this process and holds what the engine gave against them."""

    dataset: Photographs
    samples: int = 0
    different: float = 0.0

    def __call__(self, columns: dict[str, Any]) -> None:
        for place, index in enumerate(columns["index"].tolist()):
            if self.samples >= COMPARED:
                return
            item = self.dataset[index]
            if isinstance(item, BadSample) or bool(columns["bad"][place]):
                if isinstance(item, BadSample) != bool(columns["bad"][place]):
                    _, said = reason(columns["said"][place].numpy())
                    raise PipebenchError(
                        f"a sample is bad for the engine only, or only here: {printable(said)[:200]}",
                        "the data must be the same, at the same path, on every node",
                    )
                continue
            off = float((item[0] - columns["image"][place]).abs().max())
            self.samples, self.different = self.samples + 1, max(self.different, off)
            if not off <= MOST_DIFFERENT or item[1] != int(columns["label"][place]):
                raise PipebenchError(
                    f"the engine's sample {index} differs from our own by {off:.3g}",
                    "install the same libraries on every node",
                )


@dataclass(frozen=True)
class Plan:
    """So many rounds, each with a window of so many batches of every source."""

    rounds: int
    batches: int


@dataclass
class Rounds:
    """Conducts the rounds on a cluster, and keeps what came of them. `live` has started: its workers were forked."""

    cluster: Cluster
    live: Live
    consumer: Consumer
    work: Work
    found: EngineRun
    keys: Sequence[str]
    cpu_s: Callable[[], float] | None
    now: Now = time.perf_counter
    tell: Tell = lambda done, total, what, patience: None
    on_batch: Callable[[int], None] = lambda number: None
    windows: dict[Source, list[LoopWindow]] = field(default_factory=lambda: {"ready": [], "torch": [], "ray": []})
    cpu: dict[Source, list[float]] = field(default_factory=lambda: {"ready": [], "torch": [], "ray": []})
    passes: list[Batches] = field(default_factory=list)
    checked: int = 0
    before: machine.Load = field(default_factory=machine.Load)
    bad: dict[str, BadSample] = field(default_factory=dict)

    def run(self, plan: Plan, keep: Callable[[EngineRun], None]) -> EngineRun:
        """The checked pass, then all rounds. `keep` gets what there is after each."""
        self.tell(0, plan.rounds, "a pass of Ray Data that is checked", 1.0)
        self._checked()
        self.tell(0, plan.rounds, "the first steps of the consumer", COMPILING)
        ready = self._ready()
        self.before = self._load()
        self.windows["ready"].clear()
        for number in range(plan.rounds):
            turns: list[Source] = ["ready", "torch", "ray"]
            for source in turns[number % 3 :] + turns[: number % 3]:
                self.tell(number, plan.rounds, f"round {number + 1} of {plan.rounds}: {_SAID[source]}", 1.0)
                self._window(source, plan.batches, ready)
            keep(self.made())
        return self.made()

    def _checked(self) -> None:
        samples = self.checked = min(CHECKED, len(self.keys))
        compared = Compared(Photographs(self.work.workload, self.work.recipe))
        one = self._pass(samples, compared)
        for _ in one:
            pass
        self.passes.clear()
        order: Literal["kept", "given up"] = "kept" if one.kept else "given up"
        outputs = Outputs(1, samples, compared.samples, compared.different, order)
        self.found = replace(self.found, first_s=one.start_s, outputs=outputs)

    def _pass(self, samples: int, compare: Callable[[dict[str, Any]], None] = lambda columns: None) -> Batches:
        work = replace(self.work, seed=self.work.seed + len(self.passes) + 1)
        one = Batches(
            work, samples, self.found.batch_size, self.keys, self.live.loading.pin_memory, self.now, self.on_batch,
            compare, bad=self.bad,
        )  # fmt: skip
        self.passes.append(one)
        return one

    def _ready(self) -> Cached:
        """Some batches of the DataLoader, copied, without those that have no good sample."""
        found = [next(self.live) for _ in range(READY)]
        good = [one for one in found if one.samples]
        copies = [one._replace(images=one.images.clone(), labels=one.labels.clone()) for one in good]
        if not copies:
            raise PipebenchError("no batch has a good sample", "name data with readable images")
        train(iter(copies), self.consumer, len(copies))  # its first step is slower
        self.live.settle()
        return Cached(copies)

    def _window(self, source: Source, batches: int, ready: Cached) -> None:
        if source == "ready":
            self._timed(source, self._noted(ready), batches)
        elif source == "torch":
            self.live.discard()
            self._timed(source, self._noted(self.live), batches)
            self.live.settle()
        else:
            ends = 2 * max(1, round(self.found.cores))
            one = self._pass((ends + batches + ends) * self.found.batch_size)
            given = iter(one)
            for _ in range(ends):
                next(given)
            self._timed(source, given, batches)
            for _ in given:
                pass

    def _noted(self, given: Iterator[Any]) -> Iterator[Any]:
        """The batches, each with the call that a pass of the engine makes at each of its own."""
        for number, batch in enumerate(given):
            self.on_batch(number)
            yield batch

    def _timed(self, source: Source, given: Iterator[Any], batches: int) -> None:
        before = self.cpu_s() if self.cpu_s else 0.0
        window = train(given, self.consumer, batches, now=self.now)
        if not window.samples:
            raise PipebenchError("no batch has a good sample", "name data with readable images")
        self.windows[source].append(window)
        if self.cpu_s:
            self.cpu[source].append(self.cpu_s() - before)

    def made(self) -> EngineRun:
        """What there is so far."""
        statistics = ray_statistics.added([one.statistics for one in self.passes])
        spent = [each for one in self.passes for each in one.spent]
        stages: tuple[StageCost, ...] = ()
        whole = None
        if spent:
            *means, whole = np.mean(spent, axis=0).tolist()
            stages = tuple(StageCost(name, s) for name, s in zip(STAGES, means, strict=True))
        blocked = None
        if statistics.blocked_s is not None and self.passes:
            blocked = Blocked(statistics.blocked_s, sum(one.asked_s for one in self.passes))
        outputs = self.found.outputs
        if outputs is not None and self.passes:
            order: Literal["kept", "given up"] = outputs.order if all(one.kept for one in self.passes) else "given up"
            passes, samples = len(self.passes) + 1, sum(one.samples for one in self.passes) + self.checked
            outputs = replace(outputs, passes=passes, samples=samples, order=order)
        return replace(
            self.found,
            nodes=self.cluster.look(),
            arms=tuple(self._arm(source) for source, windows in self.windows.items() if windows),
            operators=statistics.operators,
            stages=stages,
            whole_s=whole,
            blocked=blocked,
            outputs=outputs,
            spilled_bytes=statistics.spilled_bytes,
            samples_failed=len(self.bad | self.live.bad),
            notes=(*self.cluster.notes, *statistics.notes),
            warnings=self._warnings(),
        )

    def _load(self) -> machine.Load:
        """The host's counters; of this process and all below it, if these are all of the engine."""
        return replace(machine.read_load(), own_s=self.cpu_s()) if self.cpu_s else machine.Load()

    def _warnings(self) -> tuple[Warning, ...]:
        costs = [one.elapsed_s / one.samples for one in self.windows["ray"]]
        load = self._load() - self.before
        return said_against(costs, load.wall_s, load) if costs and load.wall_s > 0 else ()

    def _arm(self, source: Source) -> Arm:
        windows = self.windows[source]
        waits = tuple(one.phases["wait"] / one.elapsed_s for one in windows)
        starts = tuple(one.start_s for one in self.passes) if source == "ray" else ()
        return Arm(source, throughput(windows, middle), waits, tuple(self.cpu[source]), starts)


_SAID: dict[Source, str] = {"ready": "batches that are ready", "torch": "the DataLoader", "ray": "Ray Data"}
