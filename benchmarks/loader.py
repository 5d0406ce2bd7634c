"""The reference pipeline through a DataLoader that nothing consumes: seconds per image by number of workers."""

import time
from statistics import median

from . import asvbench

BATCH_SIZE = 16
BATCHES = 8  # in a reading, for each worker: several times those that are made ahead


class Loader:
    """Seconds per image in the steady state, by number of workers and by the source of the samples.

    `packed` decodes only the crop, from a packed copy of the data. `ready` hands over samples that are already in
    memory, so its cost is only the hand-off.
    """

    version = asvbench.workload_version(["photos"], "loader", BATCH_SIZE, BATCHES)
    timeout = 120
    unit = "seconds"
    params = (
        asvbench.few([0, 1, 2], [2]),
        asvbench.few(["map", "packed", "webdataset", "ready"], ["map", "ready"]),
        ["photos"],
        ["224"],
    )
    param_names = ("workers", "samples", "data", "size")
    recipe = "FLOATS"

    def setup(self, workers, samples, data, size):
        if samples == "ready" and workers == 0:
            raise NotImplementedError("nothing is handed over without workers")
        asvbench.uses_pillow(samples in ("map", "webdataset"))
        try:
            errors, task, pipeline = (asvbench.module(name) for name in ("errors", "task", "reference.pipeline"))
            dataloader, loop = asvbench.module("reference.dataloader"), asvbench.module("reference.training_loop")
            knobs, health = asvbench.module("results.loading"), asvbench.module("reference.worker_health")
        except ImportError as missing:
            raise NotImplementedError(f"this commit has no {missing.name}") from missing
        self._one_thread = loop.one_thread
        workload, recipe = task.Workload(batch_size=BATCH_SIZE), getattr(pipeline, self.recipe)
        if samples == "packed" and not hasattr(pipeline, "on_packed"):
            raise NotImplementedError("this commit has no packed loader")
        loading = knobs.Loading(workers=workers, stream=samples == "webdataset")
        try:
            if samples == "packed":
                workload, recipe = pipeline.on_packed(workload, recipe)
            if samples == "ready":
                notebook = health.Notebook(loading.workers)
                collate = pipeline.Collate(workload, recipe, notebook)
                ready = pipeline.Ready(workload, recipe)
                self._live = dataloader.Live(ready, loading, BATCH_SIZE, collate, notebook=notebook)
            else:
                self._live = dataloader.reference(workload, loading, recipe)
        except (errors.PipebenchError, ImportError, task.Unavailable) as missing:
            raise NotImplementedError(str(missing)) from missing
        self._batches = BATCHES * max(1, workers)

    def teardown(self, workers, samples, data, size):
        if hasattr(self, "_live"):
            self._live.close()

    def track_seconds_per_image(self, workers, samples, data, size):
        with self._one_thread():
            self._live.start()
            self._live.discard()
            return median(self._reading() for _ in range(3))

    def _reading(self):
        begin, images = time.perf_counter(), 0
        for _ in range(self._batches):
            images += next(self._live).samples
        return (time.perf_counter() - begin) / images


@asvbench.detail
class LoaderBytes(Loader):
    """The same loader, with uint8 across the border between processes."""

    recipe = "BYTES"
