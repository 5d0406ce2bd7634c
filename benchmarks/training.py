"""The training loop with live batches, and with batches that are already in memory: seconds per sample."""

from . import asvbench

WINDOW = 6
BATCH_SIZE = 16


class Training:
    """Seconds per sample of the reference loop on the CPU, by number of workers and by the source of its batches."""

    version = asvbench.workload_version(["photos"], "training", WINDOW)
    timeout = 120
    unit = "seconds"
    params = (asvbench.few([1, 2], [2]), asvbench.few(["map", "webdataset"], ["map"]), ["photos"], ["224"])
    param_names = ("workers", "samples", "data", "size")

    def setup(self, workers, samples, data, size):
        asvbench.uses_pillow(True)
        try:
            errors, task, knobs = (asvbench.module(name) for name in ("errors", "task", "results.loading"))
            dataloader, loop = asvbench.module("reference.dataloader"), asvbench.module("reference.training_loop")
        except ImportError as missing:
            raise NotImplementedError(f"this commit has no {missing.name}") from missing
        self._training = loop
        workload = task.Workload(batch_size=BATCH_SIZE)
        loading = knobs.Loading(workers=workers, stream=samples == "webdataset")
        try:
            self._live = dataloader.reference(workload, loading)
        except (errors.PipebenchError, ImportError, task.Unavailable) as missing:
            raise NotImplementedError(str(missing)) from missing
        self._model = loop.Model(workload, "step/small", loop.CPU_SIDE)

    def teardown(self, workers, samples, data, size):
        if hasattr(self, "_live"):
            self._live.close()

    def track_live(self, workers, samples, data, size):
        return self._measured(3, lambda: self._live)

    def track_bound(self, workers, samples, data, size):
        """The cost with copies of live batches, while the workers are idle."""

        def replayed():
            held = [_copied(next(self._live)) for _ in range(WINDOW)]
            self._live.settle()
            return self._training.Cached(held)

        return self._measured(3, replayed)

    def _measured(self, windows, source):
        """The fastest of a few windows, each in its steady state."""
        costs = []
        with self._training.one_thread():
            self._live.start()
            for _ in range(windows):
                self._live.discard()
                batches = source()
                self._training.train(batches, self._model, 2)
                window = self._training.train(batches, self._model, WINDOW)
                costs.append(window.elapsed_s / window.samples)
        return min(costs)


def _copied(batch):
    """The batch in this process's own memory, so that no shared memory stays in use."""
    return batch._replace(images=batch.images.clone(), labels=batch.labels.clone())
