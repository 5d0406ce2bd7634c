"""webdataset: tar shards, shuffled by shard and in a buffer, batched in the workers."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread

_SHARD, _BUFFER = 64, 256  # samples


def prepared(paths: Sequence[str], folder: Path) -> None:
    """Writes the files into shards; the key of a sample is its index."""
    for begin in range(0, len(paths), _SHARD):
        with tarfile.open(folder / f"shard-{begin // _SHARD:05}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for index, path in enumerate(paths[begin : begin + _SHARD], begin):
                data = Path(path).read_bytes()
                member = tarfile.TarInfo(f"{index:08}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


class _Sample:
    """From a raw sample to its crop, index and box."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, sample: dict[str, Any]) -> tuple[Any, int, Any]:
        image, box = self._work(sample["jpg"])
        return image, int(sample["__key__"]), box


def stacked(samples: Sequence[tuple[Any, int, Any]]) -> tuple[Any, Any, Any]:
    """A batch as tensors."""
    import torch

    images, indices, boxes = zip(*samples, strict=True)
    return torch.from_numpy(np.stack(images)), torch.tensor(indices), torch.from_numpy(np.stack(boxes))


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    import webdataset as wds

    one_thread()
    shards = sorted(str(one) for one in plan.folder.glob("*.tar"))
    dataset = (
        wds.WebDataset(shards, shardshuffle=len(shards), seed=plan.seed, empty_check=False)
        .shuffle(_BUFFER)
        .map(_Sample(Work(plan.filter, plan.side)))
        .batched(plan.batch_size, collation_fn=stacked)
    )
    workers = min(plan.cores, len(shards))  # a worker takes whole shards
    loader: Any = wds.WebLoader(dataset, batch_size=None, num_workers=workers, persistent_workers=True)
    yield lambda number: (Batch(*one) for one in loader)
    loader.pipeline[0]._iterator = None  # ends the workers


KIND = Kind(
    name="webdataset",
    title="webdataset, worker processes",
    source="https://github.com/webdataset/webdataset#readme",
    open=_opened,
    does=DOES,
    modules=("webdataset", *MODULES),
    distribution="webdataset",
    extra="lab,opencv,simplejpeg,webdataset",
    copies="tar shards",
    gives_up="a shuffle of the whole data set; even batches at the end of a worker",
    prepare=prepared,
)
