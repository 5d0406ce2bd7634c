"""Streams with fewer parts than workers, so that some workers have nothing to do. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pipebench.results.account import Cause
from pipebench.results.watched import LoaderResult, WorkerResult
from pipebench.watch.read.of_causes import Seen, on_cores_s, wanted_cores

CODE = "few-parts"
_MOST = 0.25  # of what faster loading could save: else what the others do is the cause


def idle_values(
    seen: Seen, one: LoaderResult, made: Sequence[WorkerResult], whole: Cause
) -> Mapping[str, str | int | float]:
    """The number of workers without a part, of those with one, and what as many parts as workers could save; or empty.

    `made` are the `makers`. The cores bound it: workers that compute share those that the script leaves.
    """
    workers = seen.workers(one)
    if len(made) == len(workers):
        return {}
    whole_s = sum(row.s for row in seen.rows(loader=one.loader))
    by_parts_s = whole_s * (1 - len(made) / len(workers))
    saved = min(whole.recoverable_s or 0.0, by_parts_s, on_cores_s(seen, one, wanted_cores(made), whole_s))
    return {"idle": len(workers) - len(made), "makers": len(made), "shards": one.shards or 0, "parts_s": saved}


def few_parts(whole: Cause) -> Cause | None:
    """The cause of a wait with such values, if as many parts as workers could save much of it."""
    saved = float(whole.values.get("parts_s", 0.0))
    if not saved or saved < _MOST * (whole.recoverable_s or 0.0):
        return None
    return replace(whole, code=CODE, recoverable_s=saved)
