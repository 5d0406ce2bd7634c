"""The results of the reference training loop of `run`: its settings, and what `watch --bound` found about it."""

from __future__ import annotations

from dataclasses import dataclass

from pipebench.results.loading import Loading
from pipebench.results.measurement import Warning
from pipebench.results.watched import BoundResult, WatchResult


@dataclass(frozen=True)
class Training:
    """The reference loop under `watch --bound`: its consumer, the settings of its loader, and the result of watching.

    `simulated` says that the consumer only waits for a stated time and trains no model. `given` says that it is a step
    of the user's; else a model of our own stands for it. `samples_failed` counts the bad samples that the loop met. All
    figures are in `watched`: the shares of an iteration, start-up, and the bound.
    """

    consumer: str
    simulated: bool
    batch_size: int
    loading: Loading
    watched: WatchResult
    samples_failed: int = 0
    warnings: tuple[Warning, ...] = ()
    given: bool = False

    @property
    def bound(self) -> BoundResult:
        return self.watched.bound or BoundResult()

    @property
    def epoch_boundary_s(self) -> float | None:
        """Mean seconds from the start of a later pass to its first batch. Persistent workers make it shorter."""
        return next((one.later_startup_s for one in self.watched.loaders), None)
