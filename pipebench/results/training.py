"""The reference training loop of `run`: what it was, and what watching it with its bound found."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pipebench.results.loading import Loading
from pipebench.results.measurement import Warning
from pipebench.results.watched import BoundResult, WatchResult


@dataclass(frozen=True)
class Training:
    """The reference loop under `watch --bound`: its consumer, its loader's knobs, and the result of watching.

    `simulated` says that the consumer only waits for a stated time and trains no model. `samples_failed` counts the
    bad samples that the loop met. All figures are in `watched`: the shares of an iteration, start-up, and the bound.
    """

    consumer: str
    simulated: bool
    batch_size: int
    loading: Loading
    watched: WatchResult
    samples_failed: int = 0
    warnings: tuple[Warning, ...] = ()

    @property
    def bound(self) -> BoundResult:
        return self.watched.bound or BoundResult()

    @property
    def epoch_boundary_s(self) -> float | None:
        """From the start of a later pass to its first batch: more without persistent workers."""
        return next((one.later_startup_s for one in self.watched.loaders), None)


def of_schema_1(old: dict[str, Any], usable_cores: float) -> dict[str, Any]:
    """A training part that was saved before the loop was watched, in today's form; its ratios were costs over live."""

    def speedup(cost: dict[str, float] | None) -> dict[str, float] | None:
        return cost and {**cost, "ratio": 1 / cost["ratio"], "low": 1 / cost["high"], "high": 1 / cost["low"]}

    readings_s = old["live"]["readings_s"]
    iterations = len(readings_s) * old["window"]
    bound = {name: old.get(name) for name in ("live", "bound", "bound_busy", "bound_device", "window")}
    bound |= {"gain": speedup(old["bound_to_live"]), "gain_busy": speedup(old["busy_to_live"])}
    bound |= {"gain_device": speedup(old.get("device_to_live")), "rounds": len(readings_s), "complete": True}
    iteration_s = sum(readings_s) / iterations
    shares = old["phases"].items()
    watched: dict[str, Any] = {one.name: None for one in fields(WatchResult)}
    watched |= dict.fromkeys(("stages", "workers", "slowest", "loaders", "loaders_in_loop", "notes"), ())
    watched |= {name: old[name] for name in ("wait_share", "startup_s", "start_method")}
    watched["loop"] = [{"phase": name, "share": one, "s_per_iteration": one * iteration_s} for name, one in shares]
    watched |= {"verdict": "", "status": 0, "complete": True, "usable_cores": usable_cores}
    watched |= {"bound": bound, "iterations": iterations}
    kept = ("consumer", "simulated", "batch_size", "loading", "samples_failed", "warnings")
    return {"watched": watched, **{name: old[name] for name in kept}}
