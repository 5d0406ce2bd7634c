"""Costs of loops, made by hand."""

from __future__ import annotations

from typing import Any

from pipebench.predict.loader import Setting
from pipebench.results.costs import LoopCosts


def made(
    cpu: float | list[float] = 0.0, blocked: float | list[float] = 0.0, step: float = 0.0, **more: Any
) -> LoopCosts:
    """Costs in which each batch takes `cpu` and `blocked` seconds, and each iteration `step` seconds."""
    batches = next((len(one) for one in (cpu, blocked) if isinstance(one, list)), 64)
    listed = [tuple(one) if isinstance(one, list) else (one,) * batches for one in (cpu, blocked)]
    known: dict[str, Any] = {"loader": 1, "workers": 1, "prefetch_factor": 2, "samples": 8.0, "iteration_s": 1.0}
    return LoopCosts(**known | {"cpu_s": listed[0], "blocked_s": listed[1], "step_s": (step,) * batches,
                                "step_cpu_s": 0.0} | more)  # fmt: skip


def setting(workers: int, cores: float = 100.0, prefetch: int = 2, others: float = 0.0) -> Setting:
    return Setting(workers, prefetch, cores, others)
