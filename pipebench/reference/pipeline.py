"""The reference input pipeline as a Dataset and a collate function, composed from the variants of the lab.

Built callables cannot be pickled. So a dataset carries the identities of its variants and builds them where it is used:
in this process or in a worker, under fork, spawn and forkserver alike.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from pipebench.data import datasets, listing
from pipebench.data.image_header import has_restart_markers, image_size
from pipebench.errors import BadSample, PipebenchError, kind_of
from pipebench.native import region
from pipebench.native.building import NativeError
from pipebench.reference.worker_health import Notebook
from pipebench.stage import find
from pipebench.stages import crop, read, transform
from pipebench.stages.step import CLASSES
from pipebench.task import Unavailable, Workload
from pipebench.units import printable

_DRAWS = {"crop/fixed-256": (crop.fixed_box, 256), "crop/resized-224": (crop.resized_box, 224)}


@dataclass(frozen=True)
class Recipe:
    """The identities of the variants that make a batch. By default these are the references, as in usual ImageNet code.

    `collate` may name a transform. That transform then runs once for the whole batch and also stacks it.
    """

    read: str = "read/image/open"
    crop: str = "crop/resized-224/tensor-first"
    transforms: tuple[str, ...] = ("transform/flip-normalise/v1-sample",)
    collate: str = "collate/float32/default"

    @property
    def dtype(self) -> str:
        """The type of the pixels that cross the border between processes: float32 or uint8."""
        return "uint8" if self.collate.startswith("collate/uint8") else "float32"


FLOATS = Recipe()
BYTES = Recipe(transforms=(), collate="collate/uint8/default")  # the consumer does flip and normalisation


def on_packed(workload: Workload, recipe: Recipe) -> tuple[Workload, Recipe]:
    """The same pipeline on a packed copy of the data, of which it decodes only the crop: the same pixels to a level.

    An embedded dataset has a packed copy. The user's own data is its own, if its first good sample has restart markers.
    Raises `Unavailable` if there is no copy, or if nothing can be built here that decodes a crop alone.
    """
    only_the_crop = replace(recipe, crop="crop/resized-224/region-exact")
    try:
        region.library_name()
        if datasets.is_embedded(workload.data):
            copy = replace(workload, data=workload.data.removesuffix(datasets.PACKED) + datasets.PACKED)
            read.load(copy)
            return copy, only_the_crop
    except NativeError as missing:
        raise Unavailable(missing.code, missing.problem) from missing
    if not has_restart_markers(good(workload)[0].read()):
        raise Unavailable("not-built", "your files are not packed; `pipebench pack` makes a copy: name it with --data")
    return workload, only_the_crop


class LoadedBatch(NamedTuple):
    """A batch from a loader: images N×3×S×S and their labels (empty if no sample was good), and the bad samples."""

    images: Any
    labels: Any
    bad: tuple[BadSample, ...] = ()

    @property
    def samples(self) -> int:
        return len(self.images)


class Chain:
    """Makes a tensor from one sample's encoded bytes, and a batch from samples. It is built where it is used.

    The workload's seed and the sample's key determine all that is random (box, mask, flip), so every chain draws alike.
    `around` may put something around the call of each stage, such as a clock: it gets the stage and the call.
    """

    def __init__(
        self,
        recipe: Recipe,
        workload: Workload,
        cropping: Callable[[crop.Cut], Any] | None = None,
        around: Callable[[str, Callable[[Any], Any]], Callable[[Any], Any]] = lambda stage, call: call,
    ) -> None:
        self._task = recipe.crop.rpartition("/")[0]
        self._seed = workload.seed
        self._crop = around("decode + crop", cropping or _built(recipe.crop, workload))
        built = [(one.split("/")[1], _built(one, workload)) for one in recipe.transforms]
        self._transforms = [(task, around("transform", call)) for task, call in built]
        self._collate = around("collate", _built(recipe.collate, workload))
        self._batched = recipe.collate.startswith("transform/")
        if "cv2" in sys.modules:
            sys.modules["cv2"].setNumThreads(1)  # in a worker OpenCV would start a thread for every core

    def sample(self, key: str, data: bytes) -> Any:
        """The tensor that one sample contributes to its batch. Raises whatever a library raises on the sample."""
        draw, size = _DRAWS[self._task]
        width, height = image_size(data)
        rng = random.Random(f"{self._seed} {key}")
        image = self._crop(crop.Cut(data, width, height, draw(rng, width, height, size), size))
        for task, call in self._transforms:
            given = transform.Batch(
                (image.contiguous(),),
                masks=(self._mask(key, size),) if task == "mask" else (),
                flips=(rng.random() < 0.5,) if task == "flip-normalise" else (),
            )
            image = call(given)[0]
        return image

    def _mask(self, key: str, size: int) -> Any:
        rng = np.random.default_rng([self._seed, zlib.crc32(key.encode())])
        return rng.random((size, size), np.float32) < transform.MASKED

    def collate(self, samples: list[Any]) -> Any:
        """One batch tensor. In a worker, it lies in shared memory."""
        return self._collate(transform.Batch(tuple(samples)) if self._batched else samples)


def _built(identity: str, workload: Workload) -> Callable[[Any], Any]:
    return find(identity)[1].build(workload)


def label(key: str) -> int:
    """A class number for a sample: as good as random, and the same in every process."""
    return zlib.crc32(key.encode()) % CLASSES


Item = tuple[Any, int] | BadSample


class _Built:
    """What a dataset and a collate function share: identities, which are pickled, and callables, which are not."""

    def __init__(self, workload: Workload, recipe: Recipe, notebook: Notebook | None) -> None:
        self.workload, self.recipe, self.notebook = workload, recipe, notebook
        self._chain: Chain | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_chain": None}

    @property
    def chain(self) -> Chain:
        if self._chain is None:
            self._chain = Chain(self.recipe, self.workload)
        return self._chain

    def item(self, key: str, read_bytes: Callable[[], bytes]) -> Item:
        """A sample and its label, or the record of a bad one."""
        if self.notebook is not None:
            self.notebook.begin(key)
        try:
            return self.chain.sample(key, read_bytes()), label(key)
        except Exception as error:  # whatever a library raises on one sample makes it a bad sample
            kind = kind_of(error)
            worker = get_worker_info()
            return BadSample("loader", key, None, kind, printable(str(error))[:300], 0.0, worker.id if worker else None)


class Photographs(_Built, Dataset[Item]):
    """The map-style dataset. `__getitem__` reads, crops and transforms one sample; a bad sample comes as a record."""

    def __init__(self, workload: Workload, recipe: Recipe, notebook: Notebook | None = None) -> None:
        super().__init__(workload, _readable(recipe, workload), notebook)
        self._length = len(good(workload))
        self._reading: Callable[[Any], Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_reading": None}

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Item:
        one = good(self.workload)[index]
        return self.item(one.key, lambda: self._bytes(one))

    def _bytes(self, one: listing.Sample) -> bytes:
        if self._reading is None:
            self._reading = _built(self.recipe.read, self.workload)
        shard = one.extents[one.image].path if one.extents else None
        table = one.cell.path if one.cell else None
        ((_, (data,)),) = self._reading(read.Source((one,), shard, ((one.image,),), table))
        return bytes(data)


def _readable(recipe: Recipe, workload: Workload) -> Recipe:
    """The recipe. If the data is only shards or tables, its read is replaced by one that has random access there.

    That to Parquet reads a whole row group for each image.
    """
    listed = read.load(workload)
    if listed.tables:
        form = listed.tables[0].form
        return replace(recipe, read="read/image/parquet" if form == "parquet" else "read/image/arrow-ipc")
    loose = any(one.files for one in listed.samples)
    return recipe if loose else replace(recipe, read="read/image/tar-index")


_good: dict[tuple[str, int | None], list[listing.Sample]] = {}


def good(workload: Workload) -> list[listing.Sample]:
    """The listed samples without a known problem. Raises `PipebenchError` if there is none."""
    identity = workload.data, workload.limit
    if identity not in _good:
        found = [one for one in read.load(workload).samples if one.problem is None]
        if not found:
            raise PipebenchError(f"{printable(workload.data)} has no good sample", "name data with readable images")
        _good[identity] = found
    return _good[identity]


class Ready(Dataset[Item]):
    """A dataset of samples that are already in memory. The cost left is to collate them and to hand them over."""

    def __init__(self, workload: Workload, recipe: Recipe, distinct: int = 16) -> None:
        self._workload, self._recipe, self._distinct = workload, recipe, distinct
        self._samples: list[Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_samples": None}

    def __len__(self) -> int:
        return 1024

    def __getitem__(self, index: int) -> Item:
        if self._samples is None:
            one = first(self._workload, self._recipe)
            self._samples = [one.clone() for _ in range(self._distinct)]
        return self._samples[index % self._distinct], index % CLASSES


@functools.lru_cache(maxsize=4)
def first(workload: Workload, recipe: Recipe) -> Any:
    """The first sample that the recipe can make. Raises `PipebenchError` if it can make none."""
    dataset = Photographs(workload, recipe)
    for index in range(len(dataset)):
        item = dataset[index]
        if not isinstance(item, BadSample):
            return item[0].contiguous()
    raise PipebenchError(f"{printable(workload.data)} has no good sample", "name data with readable images")


def sample_bytes(workload: Workload, recipe: Recipe) -> int:
    """How many bytes one sample takes in a batch."""
    return int(first(workload, recipe).nbytes)


class Stream(_Built, IterableDataset[Item]):
    """The shards read by webdataset, without end. Each worker goes through all shards, starting at one of its own.

    webdataset's `resampled=True` has the same purpose: no worker is ever without a shard, and an epoch is a count.
    """

    def __init__(self, workload: Workload, recipe: Recipe, notebook: Notebook | None = None) -> None:
        super().__init__(workload, replace(recipe, read="read/image/webdataset"), notebook)
        if not read.load(workload).shards:
            raise PipebenchError(
                f"{printable(workload.data)} is loose files, and no shards are made of them", "name tar shards"
            )

    def __iter__(self) -> Iterator[Item]:
        places = self._places()
        while True:
            seen = False
            for found in self._shards(places):
                if self.notebook is not None and self.notebook.finished:
                    return
                key, suffix = places[found["__url__"]][found["__key__"]]
                seen = True
                yield self.item(key, lambda data=found[suffix]: data)  # type: ignore[misc]  # bound at once
            if not seen:
                raise PipebenchError("no sample came out of the shards", "look at them with `pipebench data`")

    def _shards(self, places: dict[str, dict[str, tuple[str, str]]]) -> Any:
        """The read variant's WebDataset over all shards at once; each worker goes through all of them."""
        import webdataset

        names = {f"{name}.{suffix}" for members in places.values() for name, (_, suffix) in members.items()}
        return webdataset.WebDataset(
            list(places),
            shardshuffle=False,
            empty_check=False,
            workersplitter=lambda urls: urls,
            select_files=lambda name: name in names,
        )

    def _places(self) -> dict[str, dict[str, tuple[str, str]]]:
        """For each shard: name in the tar -> (key, image suffix) of a good sample. Begins at this worker's shard."""
        usable = {one.key: one for one in good(self.workload)}
        found = {}
        for shard in read.load(self.workload).shards:
            kept = [usable[key] for key in shard.keys if key in usable]
            found[os.path.abspath(shard.path)] = {one.tar_key: (one.key, one.image) for one in kept}
        worker, paths = get_worker_info(), list(found)
        first = worker.id * len(paths) // worker.num_workers if worker else 0
        return {path: found[path] for path in paths[first:] + paths[:first]}


