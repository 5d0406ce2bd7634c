"""Results of a watched loop, made up for tests of verdicts and moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pipebench.results.host_use import HostUse
from pipebench.results.watched import LoaderResult, PhaseResult, StageResult, WatchResult, WorkerResult


def loader(**more: Any) -> LoaderResult:
    none = dict.fromkeys(
        ("startup_s", "first_batch_s", "later_first_batch_s", "later_startup_s", "pass_end_s", "sample_s",
         "sample_cpu_s", "sample_p50_s", "sample_p95_s", "sample_p99_s")
    )  # fmt: skip
    found: dict[str, Any] = {
        "loader": 1, "dataset": "Photos", "workers": 2, "batch_size": 4, "start_method": "fork", "watched": True,
        "training": True, "passes": 1, "iterations": 100, "s_per_iteration": 0.02, "wait_s_per_iteration": 0.012,
        "samples": 400, "failed_batches": 0, **none, **more,
    }  # fmt: skip
    return LoaderResult(**found)


def worker(number: int, **more: Any) -> WorkerResult:
    worker = WorkerResult(1, number, (number,), 50, 200, 0, 1.0, 1.0, 1.0, 0.0, 0, True)
    return replace(worker, **more)


def host(foreign: float, machine_cores: int) -> HostUse:
    used = HostUse(None, None, None, None, None, None, None, None, None, None, None, (), foreign)
    return replace(used, machine_cores=machine_cores)


def result(loader: LoaderResult, cores: float = 2.0, wait_s: float = 0.012, **more: Any) -> WatchResult:
    """A loop that waits 60 % of its time for the batches of one loader."""
    found: dict[str, Any] = dict.fromkeys(WatchResult.__dataclass_fields__) | {"needless": ()}
    loop = (PhaseResult("wait", wait_s, 0.6), PhaseResult("forward", wait_s / 1.5, 0.4))
    found |= {
        "loaders": (loader,), "loaders_in_loop": (1,), "loop": loop, "iterations": 100, "wait_share": 0.6,
        "stages": (StageResult("Photos.__getitem__", "getitem", 1, 400, 0.005, 0.98),), "usable_cores": cores,
        "workers": (worker(0), worker(1)) if loader.workers else (), "wait_parts": (), "drilled": (), "notes": (),
        "costs": (),
    }  # fmt: skip
    return WatchResult(**{**found, **more})
