"""Grain: a MapDataset of files that shuffles, maps and batches, read by threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    import grain

    one_thread()
    work = Work(plan.filter, plan.side)

    def sample(index: int) -> tuple[Any, int, Any]:
        image, box = work.of_file(plan.paths[index])
        return image, index, box

    def one_pass(number: int) -> Iterator[Batch]:
        source = grain.MapDataset.source(range(len(plan.paths))).seed(plan.seed + number)
        batches = source.shuffle().map(sample).batch(plan.batch_size)
        reading = grain.ReadOptions(num_threads=plan.cores, prefetch_buffer_size=4 * plan.cores)
        return (Batch(*one) for one in batches.to_iter_dataset(reading))

    yield one_pass


KIND = Kind(
    name="grain",
    title="Grain MapDataset, threads",
    source="https://google-grain.readthedocs.io/en/latest/tutorials/dataset_basic_tutorial.html",
    open=_opened,
    does=DOES,
    modules=("grain", *MODULES),
    distribution="grain",
    extra="grain,lab,opencv,simplejpeg",
    resumes="the iterator's get_state",
)
