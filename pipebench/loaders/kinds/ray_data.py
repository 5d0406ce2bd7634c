"""Ray Data: files in a random order, a map over batches in worker processes, batches from the object store."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread

_STORE_BYTES = 512 << 20


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    import ray

    one_thread()
    work = Work(plan.filter, plan.side)

    def cropped(batch: dict[str, Any]) -> dict[str, Any]:
        images, boxes = zip(*map(work, batch["bytes"]), strict=True)
        indices = [int(Path(one).stem) for one in batch["path"]]
        return {"image": np.stack(images), "index": np.array(indices), "box": np.stack(boxes)}

    def one_pass(number: int) -> Iterator[Batch]:
        order = ray.data.FileShuffleConfig(seed=plan.seed + number)
        files = ray.data.read_binary_files(list(plan.paths), include_paths=True, shuffle=order)
        batches = files.map_batches(cropped, batch_size=plan.batch_size)
        for one in batches.iter_batches(batch_size=plan.batch_size, batch_format="numpy"):
            yield Batch(one["image"], one["index"], one["box"])

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(
        address="local", num_cpus=plan.cores, include_dashboard=False, object_store_memory=_STORE_BYTES,
        log_to_driver=False, logging_level=logging.ERROR,
    )  # fmt: skip
    ray.data.DataContext.get_current().enable_progress_bars = False
    try:
        yield one_pass
    finally:
        ray.shutdown()


KIND = Kind(
    name="ray-data",
    title="Ray Data, worker processes of a local cluster",
    source="https://docs.ray.io/en/latest/data/working-with-images.html",
    open=_opened,
    does=DOES,
    modules=("ray.data", *MODULES),
    distribution="ray",
    extra="lab,opencv,ray,simplejpeg",
    gives_up="exact order: blocks come as they are ready; a shuffle of files inside a block is not one of samples",
)
