"""The workers of a stream that get a part of it: torch starts also those for which it has none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pipebench.results.watched import LoaderResult, WorkerResult


def makers(one: LoaderResult, workers: Sequence[WorkerResult]) -> list[WorkerResult]:
    """The workers without those that made no batch, where the dataset is a stream and others made some.

    A sampler deals its batches to all workers in turn; of a stream, each worker has only what the dataset gives it.
    """
    made = [each for each in workers if each.batches]
    return made if made and one.shards is not None else [*workers]
