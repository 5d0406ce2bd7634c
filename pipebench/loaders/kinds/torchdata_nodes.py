"""torchdata's nodes: a sampler, batches of indices, and threads that make each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pipebench.loaders.kind import Batch, Kind, Passes, Plan
from pipebench.loaders.recipe import DOES, MODULES, Work, one_thread


class _MapAndCollate:
    """From the indices of a batch to the batch."""

    def __init__(self, plan: Plan) -> None:
        self._paths, self._work = plan.paths, Work(plan.filter, plan.side)

    def __call__(self, indices: Sequence[int]) -> Batch:
        import torch

        images, boxes = zip(*(self._work.of_file(self._paths[one]) for one in indices), strict=True)
        return Batch(torch.from_numpy(np.stack(images)), torch.tensor(indices), torch.from_numpy(np.stack(boxes)))


@contextmanager
def _opened(plan: Plan) -> Iterator[Passes]:
    import torch
    import torchdata.nodes as tn
    from torch.utils.data import RandomSampler

    one_thread()
    sampler = RandomSampler(range(len(plan.paths)), generator=torch.Generator().manual_seed(plan.seed))
    batches = tn.Batcher(tn.SamplerWrapper(sampler), plan.batch_size, drop_last=False)
    made = tn.ParallelMapper(batches, _MapAndCollate(plan), num_workers=plan.cores, method="thread")
    loader = tn.Loader(tn.Prefetcher(made, prefetch_factor=2 * plan.cores))
    yield lambda number: loader


KIND = Kind(
    name="torchdata-nodes",
    title="torchdata nodes, threads",
    source="https://docs.pytorch.org/data/beta/migrate_to_nodes_from_utils.html",
    open=_opened,
    does=DOES,
    modules=("torchdata.nodes", *MODULES),
    distribution="torchdata",
    extra="lab,opencv,simplejpeg,torchdata",
    resumes="Loader.state_dict",
)
