"""MosaicML streaming: MDS shards, a StreamingDataset that shuffles, and torch's DataLoader with worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from pipebench.loaders.kind import Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread, passes_of


def prepared(paths: Sequence[str], folder: Path) -> None:
    """Writes the files into MDS shards."""
    from streaming import MDSWriter

    columns = {"image": "bytes", "index": "int"}
    with MDSWriter(out=str(folder / "mds"), columns=columns, size_limit=1 << 24) as out:
        for index, path in enumerate(paths):
            out.write({"image": Path(path).read_bytes(), "index": index})


class _Cropped:
    """From the samples of a batch to the batch, in the worker. It can be pickled, as every start method needs."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def __call__(self, samples: Sequence[Mapping[str, Any]]) -> tuple[Any, Any, Any]:
        import torch

        images, boxes = zip(*(self._work(one["image"]) for one in samples), strict=True)
        indices = torch.tensor([int(one["index"]) for one in samples])
        return torch.from_numpy(np.stack(images)), indices, torch.from_numpy(np.stack(boxes))


def _opened(plan: Plan) -> AbstractContextManager[Passes]:
    from streaming import StreamingDataset
    from torch.utils.data import DataLoader

    one_thread()
    dataset = StreamingDataset(
        local=str(plan.folder / "mds"), shuffle=True, shuffle_seed=plan.seed, batch_size=plan.batch_size
    )  # fmt: skip
    cropped = _Cropped(Work(plan.filter, plan.side))
    loader: Any = DataLoader(
        dataset, plan.batch_size, num_workers=plan.cores, persistent_workers=True, collate_fn=cropped
    )  # fmt: skip
    return passes_of(loader)


KIND = Kind(
    name="mosaicml-streaming",
    title="MosaicML StreamingDataset, worker processes",
    source="https://docs.mosaicml.com/projects/streaming/en/stable/getting_started/main_concepts.html",
    open=_opened,
    does=DOES,
    modules=("streaming", *MODULES),
    distribution="mosaicml-streaming",
    extra="lab,opencv,simplejpeg,streaming",
    copies="MDS shards",
    resumes="StreamingDataset.state_dict",
    prepare=prepared,
)