class Collate(_Built):
    """The collate function: collates the good samples with the variant, and adds labels and records of bad samples."""

    def __call__(self, items: Sequence[Item]) -> LoadedBatch:
        import torch

        bad = tuple(one for one in items if isinstance(one, BadSample))
        pairs = [one for one in items if not isinstance(one, BadSample)]
        batch = LoadedBatch(torch.empty(0), torch.empty(0), bad)
        if pairs:
            images = self.chain.collate([image for image, _ in pairs])
            batch = LoadedBatch(images, torch.tensor([label for _, label in pairs]), bad)
        if self.notebook is not None:
            self.notebook.made()
        return batch


class Endless:
    """Shuffled batches of indices without end. Epochs follow each other inside it, until `finish` ends the iteration.

    So a DataLoader meets a boundary between epochs, which can then be timed, only where it is asked for.
    """

    def __init__(self, count: int, batch_size: int, seed: int) -> None:
        self._count, self._batch_size, self._rng = count, batch_size, random.Random(seed)
        self._finished = False

    def finish(self) -> None:
        self._finished = True

    def __iter__(self) -> Iterator[list[int]]:
        self._finished = False
        indices = self._indices()
        while not self._finished:
            yield [next(indices) for _ in range(self._batch_size)]

    def _indices(self) -> Iterator[int]:
        while True:
            yield from self._rng.sample(range(self._count), self._count)
