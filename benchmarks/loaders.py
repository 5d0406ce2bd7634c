"""What an image costs in loaders that others publish and in ours, with one recipe (`pipebench loaders`)."""

import os

from . import ROOT, asvbench

BATCH_SIZE = 16
IMAGES = 256  # in a pass; four shards, so that each of two workers of webdataset has two
CORES = 2  # workers
PASSES = 2  # that are timed, after one that is checked
KINDS = sorted(path.stem.replace("_", "-") for path in (ROOT / "pipebench/loaders/kinds").glob("[!_]*.py"))


class Loaders:
    """CPU seconds of an image in all processes together: read, decode, random resized crop of 224, flip, batch.

    They move little while others use the cores, unlike images per second.
    """

    version = asvbench.workload_version(["photos"], "loaders", BATCH_SIZE, IMAGES, CORES)
    timeout = 120
    unit = "seconds"
    params = (asvbench.few(KINDS, ["ours", "torch", "webdataset"]), ["photos"], ["224"])
    param_names = ("loader", "data", "size")

    def setup(self, loader, data, size):
        if os.environ.get("PIPEBENCH_PIL") == "simd":
            raise NotImplementedError("its rows hardly use Pillow: see the column of the stock build")
        try:
            datasets, kinds = asvbench.module("data.datasets"), asvbench.module("loaders.kind")
            self._rounds, scratch = asvbench.module("loaders.one_round"), asvbench.module("host.scratch")
        except ImportError as missing:
            raise NotImplementedError(f"this commit has no {missing.name}") from missing
        if loader not in kinds.names():
            raise NotImplementedError(f"this commit has no loader {loader}")
        self._kind, self._scratch = kinds.find(loader), scratch.Scratch("asv")
        self._paths, samples = [], datasets.load(data).samples
        for index in range(IMAGES):
            path = self._scratch.path / f"{index:06}.jpg"
            path.write_bytes(samples[index % len(samples)].read())
            self._paths.append(str(path))
        missing = self._answer("prepare").missing
        if missing is not None:
            self._scratch.remove()
            raise NotImplementedError(missing)

    def teardown(self, loader, data, size):
        if hasattr(self, "_scratch"):
            self._scratch.remove()

    def track_cpu_seconds_per_image(self, loader, data, size):
        return min(one.cpu_s / one.images for one in self._answer("run").round.passes)

    def _answer(self, action):
        """What `pipebench loaders` asks a process of its own, here in asv's."""
        job = self._rounds.Job(
            action=action, kind=self._kind.name, filter="antialiased", paths=tuple(self._paths),
            folder=str(self._scratch.path / "copy"), batch_size=BATCH_SIZE, cores=CORES, cpus=(), seed=0, side=224,
            passes=PASSES, number=0,
        )  # fmt: skip
        return self._rounds.done(job, self._kind)
