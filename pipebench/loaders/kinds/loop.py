"""No loader: a loop in one thread that reads, decodes and stacks. What a loader costs above it is its hand-off."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    import numpy as np

    one_thread()
    work, rng = Work(plan.filter, plan.side), random.Random(plan.seed)

    def one_pass(number: int) -> Iterator[Batch]:
        order = rng.sample(range(len(plan.paths)), len(plan.paths))
        for begin in range(0, len(order), plan.batch_size):
            indices = order[begin : begin + plan.batch_size]
            images, boxes = zip(*(work.of_file(plan.paths[one]) for one in indices), strict=True)
            yield Batch(np.stack(images), np.array(indices), np.stack(boxes))

    yield one_pass


KIND = Kind(
    name="loop",
    title="no loader: a loop in one thread",
    source="",
    open=_opened,
    does=DOES,
    modules=MODULES,
    extra="lab,opencv,simplejpeg",
    gives_up="all but one core",
    baseline=True,
)
