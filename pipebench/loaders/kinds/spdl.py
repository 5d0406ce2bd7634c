"""SPDL's pipeline: stages that run functions in threads, connected by queues. A pipeline is made for each pass."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread


def _stacked(samples: Sequence[tuple[Any, int, Any]]) -> Batch:
    images, indices, boxes = zip(*samples, strict=True)
    return Batch(np.stack(images), np.array(indices), np.stack(boxes))


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    from spdl.pipeline import PipelineBuilder

    one_thread()
    work, rng = Work(plan.filter, plan.side), random.Random(plan.seed)

    def sample(index: int) -> tuple[Any, int, Any]:
        image, box = work.of_file(plan.paths[index])
        return image, index, box

    def one_pass(number: int) -> Iterator[Batch]:
        pipeline: Any = (
            PipelineBuilder()
            .add_source(rng.sample(range(len(plan.paths)), len(plan.paths)))
            .pipe(sample, concurrency=plan.cores)
            .aggregate(plan.batch_size)
            .pipe(_stacked)
            .add_sink(2 * plan.cores)
            .build(num_threads=plan.cores)
        )
        with pipeline.auto_stop():
            yield from pipeline

    yield one_pass


KIND = Kind(
    name="spdl",
    title="SPDL pipeline, threads",
    source="https://facebookresearch.github.io/spdl/main/getting_started/intro.html",
    open=_opened,
    does=DOES,
    modules=("spdl.pipeline", *MODULES),
    distribution="spdl",
    extra="lab,opencv,simplejpeg,spdl",
    gives_up="exact order: samples come as they are ready (output_order changes that); its own decoder needs FFmpeg",
)
