"""A clock that moves only when told to, and what a fetcher's rows and a loop's phases are by it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher

from pipebench.results.account import AccountRow
from pipebench.results.watched import Verdict, WatchResult
from pipebench.watch import with_block
from pipebench.watch.launch import watched_script
from pipebench.watch.record import exclusive_time, record_file
from pipebench.watch.record.recording import Recording, Settings
from pipebench.watch.script import arrivals, iterators, phases
from pipebench.watch.worker import fetching
from pipebench.watch.worker.batch_sums import Sums, WorkerPlace


class Clock:
    """Stands still but for `burn`: what is planted is then the exact truth."""

    def __init__(self) -> None:
        self.now = 1_000

    def __call__(self) -> int:
        return self.now

    def burn(self, nanoseconds: int) -> None:
        self.now += nanoseconds


US = 1_000


class Slow(torch.optim.SGD):
    """Its step takes so many µs."""

    def __init__(self, parameters: Any, clock: Clock, step_us: int) -> None:
        super().__init__(parameters)
        self._clock, self._step_us = clock, step_us

    def step(self, closure: Any = None) -> Any:
        self._clock.burn(self._step_us * US)
        return super().step(closure)


class Training:
    """An iteration: 20 µs of forward, 30 of backward, those of the optimiser, 7 of logging."""

    def __init__(self, clock: Clock, optimiser_us: int = 5) -> None:
        self._clock = clock
        self.weight = torch.ones(1, requires_grad=True)
        self.optimiser = Slow([self.weight], clock, optimiser_us)

    def step(self, batch: Any = 2) -> None:
        loss = self.weight * batch
        self._clock.burn(20 * US)
        loss.register_hook(lambda _: self._clock.burn(30 * US))
        loss.backward()
        self.optimiser.step()
        self._clock.burn(7 * US)


def loop_by(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets what watches a loop read this clock."""
    for module in (phases, iterators, exclusive_time, arrivals):
        monkeypatch.setattr(module, "perf_counter_ns", clock)


def run_by(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets all of a watched run read this clock: its loops, its begin and end, and the pace of its records."""
    loop_by(clock, monkeypatch)
    for module in (watched_script, with_block):
        monkeypatch.setattr(module, "perf_counter_ns", clock)
    monkeypatch.setattr(record_file, "time", SimpleNamespace(perf_counter_ns=clock))


def phases_us(result: WatchResult) -> dict[str, float]:
    """The microseconds of an iteration, by phase."""
    return {one.phase: round(one.s_per_iteration * 1e6, 3) for one in result.loop if one.s_per_iteration}


def rows(result: WatchResult) -> dict[str, float]:
    """ "code loader" -> microseconds. A loop inside "validation" gives "validation: code loader"."""
    account = result.account
    assert account is not None
    spent_ns = sum(round(one.s * 1e9) for one in account.rows)
    assert spent_ns == round(account.wall_s * 1e9)
    return dict(_flat(account.rows, ""))


def _flat(found: Iterable[AccountRow], before: str) -> Iterator[tuple[str, float]]:
    for one in found:
        if one.inside:
            assert sum(round(inner.s * 1e9) for inner in one.inside) == round(one.s * 1e9)
            yield from _flat(one.inside, f"{one.code}: ")
        elif one.s:
            yield f"{before}{one.code} {one.loader or ''}".strip(), round(one.s * 1e6, 3)


def verdict_of(result: WatchResult) -> Verdict:
    assert isinstance(result.verdict, Verdict)
    return result.verdict


class Rows:
    """One fetcher, watched as in a worker, whose rows are read off after any number of batches."""

    def __init__(self, dataset: Any, folder: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, **how: Any) -> None:
        monkeypatch.setattr(exclusive_time, "perf_counter_ns", clock)
        self.sums = Sums(Recording(Settings(str(folder)), "script"), WorkerPlace(1, None, 0, clock()))
        self.sums.pace.due = lambda now: False  # type: ignore[method-assign]  # keeps what has been added up
        make = _IterableDatasetFetcher if hasattr(dataset, "__iter__") else _MapDatasetFetcher
        collate = how.get("collate", lambda samples: samples)
        made = make(dataset, how.get("batched", True), collate, how.get("drop_last", False))
        self.fetcher = fetching.watch_fetcher(made, self.sums)

    def fetch(self, indices: Any) -> Any:
        return self.fetcher.fetch(indices)

    def found(self) -> dict[tuple[str, str], int]:
        """(kind, name) -> nanoseconds, of every stage that took any."""
        return _named(enumerate(self.sums.timer.sums))

    def whole(self) -> dict[tuple[str, str], int]:
        """The same of functions, with the stages inside them."""
        return _named(enumerate(self.sums.timer.whole))


def _named(spent: Iterable[tuple[int, int]]) -> dict[tuple[str, str], int]:
    names = {number: key for key, number in exclusive_time.stages.known.items()}
    return {names[number][:2]: ns for number, ns in spent if ns}
