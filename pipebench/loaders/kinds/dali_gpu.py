"""NVIDIA DALI on a GPU: nvJPEG decodes, and batches are copied to the host, where the others have theirs."""

from __future__ import annotations

from functools import partial

from pipebench.loaders.kind import Kind
from pipebench.loaders.kinds import dali


def _without_gpu() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "there is no NVIDIA GPU here"


KIND = Kind(
    name="dali-gpu",
    title="DALI on a GPU, batches copied to the host",
    source=dali.SOURCE,
    open=partial(dali.opened, device="gpu"),
    does=dali.DOES,
    modules=dali.MODULES,
    distribution="nvidia.dali",
    extra="dali,lab",
    gives_up=f"{dali.GIVES_UP}; a core-second does not hold the GPU's work",
    resumes="a checkpoint of the pipeline",
    needs=_without_gpu,
)
