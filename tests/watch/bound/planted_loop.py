"""A script's loop by a clock that only moves as planted, and the machine around it, for the alternation of windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from pipebench.watch.bound.alternation import Alternation, Means
from pipebench.watch.bound.schedule import LIVE, Schedule
from pipebench.watch.record.bound_lines import BoundPlan, BoundRoundVoid, BoundWindow

LIVE_S, STEP_S = 3.0, 1.0


class Planted:
    """A source whose batches are numbered and take `LIVE_S`; it notes what is asked of it."""

    in_flight = 2

    def __init__(self, world: World, length: int | None = None) -> None:
        self.world, self.length = world, length
        self.cold, self.given = True, 0

    def over(self) -> bool:
        return self.length is not None and self.given >= self.length

    def draw(self) -> Any:
        if self.world.drawn % self.world.burst == 0:
            self.world.now += LIVE_S * self.world.burst
        self.world.drawn += 1
        return {"pixels": torch.full((4, 2), float(self.world.drawn)), "name": f"batch {self.world.drawn}"}

    def discard(self) -> None:
        self.world.log.append("discard")
        for _ in range(self.in_flight):
            self.draw()

    def settle(self, interval_s: float) -> None:
        self.world.log.append("settle")
        self.world.now += 100.0

    def keep_busy(self, interval_s: float) -> None:
        self.world.log.append(f"busy {interval_s:g}")
        self.world.slow = self.world.slowed

    def rest(self) -> None:
        self.world.slow = 1.0


class World:
    """The script's loop and the machine around it."""

    def __init__(self, schedule: Schedule, budget: float = 1e9) -> None:
        self.now, self.drawn = 0.0, 0
        self.burst = 1  # so many batches come at once
        self.slow = self.slowed = 1.0  # a step, while the workers are kept busy
        self.noise: Callable[[], float] = lambda: 0.0
        self.log: list[str] = []
        self.lines: list[BoundWindow | BoundRoundVoid] = []
        self.seen: dict[tuple[int, str], list[str]] = {}
        means = Means(
            lambda: self.now, lambda: None, lambda size: self.log.append(f"sweep {size}"), budget, device="cpu"
        )
        self.alternation = Alternation(schedule, means, self.lines.append)

    def run(self, length: int | None = None, step: Any = lambda batch: None) -> list[int]:
        """Trains in passes of `length` until the schedule is done; how long each pass was."""
        passes, source = [], Planted(self, length)
        while True:
            self.alternation.close()
            if self.alternation.done:
                return [*passes, source.given]
            place = self.alternation.schedule.at(self.alternation.step)
            try:
                batch = self.alternation.next(source, lambda draw: draw())
            except StopIteration:
                self.alternation.interrupt()
                passes.append(source.given)
                self.now += 50.0  # validation
                source = Planted(self, length)
                continue
            assert batch["name"] == f"batch {batch['pixels'][0, 0]:.0f}"
            if place.measured:
                self.seen.setdefault((place.round, place.kind), []).append(batch["name"])
            step(batch)
            self.now += STEP_S * self.slow * (1 + self.noise())

    def replays_are_exact(self) -> bool:
        return all(names == self.seen[turn, LIVE] for (turn, _), names in self.seen.items())


def planned_by(schedule: Schedule, **more: Any) -> BoundPlan:
    found = BoundPlan(
        1, 100, schedule.window, schedule.rounds, given=0, batch_bytes=1000, last_level_cache_bytes=32_000_000,
        swept=False,
    )  # fmt: skip
    return replace(found, **more)
